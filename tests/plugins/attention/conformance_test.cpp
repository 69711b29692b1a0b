// Every installed attention keeps the contract, also with other options than the default ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/conformance/conformance.h"
#include "framework/tensor/torch_compat.h"
#include "tests/support/kernel_choice.h"
#include "tests/support/plugins.h"

namespace attnlab::conformance_test {
namespace {

using conformance::CheckResult;
using conformance::Outcome;
using conformance::Subject;

const AttentionShape kShape{
    .heads = 2, .head_dim = 4, .query_width = 8, .key_width = 8, .value_width = 8};

struct Configured {
  std::string name;  ///< of the test
  std::string id;
  std::string options = "{}";
};

void PrintTo(const Configured& attention, std::ostream* out) {
  *out << attention.id << " " << attention.options;
}

Subject subject_of(const Configured& attention) {
  Subject subject;
  subject.build = [attention](const AttentionShape& shape) {
    return testing::make_attention(attention.id, shape, attention.options);
  };
  subject.declared = subject.build(kShape)->traits();
  subject.may_refuse = attention.options != "{}";
  return subject;
}

/// Their own tests compare them with loops under every rule.
TEST(Attentions, HonourEveryInputOfTheContract) {
  for (const char* id : {"cog", "entmax", "laser", "misaligned", "quest", "relu", "sigmoid", "sink",
                         "ssmax", "standard", "talking_heads", "value_residual"}) {
    EXPECT_EQ(testing::make_attention(id, {.heads = 2, .head_dim = 4})->traits(),
              AttentionTraits::all_quadratic())
        << id;
  }
}

class EveryAttention : public ::testing::TestWithParam<Configured> {};

TEST_P(EveryAttention, KeepsTheContract) {
  int passed = 0;
  for (const CheckResult& result : conformance::run_checks(subject_of(GetParam()))) {
    EXPECT_NE(result.outcome, Outcome::failed) << result.check << ": " << result.message;
    if (result.outcome == Outcome::passed) ++passed;
  }
  EXPECT_GE(passed, 15) << "most checks need no trait";
}

/// An attention that asks for one kernel wherever that serves.
class ByKernel final : public Attention {
 public:
  /// @param served   counts the calls that it served
  /// @param refused  those that it did not, though they had no trace and are of float32 or float64
  ByKernel(const std::shared_ptr<Attention>& inner, AttentionKernel kernel, int& served,
           int& refused)
      : Attention(inner->shape(), inner->traits()),
        inner_(register_module("inner", inner)),
        kernel_(kernel),
        served_(served),
        refused_(refused) {}

  bool couples_queries() const override { return inner_->couples_queries(); }

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext& context) override {
    try {
      const testing::KernelChoice choice(kernel_);
      const Tensor out = inner_->forward(input, context);
      ++served_;
      return out;
    } catch (const ConfigError&) {
      const at::ScalarType dtype = input.values.scalar_type();
      if (context.trace == nullptr && (dtype == at::kFloat || dtype == at::kDouble)) ++refused_;
      return inner_->forward(input, context);
    }
  }

 private:
  std::shared_ptr<Attention> inner_;
  AttentionKernel kernel_;
  int &served_, &refused_;
};

struct NamedKernel {
  std::string attention;
  AttentionKernel kernel;
};

void PrintTo(const NamedKernel& one, std::ostream* out) {
  *out << one.attention << " by " << name_of(one.kernel);
}

class EveryKernel : public ::testing::TestWithParam<NamedKernel> {};

TEST_P(EveryKernel, KeepsTheContractWhereItServes) {
  const std::string attention = GetParam().attention;
  const AttentionKernel kernel = GetParam().kernel;
  if (kernel == AttentionKernel::fused && !compat::kHasFusedAttention) {
    GTEST_SKIP() << "this LibTorch has no fused attention";
  }
  int served = 0, refused = 0;
  Subject subject;
  subject.build = [&](const AttentionShape& shape) {
    return std::make_shared<ByKernel>(testing::make_attention(attention, shape), kernel, served,
                                      refused);
  };
  subject.declared = testing::make_attention(attention, kShape)->traits();
  for (const CheckResult& result : conformance::run_checks(subject)) {
    // All pairs are what the explicit form is.
    if (result.check == "linear_cost" && kernel == AttentionKernel::explicit_form) continue;
    EXPECT_NE(result.outcome, Outcome::failed) << result.check << ": " << result.message;
  }
  EXPECT_GT(served, 20);
  // (LibTorch's takes neither biases nor rows without keys; a mechanism's own says what it takes.)
  if (kernel == AttentionKernel::headwise || kernel == AttentionKernel::explicit_form) {
    EXPECT_EQ(refused, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(ByName, EveryKernel,
                         ::testing::Values(NamedKernel{"standard", AttentionKernel::explicit_form},
                                           NamedKernel{"standard", AttentionKernel::headwise},
                                           NamedKernel{"standard", AttentionKernel::fused},
                                           NamedKernel{"quest", AttentionKernel::explicit_form},
                                           NamedKernel{"quest", AttentionKernel::headwise},
                                           NamedKernel{"quest", AttentionKernel::fused},
                                           NamedKernel{"linear", AttentionKernel::explicit_form},
                                           NamedKernel{"linear", AttentionKernel::own}),
                         [](const auto& one) {
                           return one.param.attention + "_by_" + name_of(one.param.kernel);
                         });

std::vector<Configured> installed() {
  std::vector<Configured> all;
  for (const std::string& id : testing::registry().catalogue().names(Kind::attention)) {
    all.push_back({id, id});
  }
  return all;
}

const Configured kConfigured[] = {
    {"standard_by_model_dim", "standard", "{scale_by: model_dim}"},
    {"elliptical_median", "elliptical", "{average: median, scale_with_metric: false}"},
    {"elliptical_quest_median", "elliptical_quest", "{evaluation_average: median}"},
    {"indirect_after_scaling", "indirect", "{bias: after_scaling, hidden: 8}"},
    {"indirect_in_the_plane", "indirect", "{coordinates: 2, hidden: 8}"},
    {"indirect_unrefined", "indirect", "{refine: false, hidden: 8}"},
    {"sigmoid_with_a_constant", "sigmoid", "{bias: constant, constant: -1}"},
    {"doubly_stochastic_long", "doubly_stochastic", "{max_iter: 20, eps: 2, total: inverse_n}"},
    {"qknorm_ds", "qknorm", "{scales: channel}"},
    {"qknorm_hs_plain", "qknorm_hs", "{parameter: plain}"},
    {"quest_by_sinkhorn", "composed",
     "{key: {map: sphere}, scale: {value: 1}, normaliser: {kind: sinkhorn}}"},
    {"elliptical_by_sigmoid", "composed",
     "{metric: {kind: elliptical}, normaliser: {kind: sigmoid}}"},
    {"gated_by_head", "gated", "{gate: head}"},
    {"forgetting_from_5", "forgetting", "{start: 5}"},
    {"cope_of_three", "cope", "{max_positions: 3}"},
    {"sink_of_one", "sink", "{learned: false}"},
    {"soft_cap_of_one", "soft_cap", "{cap: 1}"},
    {"relu_squared", "relu", "{power: 2}"},
    {"entmax_plain", "entmax", "{adaptive: false}"},
    {"value_residual_learned", "value_residual", "{learned: true}"},
    {"rotary_of_100", "rotary", "{base: 100}"},
    {"retention_both_ways", "retention", "{both_ways: true}"},
    {"kimi_delta_both_ways", "kimi_delta", "{both_ways: true}"},
    {"gated_linear_both_ways", "gated_linear_attention", "{both_ways: true}"},
    {"path_of_rank_2", "path", "{rank: 2}"},
    {"moba_of_small_blocks", "moba", "{block: 2, top_k: 2}"},
    {"nsa_of_small_blocks", "nsa", "{block: 2, top_k: 3, window: 2}"},
    {"based_unmapped", "based", "{feature_dim: 0}"},
    {"based_of_two", "based", "{feature_dim: 2}"},
    {"learned_everywhere", "composed",
     "{query: {map: sphere, scales: channel}, key: {map: layer_norm, scales: head_channel}, scale: "
     "{kind: learned}, normaliser: {kind: power}}"},
};

std::string name_of(const ::testing::TestParamInfo<Configured>& attention) {
  return attention.param.name;
}

INSTANTIATE_TEST_SUITE_P(Installed, EveryAttention, ::testing::ValuesIn(installed()), name_of);
INSTANTIATE_TEST_SUITE_P(WithOptions, EveryAttention, ::testing::ValuesIn(kConfigured), name_of);

TEST(ConformanceKit, FindsTheLeakOfThePublishedEllipticalAttention) {
  const Subject leaking = subject_of({"", "elliptical", "{causal_leak: true}"});
  const CheckResult result = conformance::run_check("causality", leaking);
  EXPECT_EQ(result.outcome, Outcome::failed);
  EXPECT_THAT(result.message, ::testing::HasSubstr("earlier rows of layer 1"));
}

TEST(ConformanceKit, LetsSinkhornRefuseACausalMask) {
  const Subject coupled = subject_of({"", "composed", "{normaliser: {kind: sinkhorn}}"});
  const CheckResult result = conformance::run_check("causality", coupled);
  EXPECT_EQ(result.outcome, Outcome::not_applicable) << result.message;
  EXPECT_THAT(result.message, ::testing::StartsWith("refused with these options: "));
  for (const std::string check : {"padding", "gradients", "empty_rows", "single_token", "trace"}) {
    EXPECT_EQ(conformance::run_check(check, coupled).outcome, Outcome::passed) << check;
  }
}

}  // namespace
}  // namespace attnlab::conformance_test
