// Layers that are computed again in the backward pass: numbers, what counts once, memory, refusals.
#include "framework/contracts/recompute.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include "framework/nn/kernels/dropout.h"
#include "framework/tensor/memory_meter.h"
#include "tests/support/message_of.h"

namespace attnlab::recompute_test {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

using Tensors = std::vector<Tensor>;

/// What a layer leaves for the next.
struct Left {
  Tensor sum;
  void each(const TensorVisit& visit) { visit(sum); }
};
/// The same without naming its tensors.
struct Hidden {
  Tensor sum;
};

/// Gives the values, and adds the mean of their squares as a loss.
class Penalised final : public Attention {
 public:
  Penalised() : Attention({.heads = 1, .head_dim = 6}, {}) {}

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext& context) override {
    if (context.losses != nullptr) context.losses->add("square", input.values.square().mean());
    return input.values * 1.5;
  }
};

/// y = drop(tanh(W x + table)) + what the layer before left; counts its passes in a buffer that it
/// reads, too.
class Layer : public torch::nn::Module {
 public:
  explicit Layer(double dropout) : dropout_(dropout) {
    weight_ = register_parameter("weight", at::randn({6, 6}) / 2);
    count_ = register_buffer("count", at::ones({1}));
    attention_ = register_module("attention", std::make_shared<Penalised>());
  }

  /// @param in  x [N, 6], table [6], a factor that takes no gradient; perhaps undefined
  /// @returns y, the same for its half, nothing, whole numbers.
  Tensors pass(const Tensors& in, AttentionContext& context) {
    ++passes;
    {
      const at::NoGradGuard no_gradients;
      count_.add_(0.25);
    }
    Tensor y = (at::linear(in[0], weight_) + in[1]).tanh() * count_.clone();
    if (in[2].defined()) y = y * in[2];
    for (int i = 0; i < 6; ++i) y = y.sin();  // each keeps what it is given
    y = dropout(at::dropout(y, dropout_, true), dropout_);
    AttentionInput input;
    input.queries = input.keys = input.values = y.view({-1, 1, 1, 6});
    y = attention_->forward(input, context).view({-1, 6});
    if (context.state != nullptr) {
      Left& left = context.state->of<Left>();
      if (left.sum.defined()) y = y + left.sum * 0.5;
      left.sum = y.cos();
    }
    return {y, y * 0.5, Tensor(), at::arange(3)};
  }

  int passes = 0;

 private:
  double dropout_;
  Tensor weight_, count_;
  std::shared_ptr<Penalised> attention_;
};

/// Layers that share a table and a state, with losses of their attentions.
class Stack : public torch::nn::Module {
 public:
  explicit Stack(std::int64_t depth, double dropout = 0.3) {
    table_ = register_parameter("table", at::randn({6}));
    for (std::int64_t i = 0; i < depth; ++i) {
      layers.push_back(
          register_module("layer" + std::to_string(i), std::make_shared<Layer>(dropout)));
    }
  }

  Tensor loss(const Tensor& x, AttentionLosses* losses, AttentionTrace* trace = nullptr) {
    for (const auto& layer : layers) {
      for (const auto& module : layer->modules(false)) {
        if (auto* attention = module->as<Penalised>()) attention->add_losses_to(losses);
      }
    }
    const Tensor table = table_.sin();  // with a graph of its own
    ForwardState state;
    AttentionContext context{0, &state, trace};
    Tensor y = x, halves;
    for (const auto& layer : layers) {
      const Tensors out = recomputed(
          *layer, {y, table, at::full({1}, 1.25)}, context,
          [layer](const Tensors& in, AttentionContext& own) { return layer->pass(in, own); });
      EXPECT_FALSE(out[2].defined());
      EXPECT_TRUE(out[3].equal(at::arange(3)));
      y = out[0];
      halves = halves.defined() ? halves + out[1] : out[1];
      ++context.layer;
    }
    Tensor sum = y.square().mean() + halves.sin().mean();
    if (losses != nullptr) {
      for (const auto& layer : layers) {
        for (const auto& module : layer->modules(false)) {
          if (auto* attention = module->as<Penalised>()) attention->add_losses_to(nullptr);
        }
      }
      for (const auto& [name, values] : losses->all()) sum = sum + at::stack(values).mean();
    }
    return sum;
  }

  std::vector<std::shared_ptr<Layer>> layers;

 private:
  Tensor table_;
};

/// All numbers of some steps.
struct Trained {
  Tensors numbers;
  std::int64_t again = 0;
  int passes = 0;
};

Trained trained(bool on) {
  at::manual_seed(4);
  Stack stack(3);
  Trained out;
  for (int step = 0; step < 3; ++step) {
    at::manual_seed(100 + step);
    const Tensor x = at::randn({5, 6}).requires_grad_(step > 0);
    AttentionLosses losses;
    Tensor loss;
    {
      const RecomputeLayers again(on);
      loss = stack.loss(x, &losses);
      out.again += again.count();
    }
    EXPECT_EQ(losses.all().at("square").size(), 3U) << "one for each layer";
    out.numbers.push_back(at::rand({2}));  // draws what follows the forward pass
    loss.backward();
    out.numbers.push_back(at::rand({2}));  // and the backward pass
    out.numbers.push_back(loss.detach());
    if (x.requires_grad()) out.numbers.push_back(x.grad());
    const at::NoGradGuard no_gradients;
    for (Tensor& parameter : stack.parameters()) {
      out.numbers.push_back(parameter.grad().clone());
      parameter.sub_(parameter.grad(), 0.1);
      parameter.mutable_grad() = Tensor();
    }
    for (const Tensor& buffer : stack.buffers()) out.numbers.push_back(buffer.clone());
  }
  for (const auto& layer : stack.layers) out.passes += layer->passes;
  return out;
}

TEST(Recompute, GivesTheSameBits) {
  const Trained plain = trained(false), again = trained(true);
  ASSERT_EQ(plain.numbers.size(), again.numbers.size());
  for (std::size_t i = 0; i < plain.numbers.size(); ++i) {
    EXPECT_TRUE(plain.numbers[i].equal(again.numbers[i])) << i;
  }
  EXPECT_EQ(plain.again, 0);
  EXPECT_EQ(again.again, 9);
  EXPECT_EQ(plain.passes, 9);
  EXPECT_EQ(again.passes, 18);
}

TEST(Recompute, IsForPassesWithAGradientAndWithoutATrace) {
  Stack stack(2);
  const Tensor x = at::randn({5, 6});
  const RecomputeLayers again;
  {
    const at::NoGradGuard no_gradients;
    stack.loss(x, nullptr);
  }
  AttentionTrace trace;
  stack.loss(x, nullptr, &trace);
  {
    const RecomputeLayers off(false);
    stack.loss(x, nullptr);
  }
  EXPECT_EQ(again.count(), 0);
  stack.loss(x, nullptr);
  EXPECT_EQ(again.count(), 2);
}

TEST(Recompute, LeavesAFrozenLayerWithoutAGradient) {
  Stack stack(1);
  for (Tensor& parameter : stack.parameters()) parameter.set_requires_grad(false);
  const RecomputeLayers again;
  EXPECT_FALSE(stack.loss(at::randn({5, 6}), nullptr).requires_grad());
}

TEST(Recompute, HoldsTheInputsOfLayersAndOneLayer) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);  // so that the meter sees all
  const auto peak = [](bool on) {
    at::manual_seed(1);
    Stack stack(12, 0);
    const Tensor x = at::randn({4000, 6});
    const MemoryMeter meter;
    Tensor loss;
    {
      const RecomputeLayers again(on);
      loss = stack.loss(x, nullptr);
    }
    loss.backward();
    return meter.peak();
  };
  const std::int64_t plain = peak(false), again = peak(true);
  at::set_num_threads(threads);
  EXPECT_LT(double(again), 0.5 * double(plain)) << again << " of " << plain;
}

TEST(Recompute, RefusesWhatItWouldGetWrong) {
  const RecomputeLayers again;
  AttentionContext context;
  Layer layer(0);
  const Tensor x = at::randn({5, 6}), outside = at::randn({6}).requires_grad_() * 2;
  EXPECT_THAT(message_of<ShapeError>([&] {
                recomputed(layer, {x}, context, [&](const Tensors& in, AttentionContext& own) {
                  return layer.pass({in[0], outside, {}}, own);
                });
              }),
              HasSubstr("not among its inputs"));

  ForwardState state;
  state.of<Hidden>().sum = x;
  context.state = &state;
  EXPECT_THAT(message_of<ConfigError>([&] {
                recomputed(layer, {x}, context,
                           [](const Tensors& in, AttentionContext&) { return in; });
              }),
              HasSubstr("Hidden"));

  Stack stack(1, 0);
  const Tensor y = at::randn({5, 6}).requires_grad_();
  const Tensor loss = stack.loss(y, nullptr);
  EXPECT_THAT(message_of<ConfigError>(
                  [&] { torch::autograd::grad({loss}, {y}, {}, true, /*create_graph=*/true); }),
              HasSubstr("train.recompute"));
}

TEST(Recompute, FindsParametersOutsideOfTheLayer) {
  const Tensor factor = at::randn({6}).requires_grad_(), x = at::randn({5, 6}).requires_grad_();
  const RecomputeLayers again;
  AttentionContext context;
  Layer layer(0);
  const Tensor y = recomputed(layer, {x}, context, [factor](const Tensors& in, AttentionContext&) {
    return Tensors{in[0] * factor, in[0]};
  })[0];
  y.sum().backward();
  EXPECT_TRUE(at::allclose(factor.grad(), x.detach().sum(0)));
  EXPECT_TRUE(at::allclose(x.grad(), factor.detach().expand({5, 6})));
}

}  // namespace
}  // namespace attnlab::recompute_test
