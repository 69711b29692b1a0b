// What the checks of basic_checks.cpp find.
#include "tests/support/message_of.h"
#include "tests/unit/conformance/wrong_attention.h"

namespace attnlab::conformance::basic_checks_test {
namespace {

using attnlab::testing::mentions;
using attnlab::testing::says;

TEST(ConformanceKit, FindsOutputsAsWideAsQueries) {
  const auto attend = [](Wrong&, const In& in, Context&) { return at::zeros_like(in.queries); };
  EXPECT_THAT(failure("shapes", attend),
              says({"Dv 3", "Lq 4, Lk 4", "layer 0 is [2, 1, 4, 4] float32", "expected",
                    "[2, 1, 4, 3] float32"}));
}

TEST(ConformanceKit, AllowsRefusingOtherValueWidthsWhenBuilt) {
  const auto picky = [](const AttentionShape& shape) -> std::shared_ptr<Attention> {
    if (shape.values() != shape.head_dim) throw ConfigError("values must be as wide as keys");
    return std::make_shared<DotProductAttention>(shape);
  };
  const CheckResult result = run_check("shapes", {picky, AttentionTraits::all_quadratic()});
  EXPECT_EQ(result.outcome, Outcome::passed) << result.message;
  EXPECT_THAT(result.message, says({"value_dim", "head_dim", "refused"}));
}

TEST(ConformanceKit, FindsAnotherDtype) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    return self.sound(in, context).to(at::kFloat);
  };
  EXPECT_THAT(failure("dtypes", attend),
              mentions("no extras in float64", "layer 0 is [2, 2, 4, 4] float32",
                       "expected the values' dtype"));
}

TEST(ConformanceKit, FindsNumbersTooCoarseForTheirDtype) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    in.queries = in.queries.to(at::kBFloat16).to(in.queries.scalar_type());
    in.queries = in.queries * (in.queries.scalar_type() == at::kFloat ? 1.1 : 1);
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("dtypes", attend), HasSubstr("in float32, against float64"));
}

/// Softmax attention that adds one key after the other, and rounds each sum: as a processor does
/// that knows 16 bits alone. In float64 it is right.
Wrong::Attend adding_up_in(at::ScalarType dtype) {
  return [=](Wrong& self, const In& in, Context& context) {
    if (in.values.scalar_type() == at::kDouble) return self.sound(in, context);
    const Tensor weights = at::matmul(in.queries, in.keys.transpose(-2, -1)).softmax(-1);
    const Tensor parts = (weights.unsqueeze(-1) * in.values.unsqueeze(2)).permute({3, 0, 1, 2, 4});
    const Tensor sum = at::zeros(parts.sizes().slice(1), parts.options().dtype(dtype)).unsqueeze(0);
    const Tensor same = at::zeros({in.key_count()}, at::kLong);
    return sum.index_add(0, same, parts.to(dtype)).squeeze(0).to(in.values.scalar_type());
  };
}

TEST(ConformanceKit, FindsSumsIn16Bits) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    EXPECT_THAT(
        failure("narrow_sums", adding_up_in(dtype), {.different_lengths = true}),
        AllOf(StartsWith("H 1, D 1, Dv 1, B 1, Lq 1, Lk 1000"), HasSubstr("against float64")));
    EXPECT_THAT(failure("narrow_sums", adding_up_in(dtype), {}), HasSubstr("Lq 400, Lk 400"));
  }
  EXPECT_EQ(run_check("narrow_sums", subject(sound)).outcome, Outcome::passed);
}

TEST(ConformanceKit, SaysWhichWidthsWereNotAddedUp) {
  const auto wide = [](const AttentionShape& shape) -> std::shared_ptr<Attention> {
    if (shape.head_dim < 4) throw ConfigError("heads must be 4 wide");
    return std::make_shared<DotProductAttention>(shape);
  };
  const CheckResult result = run_check("narrow_sums", {wide, AttentionTraits::all_quadratic()});
  EXPECT_EQ(result.outcome, Outcome::passed) << result.message;
  EXPECT_THAT(result.message, says({"some widths", "refused"}));
}

TEST(ConformanceKit, SaysWhyAnotherDeviceWasNotTried) {
  const CheckResult result = run_check("device", subject(sound));
  EXPECT_EQ(result.outcome, at::hasCUDA() ? Outcome::passed : Outcome::skipped);
  const char* why = at::hasCUDA() ? "" : "no other device than the CPU";
  EXPECT_THAT(result.message, HasSubstr(why));
}

TEST(ConformanceKit, FindsATensorLeftOnTheCpu) {
  if (!at::hasCUDA()) GTEST_SKIP() << "needs a GPU";
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    return self.sound(in, context) + at::ones({4}, at::kDouble);
  };
  EXPECT_THAT(failure("device", attend), HasSubstr("cpu"));
}

TEST(ConformanceKit, FindsRandomOutputs) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    return self.sound(in, context) + at::rand({1}, in.values.options());
  };
  EXPECT_THAT(failure("determinism", attend),
              mentions("computed twice", "output of layer 0 at [0, 0, 0, 0]"));
}

TEST(ConformanceKit, FindsDropoutThatIsIgnored) {
  const auto build = [](AttentionShape shape) {
    shape.dropout = 0;
    return std::make_shared<DotProductAttention>(shape);
  };
  EXPECT_THAT(failure("dropout", {build, AttentionTraits::all_quadratic()}),
              says({"AttentionShape::dropout", "changes nothing"}));
}

TEST(ConformanceKit, FindsDropoutInEvaluation) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    return at::dropout(self.sound(in, context), self.shape().dropout, true);
  };
  EXPECT_THAT(failure("dropout", attend), StartsWith("dropout 0.5 in evaluation, against none"));
}

TEST(ConformanceKit, FindsATensorThatIsNotSaved) {
  const auto build = [](const AttentionShape& shape) {
    const Tensor unregistered = at::rand({4});
    return std::make_shared<Wrong>(shape, [=](Wrong& self, const In& in, Context& context) {
      return self.sound(in, context) * unregistered.to(in.values.scalar_type());
    });
  };
  EXPECT_THAT(failure("save_and_load", {build, AttentionTraits::all_quadratic()}),
              AllOf(StartsWith("a fresh module"), HasSubstr("output")));
}

TEST(ConformanceKit, FindsReadingMemoryWithoutItsStrides) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    const auto contiguous = at::empty(in.values.sizes()).strides().vec();
    in.values = in.values.as_strided(in.values.sizes(), contiguous);
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("strides", attend), mentions("one projection", "contiguous"));
}

TEST(ConformanceKit, FindsABiasOfOneExampleTakenForAll) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    if (in.bias.defined() && in.bias.dim() == 4) in.bias = in.bias.narrow(0, 0, 1);
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("batch", attend),
              AllOf(StartsWith("bias"), mentions("example 1 of 3", "output of layer 0 at [")));
}

TEST(ConformanceKit, FindsExamplesThatMix) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    const Tensor out = self.sound(in, context);
    return out - out.mean(0, true);
  };
  EXPECT_THAT(failure("batch", attend),
              AllOf(StartsWith("no extras"), HasSubstr("example 0 of 3")));
}

}  // namespace
}  // namespace attnlab::conformance::basic_checks_test
