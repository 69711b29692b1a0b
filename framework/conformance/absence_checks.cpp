// Checks of absence: padded tokens, other sequences of a ragged batch and keys that are not there
// count for nothing.
#include <fmt/format.h>
#include "framework/conformance/checks.h"

namespace attnlab::conformance {
namespace {

Tensor range(std::int64_t first, std::int64_t last) { return at::arange(first, last, at::kLong); }

/// One way to pad: which tokens of each example are real.
struct Padding {
  const char* name;
  std::vector<std::vector<std::int64_t>> queries, keys;  ///< of each example
  bool scattered = false;  ///< places between real tokens: only with given positions
};

std::vector<Padding> paddings(const AttentionTraits& declared) {
  std::vector<Padding> all = {
      {"both tails padded", {{0, 1, 2, 3}, {0, 1, 2}}, {{0, 1, 2, 3}, {0, 1, 2}}},
      {"padding between tokens", {{1, 2, 4}, {0, 3, 5}}, {{1, 2, 4}, {0, 3, 5}}, true},
  };
  if (declared.different_lengths) {
    const std::vector<std::int64_t> whole = {0, 1, 2, 3, 4, 5};
    all.push_back({"keys padded", {whole, whole}, {{0, 1, 2, 3}, {0, 1}}});
    all.push_back({"queries padded", {{0, 1, 2, 3}, {0, 1}}, {whole, whole}});
  }
  return all;
}

Tensor mask_of(const std::vector<std::vector<std::int64_t>>& real, std::int64_t length) {
  Tensor mask = at::zeros({static_cast<std::int64_t>(real.size()), length}, at::kBool);
  for (std::size_t b = 0; b < real.size(); ++b) {
    for (const std::int64_t j : real[b]) mask[static_cast<std::int64_t>(b)][j] = true;
  }
  return mask;
}

/// Example `b` with its real tokens alone gives what it gives in the padded batch.
void expect_as_absent(const Stack& stack, const std::string& what, const StackInput& padded,
                      const Outputs& probes, const Pass& whole, const Padding& padding,
                      std::int64_t b) {
  const Tensor queries = at::tensor(padding.queries[static_cast<std::size_t>(b)], at::kLong);
  const Tensor keys = at::tensor(padding.keys[static_cast<std::size_t>(b)], at::kLong);
  StackInput absent;
  Outputs expected_probes;
  for (int layer = 0; layer < 2; ++layer) {
    absent[layer] = select(example_of(padded[layer], b), queries, keys);
    absent[layer].visible.key_valid = absent[layer].visible.query_valid = Tensor();
    expected_probes[layer] = probes[layer].narrow(0, b, 1).index_select(2, queries);
  }
  const Pass alone = run_with_gradients(stack, absent, expected_probes);
  const std::string where = fmt::format("{}, example {}", what, b);
  for (int layer = 0; layer < 2; ++layer) {
    const Tensor rows = whole.outputs[layer].narrow(0, b, 1);
    expect_close(fmt::format("{}, against its real tokens alone: output of layer {}", where, layer),
                 rows.index_select(2, queries), alone.outputs[layer], kRegrouped);
  }
  const auto compare = [&](const std::string& name, const Tensor& indices) {
    for (std::size_t i = 0; i < whole.gradients.size(); ++i) {
      if (whole.gradients[i].first != name) continue;
      const Tensor all = whole.gradients[i].second.narrow(0, b, 1);
      expect_close(fmt::format("{}, against its real tokens alone: gradient of {}", where, name),
                   all.index_select(2, indices), alone.gradients[i].second, kRegrouped);
      expect_close(fmt::format("{}: gradient of all {} together, padding included", where, name),
                   all.abs().sum(), alone.gradients[i].second.abs().sum(), kRegrouped);
    }
  };
  for (const std::string layer : {"layer 0: ", "layer 1: "}) {
    compare(layer + "queries", queries);
    compare(layer + "keys", keys);
    compare(layer + "values", keys);
  }
}

void expect_padding_is_absence(const Stack& stack, const NamedStackInput& named,
                               const Padding& padding) {
  const StackInput padded = changed(named.input, [&](AttentionInput& in) {
    in.visible.key_valid = mask_of(padding.keys, in.key_count());
    in.visible.query_valid = mask_of(padding.queries, in.query_count());
  });
  const std::string what = fmt::format("{}, {}", named.name, padding.name);
  const Outputs shapes = stack(padded);
  const Outputs probes = {probe_like(shapes[0]), probe_like(shapes[1], 0.9)};
  const Pass whole = run_with_gradients(stack, padded, probes);
  const Tensor rows = padded[0].visible.query_valid.unsqueeze(1).unsqueeze(-1);
  for (int layer = 0; layer < 2; ++layer) {
    expect_zero(fmt::format("{}: rows of padding queries, layer {}", what, layer),
                whole.outputs[layer].masked_fill(rows, 0));
  }
  for (const std::int64_t b : {0, 1}) {
    expect_as_absent(stack, what, padded, probes, whole, padding, b);
  }
}

/// Inputs of one kind without padding of their own: whole sequences.
std::vector<NamedStackInput> unpadded(const Fixture& fixture, const Lengths& lengths,
                                      bool scattered) {
  std::vector<NamedStackInput> all;
  const auto plain = [&] {
    const StackInput input = fixture.input(lengths);
    return scattered ? fixture.with_positions(input) : input;
  };
  all.push_back({"no extras", plain()});
  for (const Feature& feature : features()) {
    const std::string trait = feature.trait;
    if (!(fixture.declares().*feature.declared) || trait == "padding") continue;
    // Rules of order count tokens, padding too: only where padding is at the end of both.
    const bool ordered = trait == "causal" || trait == "window" || trait == "relative_positions";
    if (ordered && (scattered || lengths.queries != lengths.keys)) continue;
    const Draw draw(70);
    StackInput input = changed(plain(), [&](AttentionInput& in) { feature.use(in, draw); });
    input[1].visible = input[0].visible;
    if (!fixture.refuses(input)) all.push_back({trait, input});
  }
  return all;
}

/// Sequence t of a ragged input, as a batch of its own.
AttentionInput one_sequence(const AttentionInput& all, std::int64_t t) {
  const auto bound = [](const Tensor& offsets, std::int64_t at) {
    return offsets[at].item<std::int64_t>();
  };
  const Tensor &q = all.visible.query_offsets, &k = all.visible.key_offsets;
  const std::int64_t rows = bound(q, t + 1) - bound(q, t), columns = bound(k, t + 1) - bound(k, t);
  AttentionInput plain = all;
  plain.relative.keys = Tensor();
  AttentionInput one =
      select(plain, range(bound(q, t), bound(q, t + 1)), range(bound(k, t), bound(k, t + 1)));
  one.visible.query_offsets = one.visible.key_offsets = Tensor();
  if (all.relative.defined()) {
    one.relative.keys = all.relative.keys.narrow(1, all.key_count() - columns, rows + columns - 1);
  }
  return one;
}

void expect_ragged_is_separate(const Stack& stack, const std::string& what,
                               const StackInput& input) {
  const Outputs whole = stack(input);
  std::array<std::vector<Tensor>, 2> parts;
  const std::int64_t sequences = input[0].visible.query_offsets.size(0) - 1;
  for (std::int64_t t = 0; t < sequences; ++t) {
    const Outputs one = stack({one_sequence(input[0], t), one_sequence(input[1], t)});
    for (int layer = 0; layer < 2; ++layer) parts[layer].push_back(one[layer]);
  }
  expect_close(what + ", against its sequences one by one", whole,
               {at::cat(parts[0], 2), at::cat(parts[1], 2)}, kRegrouped);
}

/// Inputs with rows that see nothing, and which rows these are: [B or 1, 1, Lq] bool.
struct EmptyRows {
  std::string name;
  StackInput input;
  Tensor empty;
};

std::vector<EmptyRows> inputs_with_empty_rows(const Fixture& fixture) {
  const AttentionTraits& has = fixture.declares();
  std::vector<EmptyRows> all;
  const auto add = [&](const char* name, const Lengths& lengths, const auto& change) {
    const StackInput input = changed(fixture.input(lengths), change);
    all.push_back({name, input, at::zeros({lengths.batch, 1, lengths.queries}, at::kBool)});
    return all.back().empty;
  };
  if (has.padding) {
    add("all keys of example 1 are padding", {2, 4, 4},
        [](AttentionInput& in) {
          in.visible.key_valid = mask_of({{0, 1, 2, 3}, {}}, 4);
        })[1]
        .fill_(true);
  }
  if (has.pair_mask) {
    add("a pair mask that hides all keys from query 2", {2, 4, 4},
        [](AttentionInput& in) {
          in.visible.pairs = at::ones({4, 4}, at::kBool);
          in.visible.pairs[2].fill_(false);
        })
        .select(2, 2)
        .fill_(true);
  }
  if (has.causal && has.different_lengths) {
    add("causal, two queries before the first key", {2, 5, 3},
        [](AttentionInput& in) { in.visible.causal = true; })
        .narrow(2, 0, 2)
        .fill_(true);
  }
  if (has.window && has.different_lengths) {
    add("a window of 2 that does not reach back to the first query", {2, 5, 3},
        [](AttentionInput& in) { in.visible.window = 2; })
        .narrow(2, 0, 1)
        .fill_(true);
  }
  if (has.ragged && has.different_lengths) {
    add("ragged, a sequence without keys", {1, 5, 4},
        [](AttentionInput& in) {
          in.visible.query_offsets = at::tensor({0, 2, 3, 5}, at::kLong);
          in.visible.key_offsets = at::tensor({0, 3, 3, 4}, at::kLong);
        })
        .select(2, 2)
        .fill_(true);
  }
  if (has.different_lengths) {
    add("no keys at all", {2, 3, 0}, [](AttentionInput&) {}).fill_(true);
  }
  return all;
}

void expect_zeros_in(const Stack& stack, const EmptyRows& rows, at::ScalarType dtype) {
  const StackInput input = to(rows.input, dtype);
  const Pass pass = run_with_gradients(stack, input);
  const std::string what =
      fmt::format("{} ({})", rows.name, describe(at::empty({0}, dtype)).substr(4));
  expect_finite(what, pass);
  const Tensor seeing = rows.empty.logical_not().unsqueeze(-1);
  for (int layer = 0; layer < 2; ++layer) {
    const std::string where = fmt::format(", layer {}", layer);
    expect_zero(fmt::format("{}: rows that see nothing{}", what, where),
                pass.outputs[layer].masked_fill(seeing, 0));
    for (const auto& [name, gradient] : pass.gradients) {
      if (name != fmt::format("layer {}: queries", layer)) continue;
      expect_zero(fmt::format("{}: gradient of queries that see nothing{}", what, where),
                  gradient.masked_fill(seeing, 0));
    }
  }
}

}  // namespace

std::string check_padding(const Fixture& fixture) {
  fixture.need(&AttentionTraits::padding);
  const Stack stack = fixture.stack();
  for (const Padding& padding : paddings(fixture.declares())) {
    const bool apart = padding.queries != padding.keys;
    // A causal rule aligns last tokens, which one-sided padding moves: not compared.
    for (const NamedStackInput& named : unpadded(fixture, {2, 6, 6}, padding.scattered)) {
      const bool ordered =
          fixture.declares().ordered || named.name == "causal" || named.name == "window";
      if (apart && ordered) continue;
      expect_padding_is_absence(stack, named, padding);
    }
  }
  const StackInput input = fixture.input({2, 6, 6});
  const auto pad = [](AttentionInput& in) { in.visible.key_valid = mask_of({{0, 1}, {0, 2}}, 6); };
  expect_effect("visible.key_valid", stack(changed(input, pad)), stack(input));
  const auto all = [](AttentionInput& in) {
    in.visible.key_valid = in.visible.query_valid = at::ones({2, 6}, at::kBool);
  };
  expect_close("masks that call every token real", stack(changed(input, all)), stack(input));
  return "";
}

std::string check_ragged(const Fixture& fixture) {
  fixture.need(&AttentionTraits::ragged);
  const Stack stack = fixture.stack();
  std::vector<Lengths> all = {{1, 7, 7}};
  if (fixture.declares().different_lengths) all.push_back({1, 6, 8});
  for (const Lengths& lengths : all) {
    for (const NamedStackInput& named : fixture.inputs(lengths)) {
      expect_ragged_is_separate(stack, fmt::format("{}, ragged, {}", named.name, text_of(lengths)),
                                changed(named.input, make_ragged));
    }
  }
  const StackInput input = fixture.input({1, 7, 7});
  expect_effect("visible.query_offsets", stack(changed(input, make_ragged)), stack(input));
  return "";
}

std::string check_empty_rows(const Fixture& fixture) {
  std::vector<EmptyRows> all = inputs_with_empty_rows(fixture);
  std::erase_if(all, [&](const EmptyRows& rows) { return fixture.refuses(rows.input); });
  if (all.empty()) throw NotApplicable("no declared trait can hide every key from a query");
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    const Stack stack = fixture.stack();
    stack.to(dtype);
    for (const EmptyRows& rows : all) expect_zeros_in(stack, rows, dtype);
  }
  return "";
}

}  // namespace attnlab::conformance
