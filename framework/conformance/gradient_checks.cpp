// Gradients against central differences, first and second order, in float64.
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <cstdio>
#include <numeric>

#include "framework/conformance/checks.h"

namespace attnlab::conformance {
namespace {

constexpr double kStep = 1e-6;
constexpr double kTolerance = 1e-5;
/// Elements of one tensor that are looked at; fewer for second derivatives, each of which costs a
/// backward pass.
constexpr std::int64_t kLooked = 16, kLookedTwice = 6;

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

/// Up to `looked` of the numbers 0 .. count - 1, the first among them, spread over all rows and
/// columns: multiples of a step that has no factor in common with the count.
std::vector<std::int64_t> some_of(std::int64_t count, std::int64_t looked) {
  std::int64_t step = 1 + count * 5 / 8;
  while (std::gcd(step, count) != 1) ++step;
  std::vector<std::int64_t> some;
  for (std::int64_t n = 0; n < std::min(count, looked); ++n) some.push_back(n * step % count);
  return some;
}

/// @returns the largest relative error. @throws Failure when it is too large.
double compare_with_differences(const std::string& what, const Function& function,
                                const std::vector<Leaf>& leaves, std::int64_t looked) {
  const std::vector<Tensor> gradients = gradients_of(function(), leaves, false);
  double worst = 0;
  for (std::size_t n = 0; n < leaves.size(); ++n) {
    const Tensor gradient = gradients[n].contiguous();
    double* values = leaves[n].tensor.data_ptr<double>();
    const std::int64_t count = leaves[n].tensor.numel();
    for (const std::int64_t i : some_of(count, looked)) {
      const double value = values[i];
      values[i] = value + kStep;
      const double above = function().item<double>();
      values[i] = value - kStep;
      const double below = function().item<double>();
      values[i] = value;
      const double difference = (above - below) / (2 * kStep);
      const double derivative = gradient.data_ptr<double>()[i];
      const double error = std::abs(derivative - difference) / std::max(1.0, std::abs(difference));
      expect(error <= kTolerance,
             fmt::format("{} by {} at {}: {}", what, leaves[n].name,
                         place_text(leaves[n].tensor, i), numbers(derivative, difference)));
      worst = std::max(worst, error);
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
  double worst = compare_with_differences(what, function, leaves, kLooked);
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
  return std::max(worst, compare_with_differences(what, function, reached, kLooked));
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
      fmt::format("{}: second derivative of layer {}", named.name, layer), function, leaves,
      kLookedTwice);
}

using ErrorOf = double (*)(const Stack&, const NamedStackInput&, int);

std::string check_all(const Fixture& fixture, ErrorOf error_of) {
  const Stack stack = fixture.stack();
  double worst = 0;
  for (const NamedStackInput& named : fixture.inputs({1, 3, 3})) {
    for (const int layer : {0, 1}) worst = std::max(worst, error_of(stack, named, layer));
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
