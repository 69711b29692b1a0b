#include "framework/conformance/stack.h"

#include <fmt/format.h>

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/autograd.h>

namespace attnlab::conformance {
namespace {

const at::TensorOptions kReal = at::TensorOptions().dtype(at::kDouble);

Tensor optional_select(const Tensor& tensor, std::int64_t dim, const Tensor& indices) {
  if (!tensor.defined() || tensor.dim() < -dim || tensor.size(dim) == 1) return tensor;
  return tensor.index_select(tensor.dim() + dim, indices);
}

}  // namespace

Draw::Draw(std::uint64_t seed) : generator_(at::detail::createCPUGenerator(seed)) {}

Tensor Draw::normal(at::IntArrayRef sizes) const { return at::randn(sizes, generator_, kReal); }

Tensor Draw::chance(at::IntArrayRef sizes, double probability) const {
  return at::rand(sizes, generator_, kReal) < probability;
}

Tensor Draw::permutation(std::int64_t n) const {
  const Tensor identity = at::arange(n);
  Tensor order = at::randperm(n, generator_, at::kLong);
  return at::equal(order, identity) ? order.flip(0) : order;
}

std::vector<NamedField> differentiable_fields(AttentionInput& input) {
  std::vector<NamedField> all = {{"queries", &input.queries},
                                 {"keys", &input.keys},
                                 {"values", &input.values},
                                 {"query_source", &input.query_source},
                                 {"key_source", &input.key_source},
                                 {"value_source", &input.value_source},
                                 {"bias", &input.bias},
                                 {"relative.keys", &input.relative.keys},
                                 {"relative.content_bias", &input.relative.content_bias},
                                 {"relative.position_bias", &input.relative.position_bias}};
  std::erase_if(all, [](const NamedField& field) { return !field.tensor->defined(); });
  return all;
}

std::vector<NamedField> fields(AttentionInput& input) {
  std::vector<NamedField> all = differentiable_fields(input);
  Visibility& visible = input.visible;
  const NamedField others[] = {{"visible.key_valid", &visible.key_valid},
                               {"visible.query_valid", &visible.query_valid},
                               {"visible.pairs", &visible.pairs},
                               {"visible.query_offsets", &visible.query_offsets},
                               {"visible.key_offsets", &visible.key_offsets},
                               {"query_positions", &input.query_positions},
                               {"key_positions", &input.key_positions}};
  for (const NamedField& field : others) {
    if (field.tensor->defined()) all.push_back(field);
  }
  return all;
}

StackInput to(StackInput input, at::ScalarType dtype) {
  for (AttentionInput& layer : input) {
    for (const NamedField& field : fields(layer)) {
      if (field.tensor->is_floating_point()) *field.tensor = field.tensor->to(dtype);
    }
  }
  return input;
}

AttentionInput select(const AttentionInput& input, const Tensor& queries, const Tensor& keys) {
  AttentionInput some = input;
  some.queries = input.queries.index_select(2, queries);
  some.keys = input.keys.index_select(2, keys);
  some.values = input.values.index_select(2, keys);
  if (input.query_source.defined()) {
    some.query_source = input.query_source.index_select(1, queries);
    some.key_source = input.key_source.index_select(1, keys);
    some.value_source = input.value_source.index_select(1, keys);
  }
  const auto both = [&](const Tensor& pairs) {
    return optional_select(optional_select(pairs, -2, queries), -1, keys);
  };
  some.bias = both(input.bias);
  some.visible.pairs = both(input.visible.pairs);
  some.visible.key_valid = optional_select(input.visible.key_valid, -1, keys);
  some.visible.query_valid = optional_select(input.visible.query_valid, -1, queries);
  some.query_positions = optional_select(input.query_positions, -2, queries);
  some.key_positions = optional_select(input.key_positions, -2, keys);
  if (input.relative.defined() && queries.numel() > 0 && keys.numel() > 0) {
    // Each pair keeps its distance: column c of the whole is distance Lk - 1 - c.
    const std::int64_t q = queries[0].item<std::int64_t>(), k = keys[0].item<std::int64_t>();
    const std::int64_t m = queries.numel(), n = keys.numel();
    some.relative.keys = input.relative.keys.narrow(1, input.query_count() - q - m + k, m + n - 1);
  }
  return some;
}

AttentionInput example_of(const AttentionInput& input, std::int64_t example) {
  AttentionInput one = input;
  Tensor* batched[] = {&one.queries,         &one.keys,
                       &one.values,          &one.visible.key_valid,
                       &one.query_positions, &one.visible.query_valid,
                       &one.key_positions,   &one.query_source,
                       &one.key_source,      &one.value_source};
  Tensor* pairwise[] = {&one.bias, &one.visible.pairs};
  for (Tensor* x : batched) {
    if (x->defined() && x->size(0) > 1) *x = x->narrow(0, example, 1);
  }
  for (Tensor* x : pairwise) {
    if (x->defined() && x->dim() == 4 && x->size(0) > 1) *x = x->narrow(0, example, 1);
  }
  return one;
}

Tensor Stack::run(int layer, const AttentionInput& input, ForwardState* state,
                  AttentionTrace* trace) const {
  AttentionContext context;
  context.layer = layer;
  context.state = state;
  context.trace = trace;
  return layers[layer]->forward(input, context);
}

Outputs Stack::operator()(const StackInput& input, AttentionTrace* trace) const {
  ForwardState state;
  Outputs outputs;
  for (int layer = 0; layer < 2; ++layer) {
    outputs[layer] = run(layer, input[layer], &state, trace);
  }
  return outputs;
}

void Stack::to(at::ScalarType dtype) const {
  for (const auto& layer : layers) layer->to(dtype);
}

void Stack::train(bool on) const {
  for (const auto& layer : layers) layer->train(on);
}

std::vector<Stack::Parameter> Stack::parameters() const {
  std::vector<Parameter> all;
  for (int layer = 0; layer < 2; ++layer) {
    for (const auto& item : layers[layer]->named_parameters()) {
      all.push_back(
          {layer, fmt::format("layer {}: parameter {}", layer, item.key()), item.value()});
    }
  }
  return all;
}

Tensor probe_like(const Tensor& tensor, double phase) {
  const at::TensorOptions options = tensor.options().dtype(at::kDouble);
  return at::linspace(phase, phase + 0.7 * static_cast<double>(tensor.numel()), tensor.numel(),
                      options)
      .cos()
      .view(tensor.sizes())
      .to(tensor.scalar_type());
}

Pass run_with_gradients(const Stack& stack, const StackInput& input, const Outputs& probes,
                        AttentionTrace* trace) {
  StackInput leaves_of = input;
  Pass pass;
  std::vector<Tensor> leaves;
  for (int layer = 0; layer < 2; ++layer) {
    for (const NamedField& field : differentiable_fields(leaves_of[layer])) {
      *field.tensor = field.tensor->detach().requires_grad_();
      pass.gradients.emplace_back(fmt::format("layer {}: {}", layer, field.name), Tensor());
      leaves.push_back(*field.tensor);
    }
  }
  for (const Stack::Parameter& parameter : stack.parameters()) {
    if (!parameter.tensor.requires_grad()) continue;
    pass.gradients.emplace_back(parameter.name, Tensor());
    leaves.push_back(parameter.tensor);
  }
  const Outputs outputs = stack(leaves_of, trace);
  Tensor sum = at::zeros({}, outputs[0].options());
  for (int layer = 0; layer < 2; ++layer) {
    const Tensor& out = outputs[layer];
    sum = sum + (out * (probes[layer].defined() ? probes[layer] : probe_like(out))).sum();
    pass.outputs[layer] = out.detach();
  }
  std::vector<Tensor> gradients(leaves.size());
  if (sum.requires_grad()) {
    gradients = torch::autograd::grad({sum}, leaves, {}, {},
                                      /*create_graph=*/false,
                                      /*allow_unused=*/true);
  }
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    pass.gradients[i].second =
        gradients[i].defined() ? gradients[i] : at::zeros_like(leaves[i]).detach();
  }
  return pass;
}

void expect_close(const std::string& what, const Outputs& found, const Outputs& expected,
                  double tolerance) {
  for (int layer = 0; layer < 2; ++layer) {
    expect_close(fmt::format("{}: output of layer {}", what, layer), found[layer], expected[layer],
                 tolerance);
  }
}

void expect_close(const std::string& what, const Pass& found, const Pass& expected,
                  double tolerance) {
  expect_close(what, found.outputs, expected.outputs, tolerance);
  for (std::size_t i = 0; i < expected.gradients.size(); ++i) {
    const auto& [name, gradient] = expected.gradients[i];
    expect_close(fmt::format("{}: gradient of {}", what, name), found.gradients[i].second, gradient,
                 tolerance);
  }
}

void expect_finite(const std::string& what, const Pass& pass) {
  for (int layer = 0; layer < 2; ++layer) {
    expect_finite(fmt::format("{}: output of layer {}", what, layer), pass.outputs[layer]);
  }
  for (const auto& [name, gradient] : pass.gradients) {
    expect_finite(fmt::format("{}: gradient of {}", what, name), gradient);
  }
}

void expect_effect(const std::string& what, const Outputs& with, const Outputs& without) {
  const bool changes = !(largest_difference(with[0], without[0]) <= 1e-6 &&
                         largest_difference(with[1], without[1]) <= 1e-6);
  expect(changes, what + " changes nothing: it is ignored");
}

}  // namespace attnlab::conformance
