// What the checks of input_checks.cpp find.
#include "tests/unit/conformance/wrong_attention.h"

namespace attnlab::conformance::input_checks_test {
namespace {

TEST(ConformanceKit, FindsInputsThatAreTakenWithoutTheirTrait) {
  Subject of = subject(sound);
  of.declared.bias = false;
  EXPECT_EQ(failure("refusals", of),
            "the object's trait 'bias' is not the declared one; give the base class kTraits");
}

TEST(ConformanceKit, SaysWhatIsRefused) {
  AttentionTraits traits = AttentionTraits::all_quadratic();
  traits.bias = traits.padding = false;
  const CheckResult result = run_check("refusals", subject(sound, traits));
  EXPECT_EQ(result.outcome, Outcome::passed);
  EXPECT_EQ(result.message,
            "refused: a bias on the logits, visible.key_valid, visible.query_valid, query_source");
}

TEST(ConformanceKit, FindsABiasThatIsIgnored) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    in.bias = Tensor();
    return self.sound(in, context);
  };
  EXPECT_EQ(failure("bias", attend), "a bias on the logits changes nothing: it is ignored");
}

TEST(ConformanceKit, FindsABiasThatIsScaled) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    if (in.bias.defined()) in.bias = in.bias / 2;
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("bias", attend), StartsWith("traced logits with a bias, less those without"));
}

TEST(ConformanceKit, FindsABiasReadByItsNumberOfDimensions) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    if (in.bias.defined() && in.bias.dim() < 4) in.bias = in.bias * 2;
    return self.sound(in, context);
  };
  EXPECT_THAT(
      failure("broadcasting", attend),
      StartsWith("a bias of shape [4, 4] float64, against its expansion: output of layer 0"));
}

TEST(ConformanceKit, FindsAMaskOfTwoDimensionsThatIsIgnored) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    if (in.visible.pairs.defined() && in.visible.pairs.dim() < 4) in.visible.pairs = Tensor();
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("broadcasting", attend),
              StartsWith("a pair mask of shape [4, 4] bool, against its expansion"));
}

TEST(ConformanceKit, FindsDistancesThatAreOneOff) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    if (in.relative.defined()) in.relative.keys = in.relative.keys.roll(1, 1);
    return self.sound(in, context);
  };
  EXPECT_THAT(
      failure("relative_positions", attend),
      AllOf(StartsWith("B 2, Lq 4, Lk 4, pairs at distances -3 and -2 visible, the relative "
                       "key of distance "),
            HasSubstr("replaced")));
}

TEST(ConformanceKit, FindsAPositionBiasThatIsIgnored) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    in.relative.position_bias = Tensor();
    return self.sound(in, context);
  };
  EXPECT_EQ(failure("relative_positions", attend),
            "relative.position_bias changes nothing: it is ignored");
}

TEST(ConformanceKit, FindsRelativeKeysThatAreNotMappedAsKeysAre) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    if (in.relative.defined()) in.relative.keys = in.relative.keys * 2;
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("relative_positions", attend),
              StartsWith("one query, keys and relative keys swapped and their biases too"));
}

TEST(ConformanceKit, FindsKeysBeyondTheQueriesThatAreDropped) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    const std::int64_t kept = std::min(in.query_count(), in.key_count());
    in.keys = in.keys.narrow(2, 0, kept);
    in.values = in.values.narrow(2, 0, kept);
    return self.sound(in, context);
  };
  EXPECT_EQ(failure("different_lengths", attend),
            "B 2, Lq 2, Lk 5: value 2 changes nothing: it is ignored");
}

TEST(ConformanceKit, FindsValuesReplacedByKeys) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    if (in.values_from_elsewhere) in.values = in.keys;
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("different_source", attend),
              HasSubstr("another tensor of values changes nothing"));
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
              StartsWith("no positions, against 0, 1, 2, ..., B 2, Lq 4, Lk 4: output of layer 0"));
}

TEST(ConformanceKit, FindsKeysThatCountByTheirPlace) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    in.keys = in.keys * at::arange(1, in.key_count() + 1, in.keys.options()).view({-1, 1});
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("permutation", attend), StartsWith("keys and values in another order"));
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
