// What the checks of visibility_checks.cpp find.
#include "tests/support/message_of.h"
#include "tests/unit/conformance/wrong_attention.h"

namespace attnlab::conformance::visibility_checks_test {
namespace {

using attnlab::testing::mentions;

TEST(ConformanceKit, FindsACausalRuleThatIsIgnored) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    in.visible.causal = false;
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("causality", attend),
              mentions("causal", "from key 1 on", "earlier rows of layer 0"));
}

/// The causal rule as a pair mask, `shift` keys further on.
In with_shifted_future(In in, std::int64_t shift) {
  if (!in.visible.causal) return in;
  in.visible.causal = false;
  const Tensor rule = at::ones({in.query_count(), in.key_count()}, at::kBool)
                          .tril(in.key_count() - in.query_count() + shift);
  in.visible.pairs = in.visible.pairs.defined() ? in.visible.pairs.logical_and(rule) : rule;
  return in;
}

TEST(ConformanceKit, FindsAPeekAtOneFutureToken) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    return self.sound(with_shifted_future(in, 1), context);
  };
  EXPECT_THAT(failure("causality", attend), HasSubstr("tokens from key 1 on replaced"));
}

TEST(ConformanceKit, FindsATokenThatDoesNotSeeItself) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    return self.sound(with_shifted_future(in, -1), context);
  };
  EXPECT_THAT(failure("causality", attend),
              AllOf(HasSubstr("[0, 0] is visible"), HasSubstr("has no influence")));
}

TEST(ConformanceKit, FindsALeakThroughThePreviousLayer) {
  struct Summary {
    Tensor mean;
  };
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    Tensor out = self.sound(in, context);
    if (context.state == nullptr) return out;
    Tensor& mean = context.state->of<Summary>().mean;
    if (context.layer == 1) out = out * mean;
    mean = in.values.detach().mean(2, true).tanh();
    return out;
  };
  EXPECT_THAT(failure("causality", attend), HasSubstr("earlier rows of layer 1"));
}

TEST(ConformanceKit, FindsAWindowThatIsTooWide) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    if (in.visible.window > 0) ++in.visible.window;
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("window", attend),
              AllOf(StartsWith("window 1,"), mentions("Lq 4, Lk 4", "layer 0", "is hidden, yet")));
}

TEST(ConformanceKit, FindsAWindowThatIsTooNarrow) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    if (in.visible.window > 1) --in.visible.window;
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("window", attend),
              AllOf(StartsWith("window 2"), HasSubstr("is visible, yet")));
}

TEST(ConformanceKit, FindsAPairMaskReadTheWrongWayRound) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    if (in.visible.pairs.defined()) in.visible.pairs = in.visible.pairs.logical_not();
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("pair_mask", attend), mentions("is hidden", "has a derivative"));
}

TEST(ConformanceKit, FindsHiddenValuesThatComeInWithoutAGradient) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    return self.sound(in, context) + in.values.detach().mean(2, true);
  };
  EXPECT_THAT(failure("pair_mask", attend), mentions("value 0 replaced", "layer 0 at"));
}

}  // namespace
}  // namespace attnlab::conformance::visibility_checks_test
