// Gradients against central differences, first and second order, in float64.
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <cstdio>

#include "framework/conformance/checks.h"

namespace attnlab::conformance {
namespace {

constexpr double kStep = 1e-6;
constexpr double kTolerance = 1e-5;
/// For each tensor, at random: an error that lies across one shows along another.
constexpr int kDirections = 2;

struct Leaf {
  std::string name;
  Tensor tensor;  ///< contiguous float64 that needs a gradient
};

/// A function of leaves, which it reads where they stand, to a number with a graph.
using Function = std::function<Tensor()>;

std::vector<Tensor> tensors_of(const std::vector<Leaf>& leaves) {
  std::vector<Tensor> tensors;
  for (const Leaf& leaf : leaves) tensors.push_back(leaf.tensor);
  return tensors;
}

/// Zeros where nothing flows.
std::vector<Tensor> gradients_of(const Tensor& value, const std::vector<Leaf>& leaves,
                                 bool create_graph) {
  std::vector<Tensor> gradients(leaves.size());
  if (value.requires_grad()) {
    gradients = torch::autograd::grad({value}, tensors_of(leaves), {}, create_graph, create_graph,
                                      /*allow_unused=*/true);
  }
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (!gradients[i].defined()) gradients[i] = at::zeros_like(leaves[i].tensor).detach();
  }
  return gradients;
}

std::string numbers(double derivative, double difference) {
  char text[96];
  std::snprintf(text, sizeof text, "autograd says %.8g, central differences %.8g", derivative,
                difference);
  return text;
}

/// The derivative of a function along a direction of one leaf, by central differences.
double difference_along(const Function& function, const Leaf& leaf, const Tensor& direction) {
  const Tensor values = leaf.tensor.detach();  // the same memory
  const Tensor before = values.clone();
  values.add_(direction, kStep);
  const double above = function().item<double>();
  values.copy_(before).sub_(direction, kStep);
  const double below = function().item<double>();
  values.copy_(before);
  return (above - below) / (2 * kStep);
}

/// Relative; NaN where one of them is.
double error_of(double derivative, double difference) {
  return std::abs(derivative - difference) / std::max(1.0, std::abs(difference));
}

/// Looks for the first element whose derivative is wrong. @throws Failure naming it.
void blame_element(const std::string& what, const Function& function, const Leaf& leaf,
                   const Tensor& gradient) {
  for (std::int64_t i = 0; i < leaf.tensor.numel(); ++i) {
    Tensor direction = at::zeros_like(leaf.tensor).detach();
    direction.view(-1)[i] = 1;
    const double difference = difference_along(function, leaf, direction);
    const double derivative = gradient.view(-1)[i].item<double>();
    expect(error_of(derivative, difference) <= kTolerance,
           fmt::format("{} by {} at {}: {}", what, leaf.name, place_text(leaf.tensor, i),
                       numbers(derivative, difference)));
  }
}

/// Each leaf is moved along random directions, in which every element has a part.
/// @returns the largest relative error. @throws Failure when it is too large.
double compare_with_differences(const std::string& what, const Function& function,
                                const std::vector<Leaf>& leaves) {
  const std::vector<Tensor> gradients = gradients_of(function(), leaves, false);
  double worst = 0;
  for (std::size_t n = 0; n < leaves.size(); ++n) {
    const Tensor gradient = gradients[n].detach().contiguous();
    const Draw draw(n);
    for (int i = 0; i < kDirections; ++i) {
      const Tensor direction = draw.normal(gradient.sizes());
      const double difference = difference_along(function, leaves[n], direction);
      const double derivative = (gradient * direction).sum().item<double>();
      const double error = error_of(derivative, difference);
      worst = std::max(worst, error);
      if (error <= kTolerance) continue;
      blame_element(what, function, leaves[n], gradient);
      throw Failure(fmt::format("{} by {} along a random direction: {}", what, leaves[n].name,
                                numbers(derivative, difference)));
    }
  }
  return worst;
}

/// Copies an input's fields into leaves of its own.
/// @param with_values  false: values stay constants (a mechanism may estimate something from them
///   that carries no gradient, as Elliptical attention does in its second layer)
std::vector<Leaf> leaves_of(AttentionInput& input, bool with_values) {
  std::vector<Leaf> leaves;
  for (const NamedField& field : differentiable_fields(input)) {
    if (field.tensor == &input.values && !with_values) continue;
    *field.tensor = field.tensor->detach().clone().contiguous().requires_grad_();
    leaves.push_back({field.name, *field.tensor});
  }
  return leaves;
}

void add_parameters(const Stack& stack, int layer, std::vector<Leaf>& leaves) {
  for (const Stack::Parameter& parameter : stack.parameters()) {
    if (parameter.layer != layer || !parameter.tensor.requires_grad()) continue;
    leaves.push_back({parameter.name, parameter.tensor});
  }
}

/// The output of one layer as a number; the layer before it runs on inputs that do not change.
Tensor probed(const Stack& stack, const StackInput& input, int layer) {
  ForwardState state;
  Tensor out;
  for (int l = 0; l <= layer; ++l) out = stack.run(l, input[l], &state);
  return (out * probe_like(out)).sum();
}

double gradient_error(const Stack& stack, const NamedStackInput& named, int layer) {
  StackInput input = named.input;
  std::vector<Leaf> leaves = leaves_of(input[layer], layer == 0);
  add_parameters(stack, layer, leaves);
  const std::string what = fmt::format("{}: derivative of layer {}", named.name, layer);
  const Function function = [&] { return probed(stack, input, layer); };
  double worst = compare_with_differences(what, function, leaves);
  if (layer == 0) return worst;
  // What the first layer hands on may carry a gradient to its parameters; where it does, it counts.
  std::vector<Leaf> earlier;
  add_parameters(stack, 0, earlier);
  if (earlier.empty()) return worst;
  const Tensor value = function();
  std::vector<Tensor> flows(earlier.size());
  if (value.requires_grad()) {
    flows = torch::autograd::grad({value}, tensors_of(earlier), {}, {}, false, true);
  }
  std::vector<Leaf> reached;
  for (std::size_t i = 0; i < earlier.size(); ++i) {
    if (flows[i].defined()) reached.push_back(earlier[i]);
  }
  if (reached.empty()) return worst;
  return std::max(worst, compare_with_differences(what, function, reached));
}

double second_gradient_error(const Stack& stack, const NamedStackInput& named, int layer) {
  StackInput input = named.input;
  std::vector<Leaf> leaves = leaves_of(input[layer], layer == 0);
  add_parameters(stack, layer, leaves);
  const Function function = [&] {
    const std::vector<Tensor> gradients = gradients_of(probed(stack, input, layer), leaves, true);
    Tensor sum = at::zeros({}, at::kDouble);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      sum = sum + (gradients[i] * probe_like(gradients[i], static_cast<double>(i))).sum();
    }
    return sum;
  };
  return compare_with_differences(
      fmt::format("{}: second derivative of layer {}", named.name, layer), function, leaves);
}

using LargestError = double (*)(const Stack&, const NamedStackInput&, int);

std::string check_all(const Fixture& fixture, LargestError largest_error) {
  const Stack stack = fixture.stack();
  double worst = 0;
  for (const NamedStackInput& named : fixture.inputs({1, 3, 3})) {
    for (const int layer : {0, 1}) worst = std::max(worst, largest_error(stack, named, layer));
  }
  char text[64];
  std::snprintf(text, sizeof text, "largest error %.1e", worst);
  return text;
}

}  // namespace

std::string check_gradients(const Fixture& fixture) { return check_all(fixture, gradient_error); }

std::string check_second_gradients(const Fixture& fixture) {
  fixture.need(&AttentionTraits::second_order);
  return check_all(fixture, second_gradient_error);
}

}  // namespace attnlab::conformance
