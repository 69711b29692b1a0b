// Language modelling: losses and metrics over the targets that count.
#include <cmath>

#include "tests/support/data_files.h"
#include "tests/support/plugins.h"

namespace attnlab::language_modelling_test {
namespace {

using attnlab::testing::mentions;
using ::testing::HasSubstr;
using testing::message_of;

constexpr std::int64_t kVocabulary = 7;

DatasetInfo text_info(std::int64_t window) {
  DatasetInfo info;
  info.name = "a text";
  info.vocabulary = kVocabulary;
  info.fields = {
      {.name = "tokens", .shape = {window}, .dtype = at::kLong, .categories = kVocabulary},
      {.name = "targets", .shape = {window}, .dtype = at::kLong, .categories = kVocabulary}};
  return info;
}

std::shared_ptr<Task> make(const std::string& options = "{}", std::int64_t window = 4) {
  return testing::make_task("language_modelling", text_info(window), options);
}

Batch batch_of(const Tensor& targets) {
  Batch batch;
  batch.size = targets.size(0);
  batch.fields.set("targets", targets);
  return batch;
}

NamedTensors nll(const Tensor& values) { return {{"nll", values}}; }

/// Two rows, of which three targets count: 1, 2 and 6 nats.
const Tensor kTargets = at::tensor({3, -1, 0, -1, 6, -1, -1, -1}, at::kLong).view({2, 4});
const Tensor kNll = at::tensor({1.f, 50.f, 2.f, 50.f, 6.f, 50.f, 50.f, 50.f}).view({2, 4});

TEST(LanguageModelling, IsTheMeanOverTargetsThatCount) {
  const auto task = make();
  EXPECT_FLOAT_EQ(task->loss(nll(kNll), batch_of(kTargets)).item<float>(), 3);
  EXPECT_EQ(task->weight(batch_of(kTargets)), 3);
  const auto meter = task->meter();
  meter->add(nll(kNll), batch_of(kTargets));
  EXPECT_DOUBLE_EQ(meter->result().at("nll"), 3);
  EXPECT_DOUBLE_EQ(meter->result().at("perplexity"), std::exp(3.0));
}

TEST(LanguageModelling, GivesNoGradientToWhatDoesNotCount) {
  const Tensor values = kNll.clone().requires_grad_();
  make()->loss(nll(values), batch_of(kTargets)).backward();
  const Tensor third = kTargets.ge(0).to(at::kFloat) / 3;
  EXPECT_TRUE(at::allclose(values.grad(), third));
}

TEST(LanguageModelling, IsZeroWhereNothingCounts) {
  const Tensor values = kNll.clone().requires_grad_();
  const Batch none = batch_of(at::full({2, 4}, -1, at::kLong));
  EXPECT_EQ(make()->loss(nll(values), none).item<float>(), 0);
  EXPECT_EQ(make()->weight(none), 0);
  EXPECT_THROW(make()->meter()->result(), Error);
}

TEST(LanguageModelling, HasThePerplexityOfTheVocabularyForAUniformModel) {
  for (const char* family : {"transformer_lm", "transformer_xl"}) {
    const auto model =
        testing::make_model(family, text_info(4), "{dim: 8, depth: 1, heads: 2, softmax: plain}");
    const at::NoGradGuard no_gradients;
    for (auto& item : model->named_parameters()) {
      if (item.key().rfind("table", 0) == 0) item.value().zero_();
    }
    const auto meter = make("{unit: character}")->meter();
    for (int i = 0; i < 5; ++i) {
      Batch batch = batch_of(at::randint(0, kVocabulary, {3, 4}, at::kLong));
      batch.fields.set("tokens", at::randint(0, kVocabulary, {3, 4}, at::kLong));
      ForwardPass pass;
      meter->add(model->forward(batch, pass), batch);
    }
    const Metrics metrics = meter->result();
    EXPECT_NEAR(metrics.at("perplexity"), kVocabulary, 1e-5) << family;
    EXPECT_NEAR(metrics.at("nll"), std::log(7.0), 1e-6) << family;
    EXPECT_NEAR(metrics.at("bits_per_character"), std::log2(7.0), 1e-6) << family;
  }
}

TEST(LanguageModelling, StatesWhatItMeasures) {
  const auto names = [](const Task& task) {
    std::vector<std::string> all;
    for (const MetricInfo& info : task.metrics()) {
      EXPECT_EQ(info.better, Better::lower);
      all.push_back(info.name + " " + info.unit);
    }
    return all;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(*make()), (Names{"perplexity ", "nll nats/token"}));
  EXPECT_EQ(names(*make("{unit: byte}")),
            (Names{"nll nats/byte", "bits_per_byte bits/byte", "perplexity "}));
  EXPECT_EQ(names(*make("{context: true}", 3)),
            (Names{"perplexity ", "nll nats/token", "context/1/nll nats/token",
                   "context/1/perplexity ", "context/2/nll nats/token", "context/2/perplexity ",
                   "context/3/nll nats/token", "context/3/perplexity "}));
}

TEST(LanguageModelling, TellsTargetsApartByTheirContext) {
  const auto meter = make("{context: true}", 6)->meter();
  const Tensor values = at::arange(1, 13, at::kFloat).view({2, 6});
  const Tensor targets = at::zeros({2, 6}, at::kLong);
  meter->add(nll(values), batch_of(targets));
  const Metrics metrics = meter->result();
  EXPECT_DOUBLE_EQ(metrics.at("context/1/nll"), (1 + 7) / 2.0);
  EXPECT_DOUBLE_EQ(metrics.at("context/2/nll"), (2 + 8) / 2.0);
  EXPECT_DOUBLE_EQ(metrics.at("context/4/nll"), (3 + 4 + 9 + 10) / 4.0);
  EXPECT_DOUBLE_EQ(metrics.at("context/6/nll"), (5 + 6 + 11 + 12) / 4.0);
  EXPECT_DOUBLE_EQ(metrics.at("context/6/perplexity"), std::exp(8.5));
  EXPECT_DOUBLE_EQ(metrics.at("nll"), 6.5);
}

TEST(LanguageModelling, LeavesOutContextsThatNoTargetHas) {
  const auto meter = make("{context: true}", 4)->meter();
  const Tensor targets = at::tensor({-1, -1, -1, 2}, at::kLong).view({1, 4});
  meter->add(nll(at::ones({1, 4})), batch_of(targets));
  EXPECT_EQ(meter->result().count("context/1/nll"), 0U);
  EXPECT_DOUBLE_EQ(meter->result().at("context/4/nll"), 1);
}

TEST(LanguageModelling, SumsInDoublePrecisionWhateverTheBatches) {
  const Tensor values = at::rand({64, 4}) * 1e-3 + 10;
  const Tensor targets = at::zeros({64, 4}, at::kLong);
  const auto whole = make()->meter(), parts = make()->meter();
  whole->add(nll(values), batch_of(targets));
  for (std::int64_t i = 0; i < 64; i += 7) {
    const std::int64_t size = std::min<std::int64_t>(7, 64 - i);
    parts->add(nll(values.narrow(0, i, size)), batch_of(targets.narrow(0, i, size)));
  }
  EXPECT_NEAR(whole->result().at("nll"), values.to(at::kDouble).mean().item<double>(), 1e-12);
  EXPECT_NEAR(parts->result().at("nll"), whole->result().at("nll"), 1e-12);
}

TEST(LanguageModelling, RefusesWhatDoesNotFit) {
  const auto task = make();
  EXPECT_THAT(message_of<ShapeError>([&] {
                task->loss(nll(at::zeros({2, 3})), batch_of(kTargets));
              }),
              mentions("targets [2, 4] int64", "got [2, 3]"));
  EXPECT_THROW(task->loss(nll(kNll), batch_of(kTargets + kVocabulary)), DataError);
  EXPECT_THROW(task->meter()->add(nll(kNll), batch_of(kTargets + kVocabulary)), DataError);
  EXPECT_THAT(message_of<ConfigError>([] { make("{context: true}", -1); }),
              mentions("context:", "windows of one length"));
  DatasetInfo images;
  images.name = "images";
  EXPECT_THAT(message_of<DataError>([&] { testing::make_task("language_modelling", images); }),
              HasSubstr("has no vocabulary"));
}

/// What data of questions have beside tokens and targets.
DatasetInfo questions(bool choices) {
  DatasetInfo info = text_info(-1);
  info.fields.push_back({.name = "cut", .shape = {}, .dtype = at::kLong});
  if (choices) info.fields.push_back({.name = "choice", .shape = {5}, .dtype = at::kLong});
  return info;
}

TEST(Requests, OfContinuationsAreCountedWhole) {
  const auto task =
      testing::make_task("language_modelling", questions(false), "{requests: true, answers: true}");
  EXPECT_EQ(task->metrics()[0].name, "accuracy");
  EXPECT_EQ(task->metrics()[2].unit, "nats/request");
  // 3 nats in two tokens, both the likeliest; 6 nats in one that is not; what is not a target
  // counts nowhere.
  const Tensor targets = at::tensor({-1, 3, 0, 6, -1, -1}, at::kLong).view({2, 3});
  const Tensor answers = at::tensor({5, 3, 0, 1, -1, -1}, at::kLong).view({2, 3});
  Batch batch = batch_of(targets);
  batch.fields.set("cut", at::tensor({0, 4}, at::kLong));
  const Tensor values = at::tensor({9.f, 1.f, 2.f, 6.f, 9.f, 9.f}).view({2, 3});
  const auto meter = task->meter();
  meter->add({{"nll", values}, {"answers", answers}}, batch);
  const Metrics metrics = meter->result();
  EXPECT_DOUBLE_EQ(metrics.at("accuracy"), 0.5);
  EXPECT_DOUBLE_EQ(metrics.at("nll"), 4.5);
  EXPECT_DOUBLE_EQ(metrics.at("perplexity"), std::exp(4.5));
  EXPECT_DOUBLE_EQ(metrics.at("cut"), 1);
}

/// Choices of [question, choice, how many, right, characters], each of one token.
Batch choices_of(const std::vector<std::vector<std::int64_t>>& choices) {
  Batch batch = batch_of(at::zeros({std::ssize(choices), 1}, at::kLong));
  std::vector<Tensor> rows;
  for (const auto& choice : choices) rows.push_back(at::tensor(choice, at::kLong));
  batch.fields.set("choice", at::stack(rows));
  return batch;
}

TEST(Requests, OfChoicesAreJudgedByQuestionOverBatches) {
  const auto task = testing::make_task("language_modelling", questions(true), "{requests: true}");
  const auto meter = task->meter();
  // Question 0: 2 nats for 1 character are the fewest, 3 for 6 the fewest a character. Question 1:
  // of equal ones the first.
  meter->add(nll(at::tensor({3.f, 2.f}).view({2, 1})),
             choices_of({{0, 0, 3, 0, 6}, {0, 1, 3, 0, 1}}));
  EXPECT_THAT(message_of<UndefinedMetrics>([&] { meter->result(); }),
              mentions("question 0", "2 of its 3 choices"));
  meter->add(nll(at::tensor({4.f, 5.f, 5.f}).view({3, 1})),
             choices_of({{0, 2, 3, 0, 2}, {1, 0, 2, 0, 2}, {1, 1, 2, 0, 2}}));
  const Metrics metrics = meter->result();
  EXPECT_DOUBLE_EQ(metrics.at("accuracy"), 0.5);
  EXPECT_DOUBLE_EQ(metrics.at("accuracy_normalised"), 1);
  EXPECT_DOUBLE_EQ(metrics.at("nll"), 19 / 5.0);
  EXPECT_EQ(metrics.count("perplexity"), 0U);
  ASSERT_EQ(task->metrics().size(), 4U);
  for (const MetricInfo& info : task->metrics()) EXPECT_EQ(metrics.count(info.name), 1U);
}

TEST(Requests, NeedDataOfQuestions) {
  EXPECT_THAT(message_of<Error>([] { make("{requests: true}"); }),
              mentions("'a text'", "no questions", "dataset.form"));
}

TEST(LanguageModelling, ByBytePairsIsPerToken) {
  const std::vector<MetricInfo> infos = make("{unit: byte_pair}")->metrics();
  ASSERT_EQ(infos.size(), 2U);
  EXPECT_EQ(infos[1].unit, "nats/token");
}

}  // namespace
}  // namespace attnlab::language_modelling_test
