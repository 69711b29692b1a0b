// What the checks of input_checks.cpp find.
#include "tests/support/message_of.h"
#include "tests/unit/conformance/wrong_attention.h"

namespace attnlab::conformance::input_checks_test {
namespace {

using attnlab::testing::mentions;
using attnlab::testing::says;

TEST(ConformanceKit, FindsInputsThatAreTakenWithoutTheirTrait) {
  Subject of = subject(sound);
  of.declared.bias = false;
  EXPECT_THAT(failure("refusals", of), says({"'bias'", "declared", "kTraits"}));
}

TEST(ConformanceKit, SaysWhatIsRefused) {
  AttentionTraits traits = AttentionTraits::all_quadratic();
  traits.bias = traits.padding = false;
  const CheckResult result = run_check("refusals", subject(sound, traits));
  EXPECT_EQ(result.outcome, Outcome::passed);
  EXPECT_THAT(result.message, says({"refused:", "bias on the logits", "visible.key_valid",
                                    "visible.query_valid", "query_source"}));
}

TEST(ConformanceKit, FindsABiasThatIsIgnored) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    in.bias = Tensor();
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("bias", attend), says({"bias on the logits", "changes nothing"}));
}

TEST(ConformanceKit, FindsABiasThatIsScaled) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    if (in.bias.defined()) in.bias = in.bias / 2;
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("bias", attend), AllOf(StartsWith("traced logits"), HasSubstr("bias")));
}

TEST(ConformanceKit, FindsABiasReadByItsNumberOfDimensions) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    if (in.bias.defined() && in.bias.dim() < 4) in.bias = in.bias * 2;
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("broadcasting", attend),
              mentions("bias of shape [4, 4] float64", "expansion", "output of layer 0"));
}

TEST(ConformanceKit, FindsAMaskOfTwoDimensionsThatIsIgnored) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    if (in.visible.pairs.defined() && in.visible.pairs.dim() < 4) in.visible.pairs = Tensor();
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("broadcasting", attend),
              mentions("pair mask of shape [4, 4] bool", "expansion"));
}

TEST(ConformanceKit, FindsDistancesThatAreOneOff) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    if (in.relative.defined()) in.relative.keys = in.relative.keys.roll(1, 1);
    return self.sound(in, context);
  };
  EXPECT_THAT(
      failure("relative_positions", attend),
      mentions("Lq 4, Lk 4", "distances -3 and -2", "relative key of distance", "replaced"));
}

TEST(ConformanceKit, FindsAPositionBiasThatIsIgnored) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    in.relative.position_bias = Tensor();
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("relative_positions", attend),
              says({"relative.position_bias", "changes nothing"}));
}

TEST(ConformanceKit, FindsRelativeKeysThatAreNotMappedAsKeysAre) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    if (in.relative.defined()) in.relative.keys = in.relative.keys * 2;
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("relative_positions", attend),
              AllOf(StartsWith("one query"), HasSubstr("swapped")));
}

TEST(ConformanceKit, FindsKeysBeyondTheQueriesThatAreDropped) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    const std::int64_t kept = std::min(in.query_count(), in.key_count());
    in.keys = in.keys.narrow(2, 0, kept);
    in.values = in.values.narrow(2, 0, kept);
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("different_lengths", attend),
              says({"Lq 2, Lk 5", "value 2", "changes nothing"}));
}

TEST(ConformanceKit, FindsValuesReplacedByKeys) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    if (in.values_from_elsewhere) in.values = in.keys;
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("different_source", attend), mentions("tensor of values", "changes nothing"));
}

/// A bias against far tokens: positions, or `step` times 0, 1, 2, ...
Tensor attend_near(Wrong& self, In in, Context& context, double step) {
  const auto places = [&](const Tensor& given, std::int64_t length) {
    if (given.defined()) return given.select(-1, 0);
    return (at::arange(length, in.queries.options()) * step).unsqueeze(0);
  };
  const Tensor distance = places(in.query_positions, in.query_count()).unsqueeze(2) -
                          places(in.key_positions, in.key_count()).unsqueeze(1);
  const Tensor near = -distance.abs().unsqueeze(1).to(in.queries.scalar_type());
  in.bias = in.bias.defined() ? in.bias + near : near;
  return self.sound(in, context);
}

TEST(ConformanceKit, FindsDefaultPositionsOtherThanCounting) {
  const AttentionTraits plain;
  const auto counting = [](Wrong& self, const In& in, Context& context) {
    return attend_near(self, in, context, 1);
  };
  const auto halves = [](Wrong& self, const In& in, Context& context) {
    return attend_near(self, in, context, 0.5);
  };
  for (const std::string check : {"positions", "permutation"}) {
    EXPECT_EQ(run_check(check, subject(counting, plain)).outcome, Outcome::passed);
  }
  EXPECT_THAT(failure("positions", halves, plain),
              AllOf(StartsWith("no positions"), mentions("Lq 4, Lk 4", "output of layer 0")));
}

TEST(ConformanceKit, FindsKeysThatCountByTheirPlace) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    in.keys = in.keys * at::arange(1, in.key_count() + 1, in.keys.options()).view({-1, 1});
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("permutation", attend),
              AllOf(StartsWith("keys and values"), HasSubstr("order")));
}

/// What counts keys by their place, and says so.
class InOrder final : public Wrong {
 public:
  using Wrong::Wrong;
  bool reads_order() const override { return true; }
};

TEST(ConformanceKit, LeavesPermutationOutWhereTheOrderOfTokensMatters) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    in.keys = in.keys * at::arange(1, in.key_count() + 1, in.keys.options()).view({-1, 1});
    return self.sound(in, context);
  };
  Subject of = subject(attend);
  of.build = [=](const AttentionShape& shape) { return std::make_shared<InOrder>(shape, attend); };
  const CheckResult result = run_check("permutation", of);
  EXPECT_EQ(result.outcome, Outcome::not_applicable) << result.message;
  EXPECT_THAT(result.message, HasSubstr("reads_order"));
}

TEST(ConformanceKit, FindsQueriesInAnotherOrder) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    return self.sound(in, context) +
           at::arange(in.query_count(), in.values.options()).view({-1, 1});
  };
  EXPECT_THAT(failure("permutation", attend), StartsWith("queries in another order"));
}

}  // namespace
}  // namespace attnlab::conformance::input_checks_test
