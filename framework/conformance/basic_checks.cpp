// Checks of what every attention is: a module with outputs of the right shape, dtype and device.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <optional>

#include "framework/base/files.h"
#include "framework/conformance/checks.h"
#include "framework/data/formats/safetensors.h"

namespace attnlab::conformance {
namespace {

std::string text_of(const AttentionShape& shape) {
  return fmt::format("H {}, D {}, Dv {}", shape.heads, shape.head_dim, shape.values());
}

AttentionInput random_input(const Fixture& fixture, const AttentionShape& shape,
                            const Lengths& lengths, const Draw& draw) {
  AttentionInput in;
  in.queries = draw.normal({lengths.batch, shape.heads, lengths.queries, shape.head_dim});
  in.keys = draw.normal({lengths.batch, shape.heads, lengths.keys, shape.head_dim});
  in.values = draw.normal({lengths.batch, shape.heads, lengths.keys, shape.values()});
  fixture.complete(in, draw);
  return in;
}

/// @returns nothing where the mechanism refuses the shape as it is built, with an error of ours
/// @param may_refuse  else its error is thrown
std::optional<Stack> built(const Fixture& fixture, const AttentionShape& shape, bool may_refuse) {
  try {
    return fixture.fresh_stack(shape);
  } catch (const Error& error) {
    const bool typed = dynamic_cast<const ConfigError*>(&error) != nullptr ||
                       dynamic_cast<const ShapeError*>(&error) != nullptr;
    if (!typed || !may_refuse) throw;
    return std::nullopt;
  }
}

void expect_like_values(const std::string& what, const Tensor& out, const AttentionInput& in) {
  const std::vector<std::int64_t> expected = {in.batch(), in.heads(), in.query_count(),
                                              in.values.size(3)};
  expect(out.defined() && out.sizes() == at::IntArrayRef(expected),
         fmt::format("{} is {}, expected [B, H, Lq, Dv] = {}", what, describe(out),
                     describe(at::empty(expected, in.values.options()))));
  expect(out.scalar_type() == in.values.scalar_type() && out.device() == in.values.device(),
         fmt::format("{} is {}, expected the values' dtype and device ({})", what, describe(out),
                     describe(in.values)));
}

void try_shape(const Fixture& fixture, const Stack& stack, const AttentionShape& shape,
               const Lengths& lengths) {
  const Draw draw(9);
  StackInput input;
  for (AttentionInput& layer : input) layer = random_input(fixture, shape, lengths, draw);
  input = to(fixture.with_positions(std::move(input)), at::kFloat);
  const Outputs out = stack(input);
  for (int layer = 0; layer < 2; ++layer) {
    const std::string what =
        fmt::format("{}, {}: output of layer {}", text_of(shape), text_of(lengths), layer);
    expect_like_values(what, out[layer], input[layer]);
    expect_finite(what, out[layer]);
  }
}

/// Parameters and buffers of both layers by name.
std::vector<std::pair<std::string, Tensor>> kept_tensors(const Stack& stack) {
  std::vector<std::pair<std::string, Tensor>> all;
  for (int layer = 0; layer < 2; ++layer) {
    const std::string prefix = fmt::format("{}.", layer);
    const Attention& module = *stack.layers[layer];
    for (const auto& item : module.named_parameters())
      all.emplace_back(prefix + item.key(), item.value());
    for (const auto& item : module.named_buffers())
      all.emplace_back(prefix + item.key(), item.value());
  }
  return all;
}

void load(const std::string& path, const Stack& stack) {
  const at::NoGradGuard no_gradients;
  const TensorFile file = read_safetensors(path);
  for (auto& [name, tensor] : kept_tensors(stack)) {
    const Tensor* saved = file.tensors.find(name);
    expect(saved != nullptr && saved->sizes() == tensor.sizes(),
           fmt::format("a second module of the same shape has '{}' {}, the saved one {}", name,
                       describe(tensor), saved == nullptr ? "has none" : describe(*saved)));
    tensor.copy_(*saved);
  }
}

Tensor as_view(const Tensor& x) {
  // [B, H, L, D] as models have it: a slice of one projection [B, L, 3, H, D].
  const Tensor packed = at::zeros({x.size(0), x.size(2), 3, x.size(1), x.size(3)}, x.options());
  const Tensor view = packed.select(2, 1).permute({0, 2, 1, 3});
  view.copy_(x);
  return view;
}

/// An example's tensor, shared by the whole batch: stride 0.
Tensor shared(const Tensor& x) { return x.narrow(0, 0, 1).expand(x.sizes()); }

/// What rounding to the nearest number of 16 bits changes at most, as a share of the number:
/// bfloat16 has 8 bits, float16 has 11.
constexpr double kBFloat16Rounding = 1.0 / 256, kFloat16Rounding = 1.0 / 2048;

/// A stack in a dtype, and one of the same numbers in float64.
std::pair<Stack, Stack> rounded_stacks(const Fixture& fixture, const AttentionShape& shape,
                                       at::ScalarType dtype) {
  const Stack stack = fixture.stack(shape), exact = fixture.stack(shape);
  for (const Stack* each : {&stack, &exact}) each->to(dtype);
  exact.to(at::kDouble);
  return {stack, exact};
}

/// Many keys for few queries.
std::vector<NamedStackInput> long_sums(const Fixture& fixture, const AttentionShape& shape) {
  const bool few = fixture.declares().different_lengths;
  const auto random = [&](const Lengths& lengths) {
    const Draw draw(11);
    StackInput input;
    for (AttentionInput& layer : input) layer = random_input(fixture, shape, lengths, draw);
    return fixture.with_positions(std::move(input));
  };
  std::vector<NamedStackInput> all;
  for (const std::int64_t queries : {1, 3}) {
    const Lengths lengths = few ? Lengths{1, queries, 1000} : Lengths{queries, 400, 400};
    const StackInput input = random(lengths);
    all.push_back({text_of(lengths), input});
    // Even weights over ones: what is added stays as it is, while the sum grows.
    all.push_back({text_of(lengths) + ", even weights", changed(input, [](AttentionInput& in) {
                     in.queries = at::zeros_like(in.queries);
                     in.values = at::ones_like(in.values);
                   })});
  }
  const auto causal = [](AttentionInput& in) { in.visible.causal = true; };
  if (fixture.declares().causal && !fixture.refuses(changed(fixture.input({1, 4, 4}), causal))) {
    all.push_back({"causal, " + text_of({1, 400, 400}), changed(random({1, 400, 400}), causal)});
  }
  return all;
}

/// What came of sums in float32, rounded once: off by the rounding of the largest number at most.
/// Twice that is allowed, and what sums in float32 leave where numbers cancel.
void expect_rounded_once(const std::string& what, const Tensor& found, const Tensor& expected,
                         double rounding) {
  const double largest = expected.abs().max().item<double>();
  const double allowed = 2 * rounding * largest + 1e-5 * std::max(1.0, largest);
  expect_close(what, found, expected, allowed / std::max(1.0, largest));
}

void try_narrow_sums(const Fixture& fixture, const AttentionShape& shape,
                     const NamedStackInput& sums, at::ScalarType dtype, double rounding) {
  const auto [stack, exact] = rounded_stacks(fixture, shape, dtype);
  const StackInput input = to(sums.input, dtype);
  const Outputs found = stack(input), expected = exact(to(input, at::kDouble));
  for (int layer = 0; layer < 2; ++layer) {
    const std::string what =
        fmt::format("{}, {} in {}: output of layer {}, against float64", text_of(shape), sums.name,
                    describe(at::empty({}, dtype)).substr(3), layer);
    expect_like_values(what, found[layer], input[layer]);
    expect_rounded_once(what, found[layer], expected[layer], rounding);
  }
}

}  // namespace

std::string check_shapes(const Fixture& fixture) {
  const std::vector<std::pair<std::int64_t, std::int64_t>> dims = {{4, 4}, {8, 8}, {4, 3}, {4, 6}};
  std::string remark;
  for (const std::int64_t heads : {1, 3}) {
    for (const auto& [dim, value_dim] : dims) {
      AttentionShape shape = Fixture::shape();
      shape.heads = heads, shape.head_dim = dim, shape.value_dim = value_dim;
      const std::optional<Stack> stack = built(fixture, shape, dim != value_dim);
      if (!stack) {
        remark = "value_dim other than head_dim is refused when it is built";
        continue;
      }
      stack->train(false);
      for (const Lengths& lengths : fixture.lengths()) try_shape(fixture, *stack, shape, lengths);
      try_shape(fixture, *stack, shape, {1, 7, 7});
      try_shape(fixture, *stack, shape, {3, 2, 2});
    }
  }
  return remark;
}

std::string check_dtypes(const Fixture& fixture) {
  const std::pair<at::ScalarType, double> kinds[] = {{at::kDouble, kExact},
                                                     {at::kFloat, 1e-3},
                                                     {at::kBFloat16, 1e-3 + kBFloat16Rounding},
                                                     {at::kHalf, 1e-3 + kFloat16Rounding}};
  for (const auto& [dtype, tolerance] : kinds) {
    const auto [stack, exact] = rounded_stacks(fixture, Fixture::shape(), dtype);
    for (const NamedStackInput& named : fixture.inputs({2, 4, 4})) {
      const StackInput input = to(named.input, dtype);
      const Pass found = run_with_gradients(stack, input);
      const std::string what =
          fmt::format("{} in {}", named.name, describe(at::empty({}, dtype)).substr(3));
      for (int layer = 0; layer < 2; ++layer) {
        expect_like_values(fmt::format("{}: output of layer {}", what, layer), found.outputs[layer],
                           input[layer]);
      }
      expect_finite(what, found);
      expect_close(what + ", against float64", found.outputs, exact(to(input, at::kDouble)),
                   tolerance);
    }
  }
  return "";
}

std::string check_narrow_sums(const Fixture& fixture) {
  std::string remark;
  for (const std::int64_t dim : {1, 2, 4}) {
    AttentionShape shape = Fixture::shape();
    shape.heads = 1, shape.head_dim = dim, shape.value_dim = dim;
    if (!built(fixture, shape, dim < 4)) {
      remark = "heads of some widths are refused when it is built";
      continue;
    }
    for (const NamedStackInput& sums : long_sums(fixture, shape)) {
      for (const auto& [dtype, rounding] :
           {std::pair(at::kBFloat16, kBFloat16Rounding), std::pair(at::kHalf, kFloat16Rounding)}) {
        try_narrow_sums(fixture, shape, sums, dtype, rounding);
      }
    }
  }
  return remark;
}

std::string check_device(const Fixture& fixture) {
  if (!at::hasCUDA()) {
    throw Skipped("this machine, or this LibTorch, has no other device than the CPU");
  }
  const at::Device gpu(at::kCUDA, 0);
  const Stack here = fixture.stack(), there = fixture.stack();
  for (const auto& layer : there.layers) layer->to(gpu);
  for (const NamedStackInput& named : fixture.inputs({1, 6, 6})) {
    const StackInput moved = changed(named.input, [&](AttentionInput& in) {
      for (const NamedField& field : fields(in)) {
        const bool offsets =
            field.tensor == &in.visible.query_offsets || field.tensor == &in.visible.key_offsets;
        if (!offsets) *field.tensor = field.tensor->to(gpu);
      }
    });
    const Pass pass = run_with_gradients(there, moved);
    expect_like_values(named.name + " on CUDA: output", pass.outputs[0], moved[0]);
    expect_close(named.name + " on CUDA, against the CPU", pass,
                 run_with_gradients(here, named.input), 1e-6);
  }
  return "";
}

std::string check_determinism(const Fixture& fixture) {
  const Stack stack = fixture.stack(), twin = fixture.stack();
  const auto kept = kept_tensors(stack), kept_by_twin = kept_tensors(twin);
  expect(kept.size() == kept_by_twin.size(), "two modules of one seed differ in their parameters");
  for (std::size_t i = 0; i < kept.size(); ++i) {
    expect_identical("a second module of the same seed: " + kept[i].first, kept_by_twin[i].second,
                     kept[i].second);
  }
  for (const NamedStackInput& named : fixture.inputs({1, 6, 6})) {
    const Pass first = run_with_gradients(stack, named.input);
    const Pass second = run_with_gradients(stack, named.input);
    for (int layer = 0; layer < 2; ++layer) {
      expect_identical(fmt::format("{}, computed twice: output of layer {}", named.name, layer),
                       second.outputs[layer], first.outputs[layer]);
    }
    for (std::size_t i = 0; i < first.gradients.size(); ++i) {
      expect_identical(
          fmt::format("{}, computed twice: gradient of {}", named.name, first.gradients[i].first),
          second.gradients[i].second, first.gradients[i].second);
    }
    const at::NoGradGuard no_gradients;
    expect_close(named.name + ", without gradients", stack(named.input), first.outputs);
  }
  return "";
}

std::string check_dropout(const Fixture& fixture) {
  AttentionShape shape = Fixture::shape();
  shape.dropout = 0.5;
  const Stack dropping = fixture.stack(shape), plain = fixture.stack();
  const StackInput input = fixture.input({2, 6, 6});
  expect_close("dropout 0.5 in evaluation, against none", dropping(input), plain(input));
  dropping.train(true);
  plain.train(true);
  const auto seeded = [&](const Stack& stack, std::uint64_t seed) {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    generator.set_current_seed(seed);
    return stack(input);
  };
  const Outputs first = seeded(dropping, 1), again = seeded(dropping, 1);
  for (int layer = 0; layer < 2; ++layer) {
    expect_identical(
        fmt::format("dropout 0.5 in training, the same seed twice: output of layer {}", layer),
        again[layer], first[layer]);
  }
  expect_effect("AttentionShape::dropout = 0.5 in training", first, seeded(plain, 1));
  expect_effect("with dropout 0.5 in training, another seed", seeded(dropping, 2), first);
  return "";
}

std::string check_save_and_load(const Fixture& fixture) {
  const Stack used = fixture.stack(Fixture::shape(), 1), other = fixture.stack(Fixture::shape(), 2);
  const StackInput input = fixture.input({2, 4, 4}, 3);
  used.train(true);
  for (const std::uint64_t seed : {4, 5}) used(fixture.input({2, 4, 4}, seed));
  used.train(false);
  TensorFile file;
  for (const auto& [name, tensor] : kept_tensors(used)) file.tensors.set(name, tensor.detach());
  const ScratchFolder scratch;
  const std::string saved = scratch.file("module.safetensors");
  write_safetensors(saved, file);
  load(saved, other);
  expect_close("a fresh module with the parameters and buffers of a used one", other(input),
               used(input));
  return file.tensors.size() == 0 ? "it has no parameters and no buffers" : "";
}

std::string check_strides(const Fixture& fixture) {
  const Stack stack = fixture.stack();
  using Change = Tensor (*)(const Tensor&);
  for (const auto& [name, change] :
       {std::pair<const char*, Change>{"views of one projection", as_view},
        {"one example expanded to a batch", shared}}) {
    for (const NamedStackInput& named : fixture.inputs({2, 4, 4})) {
      const StackInput strided = changed(named.input, [&, change = change](AttentionInput& in) {
        for (Tensor* x : {&in.queries, &in.keys, &in.values}) *x = change(*x);
      });
      const StackInput dense = changed(strided, [](AttentionInput& in) {
        for (Tensor* x : {&in.queries, &in.keys, &in.values}) *x = x->contiguous();
      });
      expect_close(fmt::format("{} with {}, against contiguous tensors", named.name, name),
                   run_with_gradients(stack, strided), run_with_gradients(stack, dense));
    }
  }
  return "";
}

std::string check_batch(const Fixture& fixture) {
  const Stack stack = fixture.stack();
  for (const NamedStackInput& named : fixture.inputs({3, 4, 4})) {
    const Outputs whole = stack(named.input);
    for (std::int64_t example = 0; example < 3; ++example) {
      const Outputs alone =
          stack({example_of(named.input[0], example), example_of(named.input[1], example)});
      expect_close(fmt::format("{}, example {} of 3, against it alone", named.name, example),
                   {whole[0].narrow(0, example, 1), whole[1].narrow(0, example, 1)}, alone,
                   kRegrouped);
    }
  }
  return "";
}

}  // namespace attnlab::conformance
