// The kit passes a sound model, and each of its checks fails what is wrong.
#include <ATen/Parallel.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <vector>

#include "framework/conformance/made_data.h"
#include "tests/support/message_of.h"
#include "tests/unit/conformance/sound_outcome.h"
#include "tests/unit/conformance/wrong_model.h"

namespace attnlab::conformance::model_checks_test {
namespace {

using attnlab::testing::mentions;
using attnlab::testing::says;
using ::testing::AllOf;
using testing::failure;
using ::testing::HasSubstr;
using testing::model_subject;
using testing::sound_forward;
using testing::WrongModel;

TEST(ModelChecks, PassASoundModel) {
  const std::vector<CheckResult> results = run_checks(model_subject(sound_forward));
  ASSERT_EQ(results.size(), std::size(kModelChecks));
  for (const CheckResult& result : results) {
    const bool not_done = result.check == "carried" || result.check == "places";
    const Outcome expected =
        not_done ? Outcome::not_applicable : testing::outcome_of_sound(result.check);
    if (result.check != "device") {
      EXPECT_EQ(result.outcome, expected) << result.check << ": " << result.message;
    }
  }
}

TEST(ModelChecks, FindAnOutputThatIsNotThere) {
  ModelSubject subject = model_subject(sound_forward);
  subject.gives = {"logits", "tokens"};
  EXPECT_THAT(failure("outputs", subject), mentions("'tokens'", "manifest lists", "is not there"));
  subject.gives = {"logits", "tokens?"};
  EXPECT_EQ(run_check("outputs", subject).outcome, Outcome::passed);
}

TEST(ModelChecks, FindAnOutputThatIsNotListed) {
  const auto more = [](WrongModel& self, const Batch& batch, ForwardPass& pass) {
    NamedTensors outputs = self.sound(batch, pass);
    outputs.set("extra", outputs.at("logits"));
    return outputs;
  };
  EXPECT_THAT(failure("outputs", more), mentions("'extra'", ".gives"));
}

TEST(ModelChecks, FindAnOutputOfOtherRows) {
  const auto turned = [](WrongModel& self, const Batch& batch, ForwardPass& pass) {
    return NamedTensors{{"logits", self.sound(batch, pass).at("logits").t()}};
  };
  EXPECT_THAT(failure("outputs", turned), HasSubstr("is [5, 1] float32, expected 1 rows"));
}

TEST(ModelChecks, FindNumbersThatAreNotFinite) {
  const auto infinite = [](WrongModel& self, const Batch& batch, ForwardPass& pass) {
    return NamedTensors{{"logits", self.sound(batch, pass).at("logits") / 0.0}};
  };
  EXPECT_THAT(failure("outputs", infinite), HasSubstr("output 'logits' at [0, 0] is"));
}

TEST(ModelChecks, FindOutputsThatAreStatedWrongly) {
  const ModelSubject subject = model_subject(
      sound_forward, [](WrongModel& model) { model.stated = {{.name = "logits", .shape = {7}}}; });
  EXPECT_THAT(failure("outputs", subject),
              mentions("outputs()", "'logits' as [7]", "[1, 5] float32"));
}

TEST(ModelChecks, FindStacksThatAreDeclaredWrongly) {
  ModelSubject subject = model_subject(sound_forward);
  subject.stacks = {2};
  EXPECT_EQ(run_check("trace", subject).outcome, Outcome::passed);
  for (const auto& wrong : std::vector<std::vector<std::int64_t>>{{3}, {2, 4}}) {
    subject.stacks = wrong;
    EXPECT_THAT(failure("trace", subject),
                AllOf(HasSubstr("for stacks of 2, "), HasSubstr(".stacks of its manifest says")));
  }
}

TEST(ModelChecks, NameAParameterThatNothingDependsOn) {
  const ModelSubject subject = model_subject(
      sound_forward, [](WrongModel& model) { model.register_parameter("idle", at::ones({3})); });
  EXPECT_THAT(failure("parameters", subject), HasSubstr("no output depends on idle"));
}

TEST(ModelChecks, FindAModelThatCountsItsPasses) {
  const auto counting = [](WrongModel& self, const Batch& batch, ForwardPass& pass) {
    self.count += 1;
    return NamedTensors{{"logits", self.sound(batch, pass).at("logits") + self.count}};
  };
  EXPECT_THAT(failure("determinism", counting), mentions("same batch", "another one"));
}

TEST(ModelChecks, FindRandomNumbersOfAnEvaluation) {
  const auto noisy = [](WrongModel& self, const Batch& batch, ForwardPass& pass) {
    const Tensor logits = self.sound(batch, pass).at("logits");
    return NamedTensors{{"logits", logits + at::rand_like(logits)}};
  };
  EXPECT_THAT(failure("modes", noisy), HasSubstr("in evaluation, with another seed"));
  const auto wasteful = [](WrongModel& self, const Batch& batch, ForwardPass& pass) {
    at::rand({1});
    return self.sound(batch, pass);
  };
  EXPECT_THAT(failure("modes", wasteful), HasSubstr("LibTorch's random numbers"));
}

TEST(ModelChecks, FindTrainingThatItsSeedDoesNotDecide) {
  const auto unsteady = [](WrongModel& self, const Batch& batch, ForwardPass& pass) {
    const double noise = self.is_training() ? self.count++ : 0;
    return NamedTensors{{"logits", self.sound(batch, pass).at("logits") + noise}};
  };
  EXPECT_THAT(failure("modes", unsteady), mentions("in training", "same seed"));
}

TEST(ModelChecks, FindWhatIsNotSaved) {
  const auto keeping = [](WrongModel& self, const Batch& batch, ForwardPass& pass) {
    NamedTensors outputs = self.sound(batch, pass);
    if (self.is_training()) self.kept = outputs.at("logits").detach().mean();
    if (!self.kept.defined()) return outputs;
    return NamedTensors{{"logits", outputs.at("logits") - self.kept}};
  };
  EXPECT_THAT(failure("save_and_load", keeping), mentions("fresh model", "used one"));
}

TEST(ModelChecks, FindWhatExamplesOfABatchShare) {
  const auto centred = [](WrongModel& self, const Batch& batch, ForwardPass& pass) {
    const Tensor logits = self.sound(batch, pass).at("logits");
    return NamedTensors{{"logits", logits - logits.mean(0, true)}};
  };
  EXPECT_THAT(
      failure("batch", centred),
      mentions("under attention 'standard', made-up examples: ", "example 0 of 4", "alone"));
}

TEST(ModelChecks, FindPaddingThatCounts) {
  const auto padded_mean = [](WrongModel& self, const Batch& batch, ForwardPass& pass) {
    return NamedTensors{{"logits", self.head().forward(self.tokens(batch, pass).mean(1))}};
  };
  const char* where = "under attention 'standard', made-up examples of different lengths: ";
  EXPECT_THAT(failure("padding", padded_mean), HasSubstr(where));
  EXPECT_THAT(failure("batch", padded_mean), HasSubstr(where));
}

TEST(ModelChecks, DoNotTryPaddingWhereThereIsNone) {
  ModelSubject subject = model_subject(sound_forward);
  const auto build = subject.build;
  subject.build = [build](const ModelSetup& setup) {
    if (setup.data.field("series").shape[0] < 0) throw DataError("series of one length, please");
    return build(setup);
  };
  const CheckResult result = run_check("padding", subject);
  EXPECT_EQ(result.outcome, Outcome::not_applicable);
  EXPECT_THAT(result.message, says({"padded"}));
}

/// Three of the examples of a dataset.
class ThreeExamples final : public Dataset {
 public:
  explicit ThreeExamples(std::shared_ptr<const Dataset> all) : all_(std::move(all)) {}
  const DatasetInfo& info() const override { return all_->info(); }
  std::int64_t size(Split) const override { return 3; }
  NamedTensors make_example(Split split, std::int64_t index, Random* augmentation) const override {
    return all_->example(split, index, augmentation);
  }

 private:
  std::shared_ptr<const Dataset> all_;
};

TEST(ModelChecks, DoWithFewExamples) {
  ModelSubject few = model_subject(sound_forward);
  few.data = std::make_shared<ThreeExamples>(made_data_for({"series"}).back().dataset);
  for (const char* check : {"batch", "padding"}) {
    const CheckResult result = run_check(check, few);
    EXPECT_EQ(result.outcome, Outcome::passed) << check << ": " << result.message;
  }
}

TEST(ModelChecks, FindParametersThatMembersShare) {
  ModelSubject subject = model_subject(
      sound_forward, [](WrongModel& model) { model.register_parameter("shared", at::ones({1})); });
  EXPECT_THAT(failure("members", subject), mentions("2 members", "'shared' is [1] float64"));
  subject.ensemble = false;
  EXPECT_EQ(run_check("members", subject).outcome, Outcome::not_applicable);
}

TEST(ModelChecks, FindMembersThatDependOnEachOther) {
  const auto mixed = [](WrongModel& self, const Batch& batch, ForwardPass& pass) {
    const Tensor logits = self.sound(batch, pass).at("logits");
    return NamedTensors{{"logits", logits + logits.flip(0)}};
  };
  EXPECT_THAT(failure("members", mixed), HasSubstr("member 0 of 2, against it alone"));
}

TEST(ModelChecks, FindLayersThatATraceDoesNotReach) {
  const auto untraced = [](WrongModel& self, const Batch& batch, ForwardPass& pass) {
    ForwardPass silent = pass;
    silent.trace = nullptr;
    return self.sound(batch, silent);
  };
  EXPECT_THAT(failure("trace", untraced), mentions("layer 0", "built 1 times", "recorded 0 times"));
  const auto changed = [](WrongModel& self, const Batch& batch, ForwardPass& pass) {
    const double more = pass.trace == nullptr ? 0 : 1;
    return NamedTensors{{"logits", self.sound(batch, pass).at("logits") + more}};
  };
  EXPECT_THAT(failure("trace", changed), HasSubstr("with a trace, against without"));
}

/// A sound model whose layers are told of places.
template <class Places>
ModelSubject placing(const Places& places) {
  return model_subject(sound_forward, [places](WrongModel& model) { model.places = places; });
}

TEST(ModelChecks, CountTheCoordinatesOfPlaces) {
  const CheckResult result =
      run_check("places", placing([](std::int64_t, std::int64_t length) {
                  return at::arange(2 * length, at::kLong).view({1, length, 2});
                }));
  EXPECT_EQ(result.outcome, Outcome::passed) << result.message;
  EXPECT_EQ(result.message, "2 coordinates");
}

TEST(ModelChecks, FindLayersThatPlacesDoNotReach) {
  const auto first_alone = [](std::int64_t layer, std::int64_t length) {
    return layer == 0 ? at::zeros({1, length, 1}) : Tensor();
  };
  EXPECT_THAT(failure("places", placing(first_alone)), mentions("layer 1's queries", "not given"));
}

TEST(ModelChecks, FindPlacesOfOtherShapes) {
  const auto of_one = [](std::int64_t, std::int64_t) { return at::zeros({1, 1, 1}); };
  EXPECT_THAT(failure("places", placing(of_one)), HasSubstr("query_positions must be"));
  const auto growing = [](std::int64_t layer, std::int64_t length) {
    return at::zeros({1, length, layer + 1});
  };
  EXPECT_THAT(failure("places", placing(growing)),
              mentions("layer 1's queries", "[1, 6, 2] float32", "have 1"));
  const auto infinite = [](std::int64_t, std::int64_t length) {
    return at::full({1, length, 1}, INFINITY);
  };
  EXPECT_THAT(failure("places", placing(infinite)), HasSubstr("places of layer 0's queries"));
}

TEST(ModelChecks, FindPlacesThatChange) {
  const auto moving = [calls = std::make_shared<int>(0)](std::int64_t, std::int64_t length) {
    return at::full({1, length, 1}, double(++*calls));
  };
  EXPECT_THAT(failure("places", placing(moving)),
              mentions("same batch again", "layer 0's queries"));
}

/// Running sums of the tokens, which go on where a batch continues another: [B, L, 4].
NamedTensors summed(const Batch& batch, ForwardPass& pass, bool detached, double forgotten = 1) {
  Tensor sums = batch.fields.at("series").cumsum(1);
  if (pass.carried != nullptr) {
    if (const Tensor* before = pass.carried->find("sum")) {
      sums = sums + before->unsqueeze(1) * forgotten;
    }
    const Tensor last = sums.select(1, sums.size(1) - 1);
    pass.carried->set("sum", detached ? last.detach() : last);
  }
  return {{"logits", sums}};
}

TEST(ModelChecks, CompareBatchesThatContinueWithOneLongBatch) {
  const auto carrying = [](WrongModel&, const Batch& batch, ForwardPass& pass) {
    return summed(batch, pass, /*detached=*/true);
  };
  const CheckResult result = run_check("carried", model_subject(carrying));
  EXPECT_EQ(result.outcome, Outcome::passed) << result.message;
  EXPECT_EQ(result.message, "");
}

TEST(ModelChecks, FindWhatIsCarriedWrongly) {
  const auto forgetful = [](WrongModel&, const Batch& batch, ForwardPass& pass) {
    return summed(batch, pass, /*detached=*/true, 0.5);
  };
  EXPECT_THAT(failure("carried", forgetful), mentions("continues another", "second half"));
  const auto attached = [](WrongModel& self, const Batch& batch, ForwardPass& pass) {
    Batch grown = batch;
    grown.fields.set("series", batch.fields.at("series") * self.head().weight.sum());
    return summed(grown, pass, /*detached=*/false);
  };
  EXPECT_THAT(failure("carried", attached), mentions("carried 'sum'", "detach it"));
}

TEST(ModelChecks, FindABatchThatIsWrittenTo) {
  const auto writing = [](WrongModel& self, const Batch& batch, ForwardPass& pass) {
    Tensor(batch.fields.at("series")).mul_(2);
    return self.sound(batch, pass);
  };
  EXPECT_THAT(failure("inputs_unchanged", writing), HasSubstr("the batch's field 'series'"));
}

TEST(ModelChecks, FindAChangeOfTheProcess) {
  const auto meddling = [](WrongModel& self, const Batch& batch, ForwardPass& pass) {
    at::set_num_threads(at::get_num_threads() + 1);
    return self.sound(batch, pass);
  };
  EXPECT_THAT(failure("process_state", meddling), HasSubstr("changes"));
}

TEST(ModelChecks, FindAChangeOfTheProcessByAConstructor) {
  const auto meddling =
      model_subject(sound_forward, [](WrongModel&) { ::setenv("ATTNLAB_TEST_MEDDLED", "1", 1); });
  EXPECT_THAT(failure("process_state", meddling), says({"building it", "ATTNLAB_TEST_MEDDLED"}));
  EXPECT_EQ(std::getenv("ATTNLAB_TEST_MEDDLED"), nullptr);
}

TEST(ModelChecks, FindMemoryThatIsNotGivenBack) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer's own allocations are not counted";
#endif
  static std::vector<std::unique_ptr<char[]>> kept;
  const auto keeping = [](WrongModel& self, const Batch& batch, ForwardPass& pass) {
    kept.push_back(std::make_unique<char[]>(1000));
    return self.sound(batch, pass);
  };
  EXPECT_THAT(failure("memory", keeping), mentions("forward and backward", "keeps 1"));
  const auto evaluating = [](WrongModel& self, const Batch& batch, ForwardPass& pass) {
    if (!self.is_training()) kept.push_back(std::make_unique<char[]>(1000));
    return self.sound(batch, pass);
  };
  EXPECT_THAT(failure("memory", evaluating), HasSubstr("in evaluation keeps 1"));
}

TEST(ModelChecks, SayWhichFieldCannotBeMadeUp) {
  ModelSubject subject = model_subject(sound_forward);
  subject.takes = {"molecule"};
  EXPECT_THAT(failure("outputs", subject), mentions("'molecule'", "name an experiment"));
}

}  // namespace
}  // namespace attnlab::conformance::model_checks_test
