// What the checks of training_checks.cpp find.
#include <c10/core/GradMode.h>

#include "tests/support/message_of.h"
#include "tests/unit/conformance/wrong_attention.h"

namespace attnlab::conformance::training_checks_test {
namespace {

using attnlab::testing::mentions;

/// Standard attention that adds a loss.
Wrong::Attend adding(std::function<Tensor(const In&)> loss) {
  return [loss = std::move(loss)](Wrong& self, const In& in, Context& context) {
    if (context.losses != nullptr) context.losses->add("spread", loss(in));
    return self.sound(in, context);
  };
}

TEST(ConformanceKit, TakesLossesThatTrain) {
  const CheckResult found =
      run_check("losses", subject(adding([](const In& in) { return in.keys.square().mean(); })));
  EXPECT_EQ(found.outcome, Outcome::passed) << found.message;
  EXPECT_EQ(found.message, "it adds spread");
  EXPECT_EQ(run_check("losses", subject(sound)).outcome, Outcome::not_applicable);
}

TEST(ConformanceKit, FindsLossesThatDoNotTrain) {
  EXPECT_THAT(failure("losses", adding([](const In& in) { return in.keys.detach().mean(); })),
              mentions("'spread'", "no graph", "detach"));
  EXPECT_THAT(failure("losses", adding([](const In& in) { return (in.keys.mean() * 0).log(); })),
              HasSubstr("the loss 'spread' at [] is "));
  EXPECT_THAT(failure("losses", adding([](const In& in) {
                        return at::ones({}, in.keys.options()).requires_grad_() * 2;
                      })),
              mentions("no gradient", "inputs or parameters"));
}

TEST(ConformanceKit, FindsLossesThatChangeTheOutput) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    const Tensor out = self.sound(in, context);
    if (context.losses == nullptr) return out;
    context.losses->add("spread", in.keys.square().mean());
    return out * 1.001;
  };
  EXPECT_THAT(failure("losses", attend), mentions("asked for losses", "output of layer 0"));
}

/// Standard attention with a parameter, and something done after each step.
class Stepping final : public DotProductAttention {
 public:
  using Step = std::function<void(Stepping&, const StepFacts&)>;
  Stepping(const AttentionShape& shape, Step step)
      : DotProductAttention(shape, {}, AttentionTraits::all_quadratic()), step_(std::move(step)) {
    scale = register_parameter("scale", at::ones({2}));
  }
  void after_step(const StepFacts& facts) override { step_(*this, facts); }
  Tensor scale;

 private:
  Step step_;
};

Subject stepping(Stepping::Step step) {
  return {
      .build = [step = std::move(step)](
                   const AttentionShape& shape) { return std::make_shared<Stepping>(shape, step); },
      .declared = AttentionTraits::all_quadratic()};
}

TEST(ConformanceKit, TakesStepsThatChangeParametersInPlace) {
  const CheckResult found = run_check("after_step", stepping([](Stepping& self, const StepFacts&) {
                                        EXPECT_FALSE(at::GradMode::is_enabled());
                                        self.scale.div_(self.scale.norm());
                                      }));
  EXPECT_EQ(found.outcome, Outcome::passed) << found.message;
  EXPECT_EQ(found.message, "");
  EXPECT_EQ(run_check("after_step", stepping([](Stepping&, const StepFacts&) {})).message,
            "it changes nothing");
}

TEST(ConformanceKit, FindsStepsThatDoHarm) {
  EXPECT_THAT(failure("after_step", stepping([](Stepping& self, const StepFacts& facts) {
                        self.scale.div_(static_cast<double>(facts.step));
                      })),
              mentions("layer 0: scale", "three steps"));
  EXPECT_THAT(failure("after_step", stepping([](Stepping& self, const StepFacts&) {
                        self.named_parameters();
                        static_cast<torch::nn::Module&>(self).register_buffer(
                            "more" + std::to_string(self.named_buffers().size()), at::zeros({1}));
                      })),
              mentions("after_step", "parameters or buffers"));
  static int calls = 0;
  EXPECT_THAT(failure("after_step",
                      stepping([](Stepping& self, const StepFacts&) { self.scale.add_(++calls); })),
              mentions("second module", "same seed"));
}

}  // namespace
}  // namespace attnlab::conformance::training_checks_test
