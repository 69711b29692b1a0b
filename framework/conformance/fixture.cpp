#include "framework/conformance/fixture.h"

#include <fmt/format.h>

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>

namespace attnlab::conformance {
namespace {

/// The number of floats by which parameters are moved off their starts.
constexpr double kNudge = 0.1;

/// Offsets of three sequences in a total length.
Tensor offsets_of(std::int64_t total) {
  return at::tensor({std::int64_t{0}, total / 3, total * 5 / 6, total}, at::kLong);
}

void use_bias(AttentionInput& in, const Draw& draw) {
  in.bias = draw.normal({in.batch(), in.heads(), in.query_count(), in.key_count()});
}

void use_causal(AttentionInput& in, const Draw&) { in.visible.causal = true; }

void use_window(AttentionInput& in, const Draw&) { in.visible.window = 2; }

void use_pairs(AttentionInput& in, const Draw& draw) {
  in.visible.pairs = draw.chance({in.batch(), in.heads(), in.query_count(), in.key_count()}, 0.7);
}

void use_padding(AttentionInput& in, const Draw& draw) {
  const auto valid = [&](std::int64_t length) {
    Tensor mask = draw.chance({in.batch(), length}, 0.7);
    mask.select(1, length - 1).fill_(false);
    mask.select(1, 0).fill_(true);
    return mask;
  };
  const bool same = in.query_count() == in.key_count();
  in.visible.key_valid = valid(in.key_count());
  in.visible.query_valid = same ? in.visible.key_valid : valid(in.query_count());
}

void use_relative(AttentionInput& in, const Draw& draw) {
  const std::int64_t heads = in.heads(), dim = in.queries.size(3);
  in.relative.keys = draw.normal({heads, in.query_count() + in.key_count() - 1, dim});
  in.relative.content_bias = draw.normal({heads, dim});
  in.relative.position_bias = draw.normal({heads, dim});
}

/// Both layers of a stack see the same tokens.
StackInput with(const Feature& feature, StackInput input, const Draw& draw) {
  for (AttentionInput& layer : input) feature.use(layer, draw);
  input[1].visible = input[0].visible;
  return input;
}

}  // namespace

std::string text_of(const Lengths& lengths) {
  return fmt::format("B {}, Lq {}, Lk {}", lengths.batch, lengths.queries, lengths.keys);
}

const std::vector<Feature>& features() {
  static const std::vector<Feature> all = {
      {"bias", &AttentionTraits::bias, use_bias},
      {"causal", &AttentionTraits::causal, use_causal},
      {"window", &AttentionTraits::window, use_window},
      {"pair_mask", &AttentionTraits::pair_mask, use_pairs},
      {"padding", &AttentionTraits::padding, use_padding},
      {"relative_positions", &AttentionTraits::relative_positions, use_relative},
  };
  return all;
}

void make_ragged(AttentionInput& input) {
  input.visible.query_offsets = offsets_of(input.query_count());
  input.visible.key_offsets = offsets_of(input.key_count());
}

void Fixture::need(bool AttentionTraits::*trait) const {
  if (declares().*trait) return;
  // A trait's name is the one that a set of traits with it alone shows.
  AttentionTraits alone;
  alone.*trait = true;
  std::string name;
  alone.each([&](std::string_view each, bool value) {
    if (value) name = each;
  });
  throw NotApplicable(fmt::format("trait '{}' is not declared", name));
}

bool Fixture::refuses(const StackInput& input) const {
  if (!subject_.may_refuse) return false;
  const at::NoGradGuard no_gradients;
  try {
    stack()(input);
    return false;
  } catch (const TraitError&) {
    return true;
  }
}

AttentionShape Fixture::shape() {
  AttentionShape shape;
  shape.heads = 2;
  shape.head_dim = shape.value_dim = 4;
  shape.layers = 2;
  shape.query_width = 5, shape.key_width = 6, shape.value_width = 7;
  return shape;
}

Stack Fixture::fresh_stack(const AttentionShape& shape, std::uint64_t seed) const {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const Tensor before = generator.get_state();
  Stack stack;
  for (int layer = 0; layer < 2; ++layer) {
    AttentionShape own = shape;
    own.layer = layer;
    generator.set_current_seed(seed * 1000 + static_cast<std::uint64_t>(layer));
    stack.layers[layer] = subject_.build(own);
    expect(stack.layers[layer] != nullptr, "the factory returned nothing");
  }
  generator.set_state(before);
  return stack;
}

Stack Fixture::stack(const AttentionShape& shape, std::uint64_t seed) const {
  const Stack stack = fresh_stack(shape, seed);
  stack.to(at::kDouble);
  stack.train(false);
  const at::NoGradGuard no_gradients;
  const Draw draw(seed + 77);
  for (const Stack::Parameter& parameter : stack.parameters()) {
    Tensor tensor = parameter.tensor;
    tensor.add_(draw.normal(tensor.sizes()), kNudge);
  }
  return stack;
}

StackInput Fixture::bare_input(const Lengths& lengths, std::uint64_t seed) const {
  const Draw draw(seed * 31 + 5);
  const AttentionShape shape = Fixture::shape();
  StackInput input;
  for (AttentionInput& layer : input) {
    layer.queries = draw.normal({lengths.batch, shape.heads, lengths.queries, shape.head_dim});
    layer.keys = draw.normal({lengths.batch, shape.heads, lengths.keys, shape.head_dim});
    layer.values = draw.normal({lengths.batch, shape.heads, lengths.keys, shape.values()});
    complete(layer, draw);
  }
  return input;
}

void Fixture::complete(AttentionInput& input, const Draw& draw) const {
  if (declares().ordered) input.visible.causal = true;
  if (!declares().sources) return;
  const AttentionShape shape = Fixture::shape();
  const std::int64_t batch = input.batch(), keys = input.key_count();
  input.query_source = draw.normal({batch, input.query_count(), shape.query_width});
  input.key_source = draw.normal({batch, keys, shape.key_width});
  input.value_source = draw.normal({batch, keys, shape.value_width});
}

bool Fixture::accepts(std::int64_t coordinates) const {
  const at::NoGradGuard no_gradients;
  const StackInput probe = changed(bare_input({}, 1), [&](AttentionInput& in) {
    if (coordinates == 0) return;
    const Draw draw(3);
    in.query_positions = draw.normal({in.batch(), in.query_count(), coordinates});
    in.key_positions = draw.normal({in.batch(), in.key_count(), coordinates});
  });
  try {
    stack()(probe);
    return true;
  } catch (const std::exception&) {
    return false;  // if it is broken altogether, the checks themselves will say
                   // why
  }
}

std::int64_t Fixture::coordinates() const {
  if (!coordinates_) {
    coordinates_ = 0;
    for (const std::int64_t count : {1, 2, 3}) {
      if (!accepts(count)) continue;
      coordinates_ = count;
      break;
    }
  }
  return *coordinates_;
}

bool Fixture::needs_positions() const {
  if (!needs_positions_) needs_positions_ = !accepts(0) && coordinates() > 0;
  return *needs_positions_;
}

StackInput Fixture::input(const Lengths& lengths, std::uint64_t seed) const {
  StackInput input = bare_input(lengths, seed);
  return needs_positions() ? with_positions(std::move(input), seed) : input;
}

StackInput Fixture::with_positions(StackInput input, std::uint64_t seed) const {
  const std::int64_t count = coordinates();
  if (count == 0) return input;
  return changed(std::move(input), [&](AttentionInput& in) {
    const Draw draw(seed * 17 + 3);
    in.query_positions = draw.normal({in.batch(), in.query_count(), count}) * 2;
    in.key_positions = draw.normal({in.batch(), in.key_count(), count}) * 2;
  });
}

std::vector<Lengths> Fixture::lengths() const {
  if (!declares().different_lengths) return {{2, 4, 4}};
  return {{2, 4, 4}, {2, 3, 5}, {2, 5, 3}};
}

std::vector<NamedStackInput> Fixture::inputs(const Lengths& lengths, std::uint64_t seed) const {
  std::vector<NamedStackInput> all = {{"no extras", input(lengths, seed)}};
  if (coordinates() > 0 && !needs_positions()) {
    all.push_back({"positions", with_positions(input(lengths, seed), seed)});
  }
  NamedStackInput every{"everything declared", with_positions(input(lengths, seed), seed)};
  for (const Feature& feature : features()) {
    if (!(declares().*feature.declared)) continue;
    const Draw draw(seed * 13 + all.size());
    const StackInput one = with(feature, input(lengths, seed), draw);
    if (refuses(one)) continue;
    all.push_back({feature.trait, one});
    every.input = with(feature, std::move(every.input), draw);
  }
  if (declares().different_source) {
    const auto use = [](AttentionInput& in) { in.values_from_elsewhere = true; };
    all.push_back({"different_source", changed(input(lengths, seed), use)});
  }
  all.push_back(every);
  if (declares().ragged && lengths.batch == 1) {
    all.push_back({"ragged", changed(input(lengths, seed), make_ragged)});
    all.push_back({"ragged, everything declared", changed(every.input, make_ragged)});
  }
  return all;
}

}  // namespace attnlab::conformance
