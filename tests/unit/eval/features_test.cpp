// Features of a model by name, of a model whose tokens say which layer they are of.
#include "framework/eval/features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/message_of.h"

namespace attnlab::features_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

/// Layer l gives class tokens [10 l, x] and patches [l, x], [l + 2, x].
class Layers final : public Model {
 public:
  explicit Layers(bool with_class = true, std::int64_t depth = 3)
      : with_class_(with_class), depth_(depth) {}

  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    const Tensor x = batch.fields.at("x");
    if (pass.features == nullptr || depth_ == 0) return {{"logits", x}};
    pass.features->depth = depth_;
    for (std::int64_t layer = 1; layer <= depth_; ++layer) {
      if (!pass.features->wants(layer)) continue;
      const auto token = [&](std::int64_t first) {
        return at::stack({at::full_like(x, first), x}, 1);
      };
      LayerFeatures found;
      found.layer = layer;
      if (with_class_) found.class_token = token(10 * layer);
      found.tokens = at::stack({token(layer), token(layer + 2)}, 1);
      found.rows = 1;
      found.columns = 2;
      pass.features->found.push_back(found);
    }
    return {{"logits", x}};
  }

 private:
  bool with_class_;
  std::int64_t depth_;
};

Batch batch_of(const std::vector<float>& x) {
  Batch batch;
  batch.size = static_cast<std::int64_t>(x.size());
  batch.fields.set("x", at::tensor(x));
  return batch;
}

std::vector<float> row(const std::vector<std::string>& names, bool with_class = true) {
  Layers model(with_class);
  const Tensor found = FeatureReader(names).read(model, batch_of({0.5, 0.25}))[1].contiguous();
  return {found.data_ptr<float>(), found.data_ptr<float>() + found.numel()};
}

TEST(Features, AreNamedByTokenAndLayer) {
  using Row = std::vector<float>;
  EXPECT_EQ(row({"class"}), (Row{30, 0.25}));
  EXPECT_EQ(row({"mean"}), (Row{4, 0.25})) << "of tokens 3 and 5";
  EXPECT_EQ(row({"pooled"}), (Row{30, 0.25}));
  EXPECT_EQ(row({"pooled"}, false), (Row{4, 0.25})) << "there is no class token";
  EXPECT_EQ(row({"class@1"}), (Row{10, 0.25}));
  EXPECT_EQ(row({"mean@-2"}), (Row{3, 0.25}));
  EXPECT_EQ(row({"class@last2"}), (Row{20, 0.25, 30, 0.25})) << "the earlier layer first";
  EXPECT_EQ(row({"mean", "class@1"}), (Row{4, 0.25, 10, 0.25})) << "in the order of the names";
}

TEST(Features, GiveTheTokensOfTheLayersThemselves) {
  Layers model;
  const auto found = FeatureReader({"mean@2"}).layers(model, batch_of({1}));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].layer, 2);
  EXPECT_EQ(found[0].columns, 2);
  EXPECT_EQ(found[0].tokens[0][1][0].item<float>(), 4);
}

TEST(Features, OfAnotherFormAreRefused) {
  for (const char* name : {"", "cls", "class@", "class@0", "class@last", "mean@last0", "class@x",
                           "class@-20000", "class@1.5"}) {
    EXPECT_THAT(message_of<OptionError>([&] {
                  FeatureReader({"class", name});
                }),
                AllOf(HasSubstr("features: \"" + std::string(name) + "\""),
                      HasSubstr("class@3, mean@-1, class@last4")))
        << name;
  }
  EXPECT_THAT(message_of<OptionError>([] { FeatureReader({}, "names"); }),
              HasSubstr("names: names nothing"));
}

TEST(Features, ThatTheModelLacksAreRefused) {
  const auto refusal = [](const std::string& name, bool with_class) {
    return message_of<OptionError>([&] { row({name}, with_class); });
  };
  EXPECT_THAT(refusal("class@4", true),
              AllOf(HasSubstr("features: \"class@4\""), HasSubstr("layers 1 to 3 (-3 to -1")));
  EXPECT_THAT(refusal("class@last4", true), HasSubstr("layers 1 to 3"));
  EXPECT_THAT(refusal("class", false), HasSubstr("no class token; take mean"));
  Layers silent(true, 0);
  EXPECT_THAT(message_of<DataError>([&] { FeatureReader({"mean"}).read(silent, batch_of({1})); }),
              HasSubstr("must answer ForwardPass::features"));
}

/// Splits of three examples, two classes.
class Tables : public ::testing::Test {
 protected:
  Tables() {
    data_.name = "toy";
    data_.classes = 2;
    evaluation_.batches = [&](Split split, const std::function<void(const Batch&)>& use) {
      ++asked_;
      Batch batch = batch_of({x_, 2, 3});
      batch.fields.set("class", at::tensor(split == Split::train ? classes_ : of_test_, at::kLong));
      use(batch);
      use(batch);
    };
  }

  DatasetInfo data_;
  Layers model_;
  std::vector<std::int64_t> classes_ = {0, 1, 0}, of_test_ = {1, 1, 1};
  float x_ = 1;
  int asked_ = 0;
  Fitted fitted_;
  Evaluation evaluation_{model_, data_, Split::test, RandomStreams(0), {}};
};

TEST_F(Tables, HoldASplitWithItsClasses) {
  const FeatureTable table = features_of(evaluation_, Split::test, FeatureReader({"mean"}));
  EXPECT_EQ(table.size(), 6);
  EXPECT_TRUE(table.classes.equal(at::ones({6}, at::kLong)));
  EXPECT_EQ(table.features[4][1].item<float>(), 2);
}

TEST_F(Tables, OfTrainingAreReadOnce) {
  evaluation_.fitted = &fitted_;
  const FeatureReader reader({"class"});
  const Tensor first = training_features(evaluation_, reader).features;
  EXPECT_TRUE(training_features(evaluation_, reader).features.equal(first));
  EXPECT_EQ(asked_, 1);
  EXPECT_EQ(fitted_.saved.size(), 0U) << "features are kept in memory alone";
}

TEST_F(Tables, RefuseClassesThatAreNotThereAndFeaturesThatAreNoNumbers) {
  const FeatureReader reader({"class"});
  const auto refusal = [&] {
    return message_of<DataError>([&] { training_features(evaluation_, reader); });
  };
  classes_ = {0, 0, 0};
  EXPECT_THAT(refusal(), mentions("class 1", "'toy'", "no training example"));
  data_.class_names = {"cat", "dog"};
  EXPECT_THAT(refusal(), HasSubstr("class \"dog\" of 'toy'"));
  classes_ = {0, 2, 1};
  EXPECT_THAT(refusal(), mentions("train split", "'toy'", "class 2"));
  classes_ = {0, 1, 0};
  x_ = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(refusal(), mentions("train split", "'toy'", "not numbers"));
}

}  // namespace
}  // namespace attnlab::features_test
