// Checks of what an attention does for training beside its output: losses of its own, and what it
// changes after an update.
#include <ATen/Context.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <set>

#include "framework/base/text.h"
#include "framework/conformance/checks.h"

namespace attnlab::conformance {
namespace {

/// What both layers add in one pass of training, and what they give.
struct WithLosses {
  AttentionLosses added;
  Outputs outputs;
};

WithLosses with_losses(const Stack& stack, const StackInput& input) {
  WithLosses found;
  for (const auto& layer : stack.layers) layer->add_losses_to(&found.added);
  try {
    at::manual_seed(1);
    found.outputs = stack(input);
  } catch (...) {
    for (const auto& layer : stack.layers) layer->add_losses_to(nullptr);
    throw;
  }
  for (const auto& layer : stack.layers) layer->add_losses_to(nullptr);
  return found;
}

/// @param leaves  what its gradients may flow to
void expect_trainable(const std::string& what, const Tensor& loss,
                      const std::vector<Tensor>& leaves) {
  expect_finite(what, loss.detach());
  expect(loss.requires_grad(), what + " has no graph; do not detach what it is made of");
  bool flows = false;
  for (const Tensor& gradient : torch::autograd::grad({loss}, leaves, {}, /*retain_graph=*/true,
                                                      /*create_graph=*/false,
                                                      /*allow_unused=*/true)) {
    if (!gradient.defined()) continue;
    flows = true;
    expect_finite(what + ": a gradient", gradient);
  }
  expect(flows, what + " has a graph, but no gradient flows to inputs or parameters");
}

/// Parameters and buffers of both layers, by name.
std::vector<std::pair<std::string, Tensor>> held(const Stack& stack) {
  std::vector<std::pair<std::string, Tensor>> all;
  for (std::size_t i = 0; i < stack.layers.size(); ++i) {
    for (const auto& list :
         {stack.layers[i]->named_parameters(), stack.layers[i]->named_buffers()}) {
      for (const auto& item : list) {
        if (!item.value().defined()) continue;
        all.emplace_back(fmt::format("layer {}: {}", i, item.key()), item.value());
      }
    }
  }
  return all;
}

void after_three_steps(const Stack& stack) {
  const c10::NoGradGuard no_gradients;
  for (std::int64_t step = 0; step < 3; ++step) {
    for (const auto& layer : stack.layers) layer->after_step({step, 1e-3});
  }
}

}  // namespace

std::string check_losses(const Fixture& fixture) {
  const Stack stack = fixture.stack();
  stack.train(true);
  std::set<std::string> names;
  for (const NamedStackInput& named : fixture.inputs({2, 4, 4})) {
    StackInput input = named.input;
    std::vector<Tensor> leaves;
    for (AttentionInput& layer : input) {
      for (const NamedField& field : differentiable_fields(layer)) {
        *field.tensor = field.tensor->detach().requires_grad_();
        leaves.push_back(*field.tensor);
      }
    }
    for (const Stack::Parameter& parameter : stack.parameters()) {
      if (parameter.tensor.requires_grad()) leaves.push_back(parameter.tensor);
    }
    at::manual_seed(1);
    const Outputs plain = stack(input);
    const WithLosses asked = with_losses(stack, input);
    expect_close(named.name + ", asked for losses, against not", asked.outputs, plain);
    for (const auto& [name, values] : asked.added.all()) {
      names.insert(name);
      for (const Tensor& value : values) {
        expect_trainable(fmt::format("{}: the loss '{}'", named.name, name), value, leaves);
      }
    }
  }
  if (names.empty()) throw NotApplicable("it adds no losses");
  return "it adds " + join({names.begin(), names.end()}, ", ");
}

std::string check_after_step(const Fixture& fixture) {
  const Stack stack = fixture.stack(), twin = fixture.stack();
  const auto before = held(stack);
  std::vector<Tensor> values;
  values.reserve(before.size());
  for (const auto& [name, tensor] : before) values.push_back(tensor.detach().clone());
  after_three_steps(stack);
  after_three_steps(twin);
  const auto after = held(stack), of_twin = held(twin);
  expect(after.size() == before.size(), "after_step adds or removes parameters or buffers");
  bool changes = false;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const auto& [name, tensor] = after[i];
    expect(tensor.is_same(before[i].second),
           name + ": after_step puts another tensor in its place; change it in place");
    expect(
        tensor.sizes() == values[i].sizes() && tensor.scalar_type() == values[i].scalar_type(),
        fmt::format("{}: after_step makes {} of {}", name, describe(tensor), describe(values[i])));
    if (tensor.is_floating_point()) expect_finite(name + ", after three steps", tensor.detach());
    expect_identical(name + ", after three steps, against a second module of the same seed",
                     tensor.detach(), of_twin[i].second.detach());
    changes = changes || !at::equal(tensor.detach(), values[i]);
  }
  for (const Tensor& output : stack(fixture.input({2, 4, 4}))) {
    expect_finite("an output after three steps", output.detach());
  }
  return changes ? "" : "it changes nothing";
}

}  // namespace attnlab::conformance
