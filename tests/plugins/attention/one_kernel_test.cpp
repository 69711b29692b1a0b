// Mechanisms that do more than plain softmax, in the kernel of softmax on the CPU: the same numbers
// as their explicit form over several blocks, and no more memory than standard attention.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "framework/tensor/by_distance.h"
#include "framework/tensor/memory_meter.h"
#include "tests/support/gradcheck.h"
#include "tests/support/kernel_choice.h"
#include "tests/support/naive_attention.h"
#include "tests/support/plugins.h"

namespace attnlab::one_kernel_test {
namespace {

using testing::KernelChoice;
using testing::largest_difference;

constexpr std::int64_t kHeads = 2, kWidth = 16;

const char* const kMechanisms[] = {"sink",    "soft_cap", "alibi", "forgetting",
                                   "sigmoid", "relu",     "cog"};

std::shared_ptr<Attention> built(const std::string& id, at::ScalarType dtype) {
  const auto attention = testing::make_attention(id, {.heads = kHeads,
                                                      .head_dim = kWidth,
                                                      .query_width = kHeads * kWidth,
                                                      .key_width = kHeads * kWidth,
                                                      .value_width = kHeads * kWidth});
  at::manual_seed(1);
  attention->to(dtype);
  const at::NoGradGuard no_gradients;
  for (Tensor& p : attention->parameters()) p.copy_(at::randn_like(p) * 0.3);
  return attention;
}

AttentionInput made(const Attention& attention, std::int64_t length, at::ScalarType dtype) {
  at::manual_seed(2);
  const auto drawn = [&](at::IntArrayRef sizes) { return at::randn(sizes, at::kDouble).to(dtype); };
  const auto projected = [&] {
    return drawn({1, length, kHeads, kWidth}).transpose(1, 2).detach().requires_grad_();
  };
  AttentionInput in;
  in.queries = projected(), in.keys = projected(), in.values = projected();
  in.visible.causal = true;
  if (attention.traits().sources) {
    in.query_source = in.key_source = in.value_source =
        drawn({1, length, kHeads * kWidth}).requires_grad_();
  }
  return in;
}

/// The output, then gradients of inputs and parameters.
std::vector<Tensor> results(const std::string& id, at::ScalarType dtype, AttentionKernel kernel) {
  const KernelChoice chosen(kernel);
  const auto attention = built(id, dtype);
  AttentionInput in = made(*attention, 333, dtype);
  in.visible.key_valid = at::ones({1, 333}, at::kBool);
  in.visible.key_valid[0].narrow(0, 40, 7).fill_(false);
  AttentionContext context;
  const Tensor y = attention->forward(in, context);
  std::vector<Tensor> leaves = {in.queries, in.keys, in.values};
  if (in.key_source.defined()) leaves.push_back(in.key_source);
  for (const Tensor& p : attention->parameters()) leaves.push_back(p);
  std::vector<Tensor> all = torch::autograd::grad({(y * testing::probe_like(y)).sum()}, leaves);
  all.insert(all.begin(), y);
  return all;
}

TEST(OneKernel, GivesTheNumbersOfTheExplicitForm) {
  for (const std::string id : kMechanisms) {
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
      // A gate's bias sums over all 55,000 pairs, with signs that cancel: its own size says little
      // of the rounding, which also differs between processors.
      const double tolerance = dtype == at::kFloat ? 6e-5 : 1e-10;
      const auto found = results(id, dtype, AttentionKernel::headwise);
      const auto wanted = results(id, dtype, AttentionKernel::explicit_form);
      ASSERT_EQ(found.size(), wanted.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        const double size = std::max(1.0, wanted[i].abs().max().item<double>());
        EXPECT_LT(largest_difference(found[i], wanted[i]), tolerance * size)
            << id << ", " << dtype << ", result " << i;
      }
    }
  }
}

std::int64_t peak_of(const std::string& id) {
  const auto attention = built(id, at::kFloat);
  const AttentionInput in = made(*attention, 700, at::kFloat);
  const Tensor grad = at::ones({1, 700, kHeads, kWidth}).transpose(1, 2);
  const MemoryMeter meter;
  AttentionContext context;
  attention->forward(in, context).backward(grad);
  return meter.peak();
}

TEST(OneKernel, TakesTheMemoryOfStandardAttention) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto standard = static_cast<double>(peak_of("standard"));
  for (const std::string id : kMechanisms) {
    EXPECT_LT(static_cast<double>(peak_of(id)), 1.15 * standard) << id;
  }
  at::set_num_threads(threads);
}

/// Whoever takes a bias takes one by distance, and gives what the same by pair gives.
TEST(OneKernel, EveryAttentionWithABiasTakesOneByDistance) {
  const auto with_bias = testing::attentions_with("bias");
  EXPECT_GT(with_bias.size(), 20u);
  for (const std::string& id : with_bias) {
    const auto attention = built(id, at::kDouble);
    attention->eval();
    AttentionInput in = made(*attention, 6, at::kDouble), by_pair = in;
    in.visible.causal = by_pair.visible.causal = attention->traits().ordered;
    in.distance_bias = at::randn({1, kHeads, 11}, at::kDouble);
    by_pair.bias = pairs_of_distances(in.distance_bias, 6);
    AttentionContext context;
    const Tensor expected = attention->forward(by_pair, context);
    EXPECT_LT(largest_difference(attention->forward(in, context), expected), 1e-10) << id;
    AttentionInput without = in;
    without.distance_bias = Tensor();
    EXPECT_GT(largest_difference(attention->forward(without, context), expected), 1e-6) << id;
  }
}

}  // namespace
}  // namespace attnlab::one_kernel_test
