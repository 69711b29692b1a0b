// kNN, linear probe and logistic regression: tasks that read the features of a vision transformer.
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "framework/data/loader.h"
#include "framework/eval/features.h"
#include "framework/eval/logistic_regression.h"
#include "tests/support/message_of.h"
#include "tests/support/plugins.h"

namespace attnlab::probes_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

constexpr const char* kModel = "{dim: 16, depth: 2, heads: 2, patch_size: 4}";

class Probes : public ::testing::Test {
 protected:
  void open(const std::string& options =
                "{classes: 5, size: 8, train: 90, validation: 40, test: 40,"
                " noise: 0.3, shift: 0.5}",
            const std::string& model = kModel) {
    data_ = testing::make_dataset("synthetic_images", options);
    at::manual_seed(1);
    model_ = testing::make_model("vit", data_->info(), model);
    model_->eval();
  }

  std::shared_ptr<Task> task(const std::string& id, const std::string& options = "{}") const {
    return testing::make_task(id, data_->info(), options);
  }

  void each(Split split, const std::function<void(const Batch&)>& use) const {
    LoaderSettings settings;
    settings.split = split;
    settings.workers = 0;
    Loader loader(*data_, RandomStreams(0), plan_in_order(data_->size(split), 16), settings);
    while (auto batch = loader.next()) use(to_device(*batch, device_));
  }

  Metrics measured(const Task& task, Fitted* fitted = nullptr, Split split = Split::test) const {
    const at::NoGradGuard no_gradients;
    Evaluation evaluation{*model_, data_->info(), split, RandomStreams(3), {}};
    evaluation.batches = [&](Split of, const std::function<void(const Batch&)>& use) {
      if (of == Split::train) ++reads_;
      each(of, use);
    };
    if (augmented_) {
      evaluation.training = [&](std::uint64_t, const std::function<void(const Batch&)>& use) {
        each(Split::train, use);
      };
    }
    evaluation.fitted = fitted;
    return task.evaluate(evaluation);
  }

  FeatureTable table(Split split, const std::string& name = "class") const {
    const at::NoGradGuard no_gradients;
    std::vector<Tensor> features, classes;
    const FeatureReader reader({name});
    each(split, [&](const Batch& batch) {
      features.push_back(reader.read(*model_, batch));
      classes.push_back(batch.fields.at("class"));
    });
    return {at::cat(features), at::cat(classes)};
  }

  std::shared_ptr<Dataset> data_;
  std::shared_ptr<Model> model_;
  bool augmented_ = false;  ///< whether there are batches of training (unchanged ones)
  mutable int reads_ = 0;   ///< of the training split, as it is evaluated
  at::Device device_ = at::kCPU;
};

TEST_F(Probes, ReadTheTokensOfEveryLayer) {
  open();
  each(Split::test, [&](const Batch& batch) {
    const at::NoGradGuard no_gradients;
    ForwardPass pass;
    const Tensor tokens = model_->forward(batch, pass).at("tokens");
    const auto found = FeatureReader({"class@last2"}).layers(*model_, batch);
    ASSERT_EQ(found.size(), 2U);
    EXPECT_TRUE(found[1].class_token.equal(tokens.select(1, 0))) << "the last layer";
    EXPECT_TRUE(found[1].tokens.equal(tokens.narrow(1, 1, 4)));
    EXPECT_FALSE(found[0].class_token.allclose(found[1].class_token));
    EXPECT_EQ(found[0].rows * found[0].columns, 4);
  });
}

/// Where there is no class token the mean of the patches is read.
TEST_F(Probes, ReadModelsWithoutAClassToken) {
  open("{classes: 5, size: 8, train: 40, test: 8}",
       "{dim: 16, depth: 1, heads: 2, patch_size: 4, pool: mean, registers: 2}");
  each(Split::test, [&](const Batch& batch) {
    const at::NoGradGuard no_gradients;
    ForwardPass pass;
    const Tensor tokens = model_->forward(batch, pass).at("tokens");
    const Tensor pooled = FeatureReader({"pooled"}).read(*model_, batch);
    EXPECT_TRUE(pooled.allclose(tokens.mean(1), 1e-5, 1e-6)) << "registers are not patches";
  });
  EXPECT_THAT(message_of<OptionError>([&] { measured(*task("knn", "{features: [class]}")); }),
              mentions("class token", "mean"));
}

/// kNN of a split by definition, in float64.
double naive_accuracy(const FeatureTable& bank, const FeatureTable& asked, std::int64_t k,
                      double temperature) {
  const auto unit = [](const Tensor& row) {
    const Tensor x = row.to(at::kDouble);
    return x / std::sqrt((x * x).sum().item<double>());
  };
  double right = 0;
  for (std::int64_t i = 0; i < asked.size(); ++i) {
    std::vector<std::pair<double, std::int64_t>> near;  // by falling cosine, then by index
    for (std::int64_t j = 0; j < bank.size(); ++j) {
      near.emplace_back(-(unit(asked.features[i]) * unit(bank.features[j])).sum().item<double>(),
                        j);
    }
    std::sort(near.begin(), near.end());
    std::vector<double> votes(5, 0);
    for (std::int64_t j = 0; j < k; ++j) {
      const auto [distance, index] = near[std::size_t(j)];
      votes[std::size_t(bank.classes[index].item<std::int64_t>())] +=
          std::exp(-distance / temperature);
    }
    const auto said = std::max_element(votes.begin(), votes.end()) - votes.begin();
    right += said == asked.classes[i].item<std::int64_t>() ? 1 : 0;
  }
  return right / static_cast<double>(asked.size());
}

TEST_F(Probes, KnnVotesAsALoopDoes) {
  open();
  const FeatureTable bank = table(Split::train), asked = table(Split::test);
  const Metrics found = measured(*task("knn", "{k: [20, 1, 90], temperature: 0.2}"));
  for (const std::int64_t k : {1, 20, 90}) {
    EXPECT_NEAR(found.at("k/" + std::to_string(k)), naive_accuracy(bank, asked, k, 0.2), 1e-9) << k;
  }
  EXPECT_EQ(found.at("accuracy"), found.at("k/20")) << "the first";
  EXPECT_EQ(found.at("top5"), 1) << "of five classes";
  const Metrics by_patches = measured(*task("knn", "{k: [20, 1, 90], features: [mean@1]}"));
  EXPECT_NEAR(by_patches.at("k/20"),
              naive_accuracy(table(Split::train, "mean@1"), table(Split::test, "mean@1"), 20, 0.07),
              1e-9);
  EXPECT_EQ(task("knn")->metrics().size(), 4U) << "accuracy, top5, k/20, k/10";
}

TEST_F(Probes, KnnRefusesMoreNeighboursThanImages) {
  open();
  EXPECT_THAT(message_of<OptionError>([&] { measured(*task("knn", "{k: [91]}")); }),
              mentions("k:", "91 neighbours", "'synthetic_images'", "90 training images"));
  EXPECT_THAT(message_of<ConfigError>([&] { task("knn", "{k: []}"); }), HasSubstr("k: is empty"));
  EXPECT_THAT(message_of<ConfigError>([&] { task("knn", "{k: [3, 3]}"); }),
              HasSubstr("stands twice"));
  EXPECT_THAT(message_of<ConfigError>([&] { task("knn", "{features: [cls]}"); }),
              HasSubstr("\"cls\""));
}

TEST_F(Probes, LogisticRegressionChoosesByTheValidationSplit) {
  open();
  const std::string penalties = "{l2: [0.1, 1, 1.0e+4], tolerance: 1.0e-8";
  std::map<std::string, double> held;
  for (const std::string l2 : {"0.1", "1", "1.0e+4"}) {
    held[l2] = measured(*task("logistic_regression", "{l2: [" + l2 + "], tolerance: 1.0e-8}"),
                        nullptr, Split::validation)
                   .at("accuracy");
  }
  const Metrics found = measured(*task("logistic_regression", penalties + "}"));
  const double best = std::max({held["0.1"], held["1"], held["1.0e+4"]});
  EXPECT_DOUBLE_EQ(found.at("choice_accuracy"), best);
  const double expected = held["1.0e+4"] == best ? 1e4 : held["1"] == best ? 1 : 0.1;
  EXPECT_EQ(found.at("l2"), expected) << "of equally good ones the largest";
  EXPECT_LE(found.at("gradient"), 1e-8);
  const Metrics tested = measured(*task("logistic_regression", penalties + ", choose_by: tested}"));
  EXPECT_DOUBLE_EQ(tested.at("choice_accuracy"), tested.at("accuracy"));
}

double nll_of(const LogisticFit& fit, const Tensor& features, const Tensor& classes) {
  const Tensor log_shares = at::log_softmax(fit.logits(features), 1);
  return -log_shares.gather(1, classes.view({-1, 1})).mean().item<double>();
}

/// With the penalty that the validation split chose; one that is given alone chooses nothing.
TEST_F(Probes, LogisticRegressionEndsWithAFitToBothSplits) {
  open();
  const FeatureTable train = table(Split::train), held = table(Split::validation),
                     test = table(Split::test);
  const auto by_hand = [&](const Tensor& features, const Tensor& classes, double l2) {
    LogisticOptions options;
    options.penalty = l2 / static_cast<double>(classes.size(0));
    options.tolerance = 1e-9;
    return nll_of(fit_logistic(features, classes, 5, options), test.features, test.classes);
  };
  const Metrics chosen = measured(*task("logistic_regression", "{l2: [1, 20], tolerance: 1.0e-9}"));
  EXPECT_NEAR(chosen.at("nll"),
              by_hand(at::cat({train.features, held.features}),
                      at::cat({train.classes, held.classes}), chosen.at("l2")),
              1e-5);
  const double of_train = by_hand(train.features, train.classes, 20);
  const std::string alone = "{l2: [20], tolerance: 1.0e-9}";
  EXPECT_NEAR(measured(*task("logistic_regression", alone)).at("nll"), of_train, 1e-5);
  EXPECT_GT(std::abs(chosen.at("nll") - of_train), 1e-3) << "the test can tell them apart";
}

TEST_F(Probes, LogisticRegressionCentresTheFeaturesOfEachImage) {
  open();
  {  // (else the last norm's rows have a mean of 0)
    const at::NoGradGuard no_gradients;
    model_->named_parameters()["norm.bias"].fill_(1);
  }
  const auto by_hand = [](const Tensor& features) {
    const Tensor x = features.to(at::kDouble) - features.to(at::kDouble).mean(1, true);
    return x / (x * x).sum(1, true).sqrt();
  };
  const FeatureTable train = table(Split::train), test = table(Split::test);
  LogisticOptions options;
  options.penalty = 1.0 / 90;
  options.bias = false;
  options.tolerance = 1e-9;
  const LogisticFit fit = fit_logistic(by_hand(train.features), train.classes, 5, options);
  const std::string recipe = "{l2: [1], unit: true, bias: false, tolerance: 1.0e-9, centre: ";
  const auto found = [&](const std::string& centre) {
    return measured(*task("logistic_regression", recipe + centre + "}")).at("nll");
  };
  EXPECT_NEAR(found("true"), nll_of(fit, by_hand(test.features), test.classes), 1e-4);
  EXPECT_GT(std::abs(found("false") - found("true")), 1e-3);
}

TEST_F(Probes, RecallIsTheMeanOverClasses) {
  open("{classes: 5, size: 8, train: 90, test: 23, noise: 0.3, shift: 0.5}");
  Fitted fitted;
  const Metrics found = measured(*task("logistic_regression", "{l2: [0.1]}"), &fitted);
  const FeatureTable asked = table(Split::test);
  const Tensor logits = at::addmm(fitted.saved.at("bias"), asked.features.to(at::kDouble),
                                  fitted.saved.at("weight").t());
  std::map<std::int64_t, std::vector<double>> right;  // by class
  for (std::int64_t i = 0; i < asked.size(); ++i) {
    const auto own = asked.classes[i].item<std::int64_t>();
    right[own].push_back(logits[i].argmax().item<std::int64_t>() == own ? 1 : 0);
  }
  double sum = 0;
  for (const auto& [own, all] : right) {
    for (const double one : all) sum += one / static_cast<double>(all.size());
  }
  EXPECT_NEAR(found.at("recall"), sum / static_cast<double>(right.size()), 1e-12);
  EXPECT_NE(found.at("recall"), found.at("accuracy")) << "the test can tell them apart";
}

/// A penalty against the sum is that against the mean over the number of images.
TEST_F(Probes, LogisticRegressionWeighsThePenaltyAgainstSumOrMean) {
  open("{classes: 3, size: 8, train: 50, test: 20}");
  const auto nll = [&](const std::string& options) {
    return measured(*task("logistic_regression", options)).at("nll");
  };
  EXPECT_NEAR(nll("{l2: [5], tolerance: 1.0e-9}"),
              nll("{l2: [0.1], against: mean, tolerance: 1.0e-9}"), 1e-9);
  EXPECT_GT(std::abs(nll("{l2: [5], tolerance: 1.0e-9}") -
                     nll("{l2: [5], against: mean, tolerance: 1.0e-9}")),
            1e-3);
}

TEST_F(Probes, WithoutAValidationSplitAreRefusedWhereTheyMustChoose) {
  open("{classes: 3, size: 8, train: 30, test: 8}");
  for (const char* id : {"logistic_regression", "linear_probe"}) {
    const std::string two =
        std::string(id) == "linear_probe" ? "{rates: [0.1, 0.2], epochs: 1" : "{l2: [1, 2]";
    EXPECT_THAT(
        message_of<DataError>([&] { measured(*task(id, two + "}")); }),
        AllOf(HasSubstr("'synthetic_images' has no validation split"),
              HasSubstr("set: {dataset: {validation: 0.1}}"), HasSubstr("choose_by: tested")));
    EXPECT_EQ(reads_, 0) << "before anything is fitted";
    measured(*task(id, two + ", choose_by: tested}"));
    reads_ = 0;
  }
  measured(*task("linear_probe", "{rates: [0.1], epochs: 1}"));
  EXPECT_THAT(message_of<OptionError>(
                  [&] { measured(*task("linear_probe", "{rates: [0.1], augment: true}")); }),
              mentions("augment:", "augmented images"));
}

TEST_F(Probes, RefuseToChooseByTheSplitThatIsReported) {
  open();
  for (const char* id : {"logistic_regression", "linear_probe"}) {
    const std::string two =
        std::string(id) == "linear_probe" ? "{rates: [0.1, 0.2], epochs: 1" : "{l2: [1, 2]";
    EXPECT_THAT(
        message_of<DataError>([&] { measured(*task(id, two + "}"), nullptr, Split::validation); }),
        mentions("choose_by:", "validation split", "split: test", "choose_by: tested"));
    measured(*task(id, two + ", choose_by: tested}"), nullptr, Split::validation);
  }
}

TEST_F(Probes, OfAugmentedImagesRefuseWhatOthersDo) {
  augmented_ = true;
  open("{classes: 5, size: 8, train: 3, test: 8}");
  const auto refusal = [&] {
    return message_of<DataError>(
        [&] { measured(*task("linear_probe", "{rates: [0.1], epochs: 1, augment: true}")); });
  };
  EXPECT_THAT(refusal(), HasSubstr("has no training example"));
  open("{classes: 2, size: 8, train: 30, test: 8}");
  const at::NoGradGuard no_gradients;
  model_->named_parameters()["norm.bias"].fill_(std::nan(""));
  EXPECT_THAT(refusal(), mentions("train split", "'synthetic_images'", "are not"));
}

TEST_F(Probes, AskAModelOnAnotherDevice) {
  if (!at::hasCUDA()) GTEST_SKIP() << "needs a GPU";
  open();
  const auto probe = task("linear_probe", "{rates: [0.1], epochs: 20}"), near = task("knn");
  const double rate = measured(*probe).at("nll");
  const Metrics votes = measured(*near);
  model_->to(at::kCUDA);
  device_ = at::kCUDA;
  EXPECT_NEAR(measured(*probe).at("nll"), rate, 1e-3);
  Fitted fitted;
  EXPECT_NEAR(measured(*near, &fitted).at("accuracy"), votes.at("accuracy"), 0.03);
  EXPECT_TRUE(fitted.kept.at("knn.bank").is_cuda()) << "it stays there";
}

TEST_F(Probes, LinearProbeComesNearTheBestMapThatThereIs) {
  open();
  const Metrics found = measured(*task("linear_probe", "{rates: [1.0e-6, 0.1], epochs: 150}"));
  EXPECT_EQ(found.at("rate"), 0.1) << "the other one does not move";
  Fitted probe, exact;
  const double by_steps =
      measured(*task("linear_probe", "{rates: [0.3], epochs: 600, batch_size: 90}"), &probe,
               Split::train)
          .at("nll");
  const double by_newton =
      measured(*task("logistic_regression", "{l2: [1.0e-6]}"), &exact, Split::train).at("nll");
  EXPECT_GE(by_steps, by_newton - 1e-6) << "nothing is below the optimum";
  EXPECT_LT(by_steps, std::log(5.0) - 0.1) << "and it is on its way there";
}

TEST_F(Probes, GiveTheSameNumbersFromWhatTheySaved) {
  open();
  for (const char* id : {"linear_probe", "logistic_regression"}) {
    const auto probe =
        task(id, std::string(id) == "linear_probe" ? "{epochs: 5, rates: [0.01, 0.1]}"
                                                   : "{l2: [0.1, 10], unit: true, bias: false}");
    Fitted fitted;
    const Metrics first = measured(*probe, &fitted);
    ASSERT_EQ(fitted.saved.at("weight").sizes(), (std::vector<std::int64_t>{5, 16})) << id;
    Fitted again{fitted.saved, {}};
    EXPECT_EQ(measured(*probe, &again), first) << id;
    EXPECT_EQ(again.kept.size(), 0U) << id << ": the training split was not read";
    again.saved.set("weight", at::zeros_like(fitted.saved.at("weight")));
    again.saved.set(
        "bias",
        at::one_hot(at::scalar_tensor(2, at::kLong), 5).to(fitted.saved.at("bias").scalar_type()));
    const Tensor classes = table(Split::test).classes;
    EXPECT_NEAR(measured(*probe, &again).at("accuracy"),
                classes.eq(2).to(at::kDouble).mean().item<double>(), 1e-9)
        << id << ": what is saved is what answers";
    again.saved.set("bias", at::zeros({4}));
    EXPECT_THAT(message_of<DataError>([&] { measured(*probe, &again); }),
                HasSubstr("the data have 5 classes"))
        << id;
  }
}

TEST_F(Probes, TrainNothing) {
  open();
  for (const char* id : {"knn", "linear_probe", "logistic_regression"}) {
    EXPECT_THAT(message_of<ConfigError>([&] { task(id)->loss({}, {}); }),
                mentions("finished run", "trains nothing", "attnlab eval RUN --with FILE"))
        << id;
    DatasetInfo none;
    none.name = "scenes";
    EXPECT_THAT(message_of<DataError>([&] { testing::make_task(id, none); }),
                HasSubstr("dataset 'scenes' has no classes"));
  }
}

}  // namespace
}  // namespace attnlab::probes_test
