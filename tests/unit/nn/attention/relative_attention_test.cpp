// Relative positions in the kernel that goes head by head, against the explicit form, which the
// contract's tests hold to loops over pairs.
#include <gtest/gtest.h>

#include "framework/nn/attention/dot_product_attention.h"
#include "tests/support/gradcheck.h"
#include "tests/support/kernel_choice.h"

namespace attnlab::relative_attention_test {
namespace {

using testing::KernelChoice;

struct Case {
  std::int64_t batch, heads, queries, keys, dim, channels, window;
};

/// Projections as a model lays them, in float32.
AttentionInput made_input(const Case& c) {
  at::manual_seed(c.queries);
  const auto projected = [&](std::int64_t length, std::int64_t channels) {
    return at::randn({c.batch, length, c.heads, channels}).transpose(1, 2);
  };
  AttentionInput in;
  in.queries = projected(c.queries, c.dim);
  in.keys = projected(c.keys, c.dim);
  in.values = projected(c.keys, c.channels);
  in.visible.causal = true;
  in.visible.window = c.window;
  in.relative.keys = at::randn({c.heads, c.queries + c.keys - 1, c.dim});
  in.relative.content_bias = at::randn({c.heads, c.dim});
  in.relative.position_bias = at::randn({c.heads, c.dim});
  return in;
}

std::vector<Tensor*> tensors_of(AttentionInput& in) {
  return {&in.queries,
          &in.keys,
          &in.values,
          &in.relative.keys,
          &in.relative.content_bias,
          &in.relative.position_bias};
}

/// Output, gradients, and gradients of those, under one kernel.
std::vector<Tensor> all_of(AttentionKernel kernel, const Case& c,
                           const DotProductSettings& settings) {
  const KernelChoice choice(kernel);
  AttentionInput in = made_input(c);
  std::vector<Tensor> leaves;
  for (Tensor* tensor : tensors_of(in)) {
    *tensor = tensor->detach().requires_grad_();
    leaves.push_back(*tensor);
  }
  AttentionShape shape;
  shape.heads = c.heads, shape.head_dim = c.dim, shape.value_dim = c.channels;
  DotProductAttention attention(shape, settings);
  attention.train();
  AttentionContext context;
  const Tensor out = attention.forward(in, context);
  std::vector<Tensor> all = {out};
  const Tensor scalar = (out * testing::probe_like(out)).sum();
  for (const Tensor& g : torch::autograd::grad({scalar}, leaves, {}, true)) all.push_back(g);
  const auto first = torch::autograd::grad({scalar}, leaves, {}, true, /*create_graph=*/true);
  Tensor again = at::zeros({});
  for (const Tensor& g : first) again = again + (g * testing::probe_like(g)).sum();
  for (const Tensor& g : torch::autograd::grad({again}, leaves)) all.push_back(g);
  return all;
}

void expect_alike(const Case& c, const DotProductSettings& settings = {}) {
  const auto found = all_of(AttentionKernel::headwise, c, settings);
  const auto expected = all_of(AttentionKernel::explicit_form, c, settings);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double error = (found[i] - expected[i]).abs().max().item<double>();
    EXPECT_LE(error, 2e-4 * std::max(1.0, expected[i].abs().max().item<double>()))
        << i << " of " << c.queries << " x " << c.keys << ", window " << c.window;
  }
}

TEST(RelativeAttention, IsTheExplicitFormWithItsGradients) {
  for (const Case& c :
       {Case{2, 3, 8, 8, 4, 4, 0}, Case{2, 2, 5, 12, 7, 3, 0}, Case{1, 2, 1, 9, 4, 4, 0},
        Case{3, 1, 6, 13, 16, 16, 5}, Case{1, 2, 33, 70, 32, 32, 40}, Case{2, 1, 1, 1, 4, 4, 0}}) {
    expect_alike(c);
    expect_alike(c, {.scale = 1.0, .unit_keys = 1e-12});
  }
}

TEST(RelativeAttention, GivesNoGradientToWhatTakesNone) {
  const KernelChoice choice(AttentionKernel::headwise);
  AttentionInput in = made_input({1, 2, 4, 6, 4, 4, 0});
  in.queries.requires_grad_();
  AttentionShape shape;
  shape.heads = 2, shape.head_dim = 4;
  DotProductAttention attention(shape);
  AttentionContext context;
  const Tensor out = attention.forward(in, context);
  const auto first = torch::autograd::grad({out.sum()}, {in.queries}, {}, true, true);
  EXPECT_TRUE(first[0].requires_grad());
  out.sum().backward();
  EXPECT_FALSE(in.keys.grad().defined());
}

}  // namespace
}  // namespace attnlab::relative_attention_test
