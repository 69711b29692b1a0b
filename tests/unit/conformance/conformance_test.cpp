// The conformance kit passes what is sound, and each of its checks fails what is wrong.
#include <ATen/Parallel.h>
#include <c10/core/DefaultDtype.h>
#include <torch/csrc/autograd/custom_function.h>

#include <set>

#include "tests/unit/conformance/wrong_attention.h"

namespace attnlab::conformance {
namespace {

using ::testing::AllOf;
using testing::failure;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::subject;
using testing::Wrong;

using In = AttentionInput;
using Context = AttentionContext;

Tensor sound(Wrong& self, const In& in, Context& context) { return self.sound(in, context); }

std::string story(const std::vector<CheckResult>& results) {
  std::string text;
  for (const CheckResult& result : results) {
    text +=
        result.check + ": " + std::string(name_of(result.outcome)) + ": " + result.message + "\n";
  }
  return text;
}

TEST(ConformanceKit, PassesSoundAttention) {
  const std::vector<CheckResult> results = run_checks(subject(sound));
  ASSERT_EQ(results.size(), std::size(kChecks));
  for (const CheckResult& result : results) {
    if (result.check == "linear_cost") {
      EXPECT_EQ(result.outcome, Outcome::not_applicable);
      EXPECT_EQ(result.message, "trait 'linear_cost' is not declared");
    } else if (result.check != "device") {
      EXPECT_EQ(result.outcome, Outcome::passed) << story({result});
    }
    EXPECT_GT(result.seconds, 0) << result.check;
  }
}

TEST(ConformanceKit, DoesNotApplyTraitsThatAreNotDeclared) {
  std::set<std::string> not_applicable;
  for (const CheckResult& result : run_checks(subject(sound, AttentionTraits{}))) {
    if (result.outcome == Outcome::not_applicable) not_applicable.insert(result.check);
    EXPECT_NE(result.outcome, Outcome::failed) << story({result});
  }
  const std::set<std::string> expected = {"bias",
                                          "broadcasting",
                                          "causality",
                                          "different_lengths",
                                          "different_source",
                                          "empty_rows",
                                          "linear_cost",
                                          "padding",
                                          "pair_mask",
                                          "queries",
                                          "ragged",
                                          "relative_positions",
                                          "second_gradients",
                                          "window"};
  EXPECT_EQ(not_applicable, expected);
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

TEST(ConformanceKit, NamesTheChecksThatThereAre) {
  try {
    run_check("casuality", subject(sound));
    FAIL() << "nothing was thrown";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "there is no check 'casuality'; did you mean 'causality'?");
  }
}

TEST(ConformanceKit, FindsQueriesThatDependOnEachOther) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    const Tensor out = self.sound(in, context);
    return out + out.mean(2, true);
  };
  EXPECT_THAT(failure("queries", attend), HasSubstr("query 0 asked alone, against it among 4"));
}

/// With one number that all heads share.
class OneScale final : public DotProductAttention {
 public:
  OneScale(const AttentionShape& shape, bool of_each_member)
      : DotProductAttention(shape),
        scale_(register_parameter("scale", at::ones({of_each_member ? shape.members : 1}))) {}

 protected:
  Tensor map_queries(const Tensor& q, AttentionContext&) const override { return q * scale_[0]; }

 private:
  Tensor scale_;
};

TEST(ConformanceKit, FindsWhatMembersShare) {
  const auto build = [](bool of_each_member) {
    return Subject{.build =
                       [=](const AttentionShape& shape) {
                         return std::make_shared<OneScale>(shape, of_each_member);
                       },
                   .declared = AttentionTraits::all_quadratic()};
  };
  EXPECT_EQ(failure("members", build(false)),
            "with heads of 2 members, layer 0: parameter scale is [1] float64, expected as many "
            "times the rows of [1] float64, which one model has (AttentionShape::members)");
  EXPECT_THAT(failure("members", build(true)), HasSubstr("member 1 of 2, against it alone"));
}

TEST(ConformanceKit, FindsOutputsAsWideAsQueries) {
  const auto attend = [](Wrong&, const In& in, Context&) { return at::zeros_like(in.queries); };
  EXPECT_EQ(failure("shapes", attend),
            "H 1, D 4, Dv 3, B 2, Lq 4, Lk 4: output of layer 0 is [2, 1, 4, 4] float32, expected "
            "[B, H, Lq, Dv] = [2, 1, 4, 3] float32");
}

TEST(ConformanceKit, AllowsRefusingOtherValueWidthsWhenBuilt) {
  const auto picky = [](const AttentionShape& shape) -> std::shared_ptr<Attention> {
    if (shape.values() != shape.head_dim) throw ConfigError("values must be as wide as keys");
    return std::make_shared<DotProductAttention>(shape);
  };
  const CheckResult result = run_check("shapes", {picky, AttentionTraits::all_quadratic()});
  EXPECT_EQ(result.outcome, Outcome::passed) << result.message;
  EXPECT_EQ(result.message, "value_dim other than head_dim is refused when it is built");
}

TEST(ConformanceKit, FindsAnotherDtype) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    return self.sound(in, context).to(at::kFloat);
  };
  EXPECT_THAT(failure("dtypes", attend),
              AllOf(StartsWith("no extras in float64: output of layer 0 is [2, 2, 4, 4] float32"),
                    HasSubstr("expected the values' dtype")));
}

TEST(ConformanceKit, FindsNumbersTooCoarseForTheirDtype) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    in.queries = in.queries.to(at::kBFloat16).to(in.queries.scalar_type());
    in.queries = in.queries * (in.queries.scalar_type() == at::kFloat ? 1.1 : 1);
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("dtypes", attend), HasSubstr("in float32, against float64"));
}

TEST(ConformanceKit, FindsRandomOutputs) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    return self.sound(in, context) + at::rand({1}, in.values.options());
  };
  EXPECT_THAT(failure("determinism", attend),
              StartsWith("no extras, computed twice: output of layer 0 at [0, 0, 0, 0] is "));
}

TEST(ConformanceKit, FindsDropoutThatIsIgnored) {
  const auto build = [](AttentionShape shape) {
    shape.dropout = 0;
    return std::make_shared<DotProductAttention>(shape);
  };
  EXPECT_EQ(failure("dropout", {build, AttentionTraits::all_quadratic()}),
            "AttentionShape::dropout = 0.5 in training changes nothing: it is ignored");
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
              StartsWith("a fresh module with the parameters and buffers of a used one: output"));
}

TEST(ConformanceKit, FindsReadingMemoryWithoutItsStrides) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    const auto contiguous = at::empty(in.values.sizes()).strides().vec();
    in.values = in.values.as_strided(in.values.sizes(), contiguous);
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("strides", attend),
              StartsWith("no extras with views of one projection, against contiguous tensors"));
}

/// x forward, half the gradient backward.
struct HalfGradient : torch::autograd::Function<HalfGradient> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x) { return x.clone(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0] * 0.5};
  }
};

/// x³ with the right derivative, which forgets that it depends on x.
struct CubeOnce : torch::autograd::Function<CubeOnce> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x) {
    context->save_for_backward({x});
    return x * x * x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const Tensor x = context->get_saved_variables()[0].detach();
    return {gradients[0] * 3 * x * x};
  }
};

TEST(ConformanceKit, FindsAWrongGradient) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    in.keys = HalfGradient::apply(in.keys);
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("gradients", attend),
              AllOf(StartsWith("no extras: derivative of layer 0 by keys at [0, 0, 0, 0]: "),
                    HasSubstr("autograd says"), HasSubstr("central differences")));
}

TEST(ConformanceKit, FindsAWrongGradientInTheSecondLayerAlone) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    if (context.layer == 1) in.queries = HalfGradient::apply(in.queries);
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("gradients", attend),
              StartsWith("no extras: derivative of layer 1 by queries at [0, 0, 0, 0]: "));
}

TEST(ConformanceKit, FindsAWrongGradientOfAParameter) {
  class Scaled : public DotProductAttention {
   public:
    explicit Scaled(const AttentionShape& shape)
        : DotProductAttention(shape), scale_(register_parameter("scale", at::ones({1}))) {}

   protected:
    Tensor map_keys(const Tensor& keys, Context&) const override {
      return keys * HalfGradient::apply(scale_);
    }

   private:
    Tensor scale_;
  };
  const auto build = [](const AttentionShape& shape) { return std::make_shared<Scaled>(shape); };
  EXPECT_THAT(failure("gradients", {build, AttentionTraits::all_quadratic()}),
              StartsWith("no extras: derivative of layer 0 by layer 0: parameter scale at [0]: "));
}

TEST(ConformanceKit, FindsAGraphThatIsCut) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    return self.sound(in, context).detach();
  };
  EXPECT_THAT(failure("gradients", attend), HasSubstr("autograd says 0, central differences"));
}

TEST(ConformanceKit, FindsAWrongSecondGradient) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    in.queries = CubeOnce::apply(in.queries);
    return self.sound(in, context);
  };
  EXPECT_EQ(run_check("gradients", subject(attend)).outcome, Outcome::passed);
  EXPECT_THAT(failure("second_gradients", attend),
              StartsWith("no extras: second derivative of layer 0 by queries at [0, 0, 0, 0]: "));
}

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
            "refused: a bias on the logits, visible.key_valid, visible.query_valid");
}

TEST(ConformanceKit, FindsACausalRuleThatIsIgnored) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    in.visible.causal = false;
    return self.sound(in, context);
  };
  EXPECT_THAT(
      failure("causality", attend),
      StartsWith("no extras, causal, tokens from key 1 on replaced: earlier rows of layer 0 "
                 "at ["));
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
  EXPECT_THAT(
      failure("causality", attend),
      AllOf(HasSubstr("the pair [query, key] = [0, 0] is visible"), HasSubstr("has no influence")));
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
  EXPECT_THAT(
      failure("window", attend),
      AllOf(StartsWith("window 1, B 2, Lq 4, Lk 4, layer 0: the pair [b, h, query, key] = "),
            HasSubstr("is hidden, yet")));
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
  EXPECT_THAT(failure("pair_mask", attend), HasSubstr("is hidden, yet the value has a derivative"));
}

TEST(ConformanceKit, FindsHiddenValuesThatComeInWithoutAGradient) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    return self.sound(in, context) + in.values.detach().mean(2, true);
  };
  EXPECT_THAT(failure("pair_mask", attend),
              AllOf(HasSubstr("value 0 replaced: rows that do not see it, layer 0 at")));
}

TEST(ConformanceKit, FindsPaddingThatIsSeen) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    in.visible.key_valid = Tensor();
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("padding", attend),
              StartsWith("no extras, both tails padded, example 0, against its real tokens alone: "
                         "output of layer 0 at ["));
}

TEST(ConformanceKit, FindsPaddingThatIsCounted) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    return self.sound(in, context) / static_cast<double>(in.key_count());
  };
  EXPECT_THAT(failure("padding", attend), HasSubstr("against its real tokens alone"));
}

TEST(ConformanceKit, FindsSequencesThatSeeEachOther) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    in.visible.query_offsets = in.visible.key_offsets = Tensor();
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("ragged", attend),
              StartsWith("no extras, ragged, B 1, Lq 7, Lk 7, against its sequences one by one: "
                         "output of layer 0 at ["));
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

TEST(ConformanceKit, FindsABiasOfOneExampleTakenForAll) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    if (in.bias.defined() && in.bias.dim() == 4) in.bias = in.bias.narrow(0, 0, 1);
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("batch", attend),
              StartsWith("bias, example 1 of 3, against it alone: output of layer 0 at ["));
}

TEST(ConformanceKit, FindsExamplesThatMix) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    const Tensor out = self.sound(in, context);
    return out - out.mean(0, true);
  };
  EXPECT_THAT(failure("batch", attend), StartsWith("no extras, example 0 of 3, against it alone"));
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

TEST(ConformanceKit, FindsQueriesInAnotherOrder) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    return self.sound(in, context) +
           at::arange(in.query_count(), in.values.options()).view({-1, 1});
  };
  EXPECT_THAT(failure("permutation", attend), StartsWith("queries in another order"));
}

/// Softmax over -inf: NaN where a row sees nothing.
Tensor naive(Wrong&, const In& in, Context&) {
  Tensor logits = at::matmul(in.queries, in.keys.transpose(-2, -1)) / 2;
  const Tensor visible =
      visible_pairs(in.visible, in.query_count(), in.key_count(), in.keys.device());
  if (visible.defined()) logits = logits.masked_fill(visible.logical_not(), -INFINITY);
  return at::matmul(logits.softmax(-1), in.values);
}

TEST(ConformanceKit, FindsNanInRowsThatSeeNothing) {
  EXPECT_THAT(failure("empty_rows", naive),
              AllOf(StartsWith("all keys of example 1 are padding (float64): output of layer 0 at "
                               "[1, 0, 0, 0] is "),
                    HasSubstr("nan")));
}

TEST(ConformanceKit, FindsNanInGradientsBehindZeros) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    return naive(self, in, context).nan_to_num(0);
  };
  EXPECT_THAT(failure("empty_rows", attend), HasSubstr("gradient of layer 0: "));
}

TEST(ConformanceKit, FindsRowsThatSeeNothingAndGiveSomething) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    return self.sound(in, context) + 1;
  };
  EXPECT_THAT(failure("empty_rows", attend), HasSubstr("rows that see nothing, layer 0 at [1, 0"));
}

TEST(ConformanceKit, FindsWhatAPassLeavesBehind) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    const Tensor before = self.kept.defined() ? self.kept : at::zeros({}, in.values.options());
    self.kept = before * 0.5 + in.values.detach().mean();
    return self.sound(in, context) + before;
  };
  EXPECT_THAT(
      failure("state", attend),
      StartsWith("a pass after another one, against the same pass alone: output of layer 0"));
}

TEST(ConformanceKit, FindsStateOutsideForwardState) {
  // Layer 1 reads what layer 0 of the same module family left, wherever it came from.
  const auto shared = std::make_shared<Tensor>();
  const auto attend = [shared](Wrong& self, const In& in, Context& context) {
    Tensor out = self.sound(in, context);
    if (context.layer == 1) return out * *shared;
    *shared = in.values.detach().mean();
    return out;
  };
  EXPECT_THAT(failure("state", attend),
              StartsWith("layer 1, with layer 0 of another pass in between"));
}

TEST(ConformanceKit, FindsALayerThatCannotStandAlone) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    if (context.state == nullptr) throw std::runtime_error("no state");
    return self.sound(in, context);
  };
  EXPECT_EQ(failure("state", attend), "threw an exception: no state");
}

TEST(ConformanceKit, FindsAnOverflow) {
  const auto attend = [](Wrong&, const In& in, Context&) {
    const Tensor weights = (at::matmul(in.queries, in.keys.transpose(-2, -1)) / 2).exp();
    return at::matmul(weights / weights.sum(-1, true), in.values);
  };
  EXPECT_THAT(failure("large_logits", attend, AttentionTraits{}),
              AllOf(StartsWith("no extras, queries and keys grown until |q k| / sqrt(D) is 10000 "
                               "(float32): output of layer 0 at ["),
                    HasSubstr("nan")));
}

TEST(ConformanceKit, FindsAStatisticThatNeedsTwoTokens) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    in.keys = in.keys / in.keys.std(at::IntArrayRef{2}, true, true);
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("single_token", attend),
              StartsWith("one token, B 1, Lq 1, Lk 1: output of layer 0 at [0, 0, 0, 0] is "));
}

TEST(ConformanceKit, FindsATraceThatChangesTheOutput) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    const Tensor out = self.sound(in, context);
    return context.trace == nullptr ? out : out * 1.001;
  };
  EXPECT_THAT(failure("trace", attend),
              StartsWith("no extras, traced, against not: output of layer 0"));
}

/// Standard attention with its records changed.
template <class Change>
Wrong::Attend with_record(Change change) {
  return [change](Wrong& self, const In& in, Context& context) {
    const Tensor out = self.sound(in, context);
    if (context.trace != nullptr && !context.trace->layers.empty()) {
      change(context.trace->layers.back());
    }
    return out;
  };
}

TEST(ConformanceKit, FindsWeightsThatDoNotGiveTheOutput) {
  const auto twice = with_record([](LayerTrace& seen) {
    if (seen.weights.defined()) seen.weights = seen.weights * 2;
  });
  EXPECT_THAT(
      failure("trace", twice),
      StartsWith("no extras, trace of layer 0: weights times values, against the output at"));
}

TEST(ConformanceKit, FindsRecordsThatAreWrong) {
  const std::pair<const char*, std::function<void(LayerTrace&)>> wrong[] = {
      {"calls itself layer 7", [](LayerTrace& seen) { seen.layer = 7; }},
      {"logits of hidden pairs are not all -inf",
       [](LayerTrace& seen) { seen.logits = seen.logits.nan_to_num(0, 0, 0); }},
      {"query_norms at", [](LayerTrace& seen) { seen.query_norms = seen.query_norms * 2; }},
      {"key_norms is", [](LayerTrace& seen) { seen.key_norms = seen.key_norms.sum(-1); }},
      {"entropy at", [](LayerTrace& seen) { seen.entropy = seen.entropy / std::log(2.0); }},
      {"carries a graph", [](LayerTrace& seen) { seen.logits.requires_grad_(); }},
  };
  for (const auto& [part, change] : wrong) {
    const auto guarded = [&](LayerTrace& seen) {
      if (seen.weights.defined()) change(seen);
    };
    EXPECT_THAT(failure("trace", with_record(guarded)), HasSubstr(part));
  }
}

TEST(ConformanceKit, FindsRecordsThatNobodyAskedFor) {
  const auto more = with_record([](LayerTrace& seen) {
    seen.key_norms = at::zeros({2, 2, 4}, at::kDouble);
  });
  AttentionTraits none;
  const auto attend = [more](Wrong& self, const In& in, Context& context) {
    const bool nothing = context.trace != nullptr && !context.trace->norms;
    return nothing ? more(self, in, context) : self.sound(in, context);
  };
  EXPECT_EQ(failure("trace", attend, none),
            "a trace that asks for nothing holds a tensor [2, 2, 4] float64");
}

TEST(ConformanceKit, FindsQuadraticCostDeclaredAsLinear) {
  AttentionTraits traits;
  traits.linear_cost = true;
  const auto quadratic = [](Wrong& self, const In& in, Context& context) {
    return naive(self, in, context);
  };
  EXPECT_EQ(failure("linear_cost", quadratic, traits),
            "the largest tensor has 524288 elements at n = 512 and 8388608 at n = 2048: it grows "
            "faster than n");
}

TEST(ConformanceKit, PassesLinearCost) {
  AttentionTraits traits;
  traits.linear_cost = true;
  const auto linear = [](Wrong&, const In& in, Context&) {
    return at::matmul(in.queries, at::matmul(in.keys.transpose(-2, -1), in.values));
  };
  const CheckResult result = run_check("linear_cost", subject(linear, traits));
  EXPECT_EQ(result.outcome, Outcome::passed) << result.message;
}

TEST(ConformanceKit, FindsAnInputThatIsWrittenTo) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    const Tensor out = self.sound(in, context).clone();
    if (in.visible.key_valid.defined()) in.visible.key_valid.fill_(true);
    return out;
  };
  EXPECT_THAT(failure("inputs_unchanged", attend),
              HasSubstr("after forward and backward: layer 0: visible.key_valid at [0, "));
  const auto scales = [](Wrong& self, const In& in, Context& context) {
    const Tensor out = self.sound(in, context);
    if (in.bias.defined()) in.bias.detach().mul_(2);
    return out;
  };
  EXPECT_THAT(failure("inputs_unchanged", scales),
              StartsWith("bias, after forward and backward: layer 0: bias at [0, 0, 0, 0] is "));
}

TEST(ConformanceKit, FindsChangesOfTheProcess) {
  const int threads = at::get_num_threads();
  const std::pair<const char*, void (*)()> changes[] = {
      {"LibTorch's number of threads", [] { at::set_num_threads(at::get_num_threads() + 1); }},
      {"LibTorch's random numbers", [] { at::rand({1}); }},
      {"LibTorch's default dtype",
       [] { c10::set_default_dtype(caffe2::TypeMeta::Make<double>()); }},
      {"autograd's mode", [] { at::GradMode::set_enabled(false); }},
  };
  for (const auto& [what, change] : changes) {
    const auto attend = [act = change](Wrong& self, const In& in, Context& context) {
      const Tensor out = self.sound(in, context);
      act();
      return out;
    };
    EXPECT_EQ(
        failure("process_state", attend),
        std::string("a forward and backward pass in evaluation, without dropout, changes ") + what);
    EXPECT_EQ(at::get_num_threads(), threads);
    EXPECT_TRUE(at::GradMode::is_enabled());
  }
}

TEST(ConformanceKit, FindsRefusalsOfWhatIsDeclared) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    if (in.visible.causal) throw TraitError("columns couple future and past");
    return self.sound(in, context);
  };
  Subject of = subject(attend);
  EXPECT_EQ(failure("causality", of), "refuses what it declares: columns couple future and past");
  of.may_refuse = true;
  const CheckResult result = run_check("causality", of);
  EXPECT_EQ(result.outcome, Outcome::not_applicable);
  EXPECT_EQ(result.message, "refused with these options: columns couple future and past");
}

TEST(ConformanceKit, CountsExceptionsAsFailures) {
  const auto throws = [](const AttentionShape&) -> std::shared_ptr<Attention> {
    throw std::runtime_error("the kernel table is empty\nframe #0");
  };
  const auto number = [](const AttentionShape&) -> std::shared_ptr<Attention> { throw 7; };
  const auto nothing = [](const AttentionShape&) { return std::shared_ptr<Attention>(); };
  for (const CheckInfo& check : kChecks) {
    const CheckResult result = run_check(check.name, {throws, AttentionTraits::all_quadratic()});
    if (result.outcome == Outcome::skipped || result.outcome == Outcome::not_applicable) continue;
    EXPECT_EQ(result.outcome, Outcome::failed) << check.name;
    EXPECT_EQ(result.message, "threw an exception: the kernel table is empty");
  }
  EXPECT_EQ(failure("shapes", {number, {}}), "threw something that is no std::exception");
  EXPECT_EQ(failure("shapes", {nothing, {}}), "the factory returned nothing");
}

}  // namespace
}  // namespace attnlab::conformance
