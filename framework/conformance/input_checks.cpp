// Checks of the other inputs: what is declared has the effect that the contract says, what is not
// declared is refused.
#include <fmt/format.h>

#include <algorithm>

#include "framework/conformance/checks.h"

namespace attnlab::conformance {
namespace {

/// An input that needs one trait and no other.
struct Use {
  const char* trait;
  bool AttentionTraits::*declared;
  std::string by;  ///< what it sets, for messages
  Lengths lengths;
  std::function<void(AttentionInput&)> apply;
};

std::vector<Use> uses() {
  using Traits = AttentionTraits;
  const Lengths square{1, 4, 4};
  return {
      {"bias", &Traits::bias, "a bias on the logits", square,
       [](AttentionInput& in) {
         in.bias = Draw(1).normal({4, 4});
       }},
      {"causal", &Traits::causal, "visible.causal", square,
       [](AttentionInput& in) { in.visible.causal = true; }},
      {"window", &Traits::window, "visible.window", square,
       [](AttentionInput& in) { in.visible.window = 2; }},
      {"pair_mask", &Traits::pair_mask, "visible.pairs", square,
       [](AttentionInput& in) {
         in.visible.pairs = Draw(1).chance({4, 4}, 0.5);
       }},
      {"padding", &Traits::padding, "visible.key_valid", square,
       [](AttentionInput& in) {
         in.visible.key_valid = Draw(1).chance({1, 4}, 0.5);
       }},
      {"padding", &Traits::padding, "visible.query_valid", square,
       [](AttentionInput& in) {
         in.visible.query_valid = Draw(1).chance({1, 4}, 0.5);
       }},
      {"ragged", &Traits::ragged, "visible.query_offsets and key_offsets", square, make_ragged},
      {"different_lengths",
       &Traits::different_lengths,
       "3 queries and 5 keys",
       {1, 3, 5},
       [](AttentionInput&) {}},
      {"different_source", &Traits::different_source, "values_from_elsewhere", square,
       [](AttentionInput& in) { in.values_from_elsewhere = true; }},
      {"relative_positions", &Traits::relative_positions, "relative keys", square,
       [](AttentionInput& in) {
         in.relative.keys = Draw(1).normal({2, 7, 4});
       }},
      {"sources", &Traits::sources, "query_source", square,
       [](AttentionInput& in) {
         in.query_source = Draw(1).normal({1, 4, 5});
       }},
  };
}

/// @param what  was fed, for messages
void expect_refused(const Stack& stack, const StackInput& input, const std::string& trait,
                    const std::string& what) {
  try {
    stack(input);
  } catch (const TraitError& refusal) {
    expect(std::string(refusal.what()).find(trait) != std::string::npos,
           fmt::format("{}the TraitError does not name it: {}", what, refusal.what()));
    return;
  } catch (const std::exception& other) {
    throw Failure(fmt::format("{}expected a TraitError, found: {}", what, other.what()));
  }
  throw Failure(what + "nothing was thrown");
}

/// Gradients of a tensor that broadcasts, from those of its expanded copy.
Tensor reduced(const Tensor& gradient, const Tensor& like) {
  return gradient.sum_to_size(like.sizes());
}

const std::vector<std::vector<std::int64_t>>& narrow_shapes() {
  static const std::vector<std::vector<std::int64_t>> all = {
      {1, 1, 4, 4}, {2, 1, 1, 4}, {2, 1, 4, 4}, {1, 2, 4, 4}, {2, 2, 4, 1},
      {1, 1, 1, 4}, {1, 2, 1, 1}, {4, 4},       {2, 4, 4},    {4}};
  return all;
}

void expect_broadcast_bias(const Stack& stack, const StackInput& plain, at::IntArrayRef sizes) {
  const Draw draw(4);
  const StackInput narrow =
      changed(plain, [&](AttentionInput& in) { in.bias = draw.normal(sizes); });
  const StackInput full = changed(narrow, [](AttentionInput& in) {
    in.bias = in.bias.expand({2, 2, 4, 4}).contiguous();
  });
  const std::string what =
      fmt::format("a bias of shape {}, against its expansion", describe(narrow[0].bias));
  Pass expected = run_with_gradients(stack, full);
  for (auto& [name, gradient] : expected.gradients) {
    if (name == "layer 0: bias" || name == "layer 1: bias")
      gradient = reduced(gradient, narrow[0].bias);
  }
  expect_close(what, run_with_gradients(stack, narrow), expected);
}

void expect_broadcast_mask(const Stack& stack, const StackInput& plain, at::IntArrayRef sizes) {
  const Tensor mask = Draw(5).chance(sizes, 0.6);
  const StackInput narrow = changed(plain, [&](AttentionInput& in) { in.visible.pairs = mask; });
  const StackInput full = changed(plain, [&](AttentionInput& in) {
    in.visible.pairs = mask.expand({2, 2, 4, 4}).contiguous();
  });
  expect_close(fmt::format("a pair mask of shape {}, against its expansion", describe(mask)),
               run_with_gradients(stack, narrow), run_with_gradients(stack, full));
}

Tensor traced_logits(const Stack& stack, const StackInput& input) {
  AttentionTrace trace;
  trace.logits = true;
  stack(input, &trace);
  return trace.layers.empty() ? Tensor() : trace.layers[0].logits;
}

StackInput with_relative(const StackInput& input, std::uint64_t seed) {
  const Draw draw(seed);
  return changed(input, [&](AttentionInput& in) {
    in.relative.keys = draw.normal({2, in.query_count() + in.key_count() - 1, 4});
    in.relative.content_bias = draw.normal({2, 4});
    in.relative.position_bias = draw.normal({2, 4});
  });
}

/// (q + u) k + (q + w) r is the same number when (k, u) and (r, w) change places. One query, so
/// that relative keys and keys are equally many: key j stands at distance Lk - 1 - j, column j.
void expect_symmetry_of_one_query(const Stack& stack, const Fixture& fixture) {
  const StackInput input = with_relative(fixture.input({1, 1, 5}), 6);
  const StackInput swapped = changed(input, [](AttentionInput& in) {
    const Tensor keys = in.keys;
    in.keys = in.relative.keys.unsqueeze(0).contiguous();
    in.relative.keys = keys.squeeze(0).contiguous();
    std::swap(in.relative.content_bias, in.relative.position_bias);
  });
  expect_close("one query, keys and relative keys swapped and their biases too", stack(swapped),
               stack(input));
}

/// The distances at which pairs can be visible begin here: in an order, the future is hidden.
std::int64_t first_distance(const Fixture& fixture, const Lengths& lengths) {
  return fixture.declares().ordered ? 0 : 1 - lengths.queries;
}

/// Where only pairs at two distances are visible, the relative keys of these two count and no
/// others. (Two, since a softmax over one key is 1 whatever its logit is.)
void expect_distances_in_place(const Stack& stack, const Fixture& fixture, const Lengths& lengths) {
  const std::int64_t offset = lengths.keys - lengths.queries;
  for (std::int64_t near = first_distance(fixture, lengths); near + 1 < lengths.keys; ++near) {
    const auto between = [&](AttentionInput& in) {
      const Tensor distance =
          at::arange(lengths.queries).unsqueeze(1) + offset - at::arange(lengths.keys).unsqueeze(0);
      in.visible.pairs = distance.eq(near).logical_or(distance.eq(near + 1));
    };
    const StackInput input = with_relative(changed(fixture.input(lengths), between), 6);
    const Outputs expected = stack(input);
    for (std::int64_t column = 0; column < lengths.queries + lengths.keys - 1; ++column) {
      const std::int64_t distance = lengths.keys - 1 - column;
      const Outputs found = stack(changed(input, [&](AttentionInput& in) {
        in.relative.keys = in.relative.keys.clone();
        in.relative.keys.select(1, column).mul_(-2);
      }));
      const std::string what = fmt::format(
          "{}, pairs at distances {} and {} visible, the relative key of distance {} replaced",
          text_of(lengths), near, near + 1, distance);
      if (distance == near || distance == near + 1) {
        expect_effect(what, found, expected);
      } else {
        expect_close(what, found, expected);
      }
    }
  }
}

void expect_every_distance_counts(const Stack& stack, const Fixture& fixture,
                                  const Lengths& lengths) {
  const StackInput input = with_relative(fixture.input(lengths), 6);
  const Outputs expected = stack(input);
  const std::int64_t columns = lengths.keys - first_distance(fixture, lengths);
  for (std::int64_t column = 0; column < columns; ++column) {
    expect_effect(fmt::format("the relative key of distance {}", lengths.keys - 1 - column),
                  stack(changed(input,
                                [&](AttentionInput& in) {
                                  in.relative.keys = in.relative.keys.clone();
                                  in.relative.keys.select(1, column).mul_(-2);
                                })),
                  expected);
  }
}

Tensor reordered(const Tensor& x, std::int64_t dim, const Tensor& order) {
  if (!x.defined() || x.size(x.dim() + dim) == 1) return x;
  return x.index_select(x.dim() + dim, order);
}

}  // namespace

std::string check_refusals(const Fixture& fixture) {
  const Stack stack = fixture.stack();
  for (const auto& layer : stack.layers) {
    std::vector<std::string> differing;
    std::vector<bool> declared;
    fixture.declares().each([&](std::string_view, bool value) { declared.push_back(value); });
    std::size_t next = 0;
    layer->traits().each([&](std::string_view trait, bool value) {
      if (declared[next++] != value) differing.emplace_back(trait);
    });
    expect(
        differing.empty(),
        fmt::format("the object's trait '{}' is not the declared one; give the base class kTraits",
                    differing.empty() ? "" : differing[0]));
  }
  std::string refused;
  for (const Use& use : uses()) {
    if (fixture.declares().*use.declared) continue;
    expect_refused(
        stack, changed(fixture.input(use.lengths), use.apply), use.trait,
        fmt::format("the input gives {}, but the trait '{}' is not declared: ", use.by, use.trait));
    refused += (refused.empty() ? "refused: " : ", ") + use.by;
  }
  if (fixture.declares().ordered) {
    const auto unordered = [](AttentionInput& in) { in.visible.causal = false; };
    expect_refused(stack, changed(fixture.input({1, 4, 4}), unordered), "ordered",
                   "the trait 'ordered' is declared, but the input has no causal rule: ");
    refused += (refused.empty() ? "refused: " : ", ") + std::string("no causal rule");
  }
  return refused.empty() ? "every trait is declared" : refused;
}

std::string check_bias(const Fixture& fixture) {
  fixture.need(&AttentionTraits::bias);
  const Stack stack = fixture.stack();
  const StackInput plain = fixture.input({2, 4, 4});
  const Draw draw(3);
  const auto biased = [&](double size) {
    return changed(plain, [&](AttentionInput& in) { in.bias = draw.normal({2, 2, 4, 4}) * size; });
  };
  expect_close("a bias of zeros, against none", stack(biased(0)), stack(plain));
  const StackInput input = biased(1);
  expect_effect("a bias on the logits", stack(input), stack(plain));
  const Tensor with = traced_logits(stack, input), without = traced_logits(stack, plain);
  if (with.defined() && without.defined()) {
    const Tensor hidden = without.isneginf();  // in an order, the future is
    expect_close("traced logits with a bias, less those without",
                 (with - without).masked_fill(hidden, 0), input[0].bias.masked_fill(hidden, 0));
  }
  return "";
}

std::string check_broadcasting(const Fixture& fixture) {
  const AttentionTraits& has = fixture.declares();
  if (!has.bias && !has.pair_mask) {
    throw NotApplicable("neither trait 'bias' nor 'pair_mask' is declared");
  }
  const Stack stack = fixture.stack();
  const StackInput plain = fixture.input({2, 4, 4});
  for (const std::vector<std::int64_t>& sizes : narrow_shapes()) {
    if (has.bias) expect_broadcast_bias(stack, plain, sizes);
    if (has.pair_mask) expect_broadcast_mask(stack, plain, sizes);
  }
  return "";
}

std::string check_relative_positions(const Fixture& fixture) {
  fixture.need(&AttentionTraits::relative_positions);
  const Stack stack = fixture.stack();
  for (const Lengths& lengths : fixture.lengths()) {
    expect_every_distance_counts(stack, fixture, lengths);
    if (fixture.declares().pair_mask) expect_distances_in_place(stack, fixture, lengths);
  }
  const StackInput input = with_relative(fixture.input({2, 4, 4}), 6);
  for (Tensor RelativePositions::*bias :
       {&RelativePositions::content_bias, &RelativePositions::position_bias}) {
    const bool content = bias == &RelativePositions::content_bias;
    const std::string name = content ? "relative.content_bias" : "relative.position_bias";
    const auto replaced = [&](const Tensor& by) {
      return changed(input, [&](AttentionInput& in) { in.relative.*bias = by; });
    };
    const StackInput without = replaced(Tensor());
    expect_close(fmt::format("without {}, against zeros", name), stack(without),
                 stack(replaced(at::zeros({2, 4}, at::kDouble))));
    // Where columns are normalised too, what is added to a whole column cancels: logits show it.
    const Tensor logits = traced_logits(stack, input);
    const bool in_logits =
        logits.defined() && largest_difference(logits, traced_logits(stack, without)) > 1e-6;
    if (!in_logits) expect_effect(name, stack(input), stack(without));
  }
  if (fixture.declares().different_lengths) expect_symmetry_of_one_query(stack, fixture);
  return "";
}

std::string check_different_lengths(const Fixture& fixture) {
  fixture.need(&AttentionTraits::different_lengths);
  const Stack stack = fixture.stack();
  for (const Lengths& lengths :
       {Lengths{2, 2, 5}, Lengths{2, 5, 2}, Lengths{2, 1, 4}, Lengths{2, 4, 1}}) {
    const StackInput input = fixture.input(lengths);
    const Outputs expected = stack(input);
    const std::vector<std::int64_t> sizes = {2, 2, lengths.queries, 4};
    for (int layer = 0; layer < 2; ++layer) {
      expect(expected[layer].sizes() == at::IntArrayRef(sizes),
             fmt::format("{}: output of layer {} is {}", text_of(lengths), layer,
                         describe(expected[layer])));
      expect_finite(fmt::format("{}: output of layer {}", text_of(lengths), layer),
                    expected[layer]);
    }
    const auto replaced = [&](Tensor AttentionInput::*field, std::int64_t token) {
      return stack(changed(input, [&](AttentionInput& in) {
        in.*field = (in.*field).clone();
        (in.*field).select(2, token).mul_(-2).add_(1);
      }));
    };
    // One key alone may win whatever it is, and so may one query where keys share themselves out.
    const bool contested = lengths.keys > 1 && lengths.queries > 1;
    for (std::int64_t j = 0; j < lengths.keys; ++j) {
      expect_effect(fmt::format("{}: value {}", text_of(lengths), j),
                    replaced(&AttentionInput::values, j), expected);
      if (!contested) continue;
      expect_effect(fmt::format("{}: key {}", text_of(lengths), j),
                    replaced(&AttentionInput::keys, j), expected);
    }
    // In an order, the first queries see one key alone, or none.
    const std::int64_t first = fixture.declares().ordered
                                   ? std::max<std::int64_t>(0, lengths.queries - lengths.keys + 1)
                                   : 0;
    for (std::int64_t i = first; contested && i < lengths.queries; ++i) {
      expect_effect(fmt::format("{}: query {}", text_of(lengths), i),
                    replaced(&AttentionInput::queries, i), expected);
    }
  }
  return "";
}

std::string check_different_source(const Fixture& fixture) {
  fixture.need(&AttentionTraits::different_source);
  const Stack stack = fixture.stack();
  const auto elsewhere = [](AttentionInput& in) { in.values_from_elsewhere = true; };
  for (const Lengths& lengths : fixture.lengths()) {
    const StackInput input = changed(fixture.input(lengths), elsewhere);
    const std::string what = "values from elsewhere, " + text_of(lengths);
    const Outputs expected = stack(input);
    expect_finite(what, run_with_gradients(stack, input));
    for (Tensor AttentionInput::*field :
         {&AttentionInput::queries, &AttentionInput::keys, &AttentionInput::values}) {
      const StackInput other =
          changed(input, [&](AttentionInput& in) { in.*field = (in.*field).flip(2) * 2 + 1; });
      const char* name = field == &AttentionInput::queries ? "queries"
                         : field == &AttentionInput::keys  ? "keys"
                                                           : "values";
      expect_effect(fmt::format("{}: another tensor of {}", what, name), stack(other), expected);
    }
  }
  return "";
}

std::string check_positions(const Fixture& fixture) {
  if (fixture.declares().places) {
    expect(fixture.coordinates() > 0,
           "the trait 'places' is declared, but positions of 1, 2 or 3 coordinates are refused");
    const StackInput plain = fixture.input({2, 4, 4});
    const Stack stack = fixture.stack();
    expect_effect("query_positions and key_positions", stack(fixture.with_positions(plain)),
                  stack(plain));
  }
  if (fixture.coordinates() != 1) {
    throw NotApplicable("it does not take positions of one coordinate");
  }
  const Stack stack = fixture.stack();
  for (const Lengths& lengths : fixture.lengths()) {
    const StackInput counted = changed(fixture.input(lengths), [](AttentionInput& in) {
      const auto count = [](std::int64_t length) {
        return at::arange(length, at::kDouble).view({1, length, 1});
      };
      in.query_positions = count(in.query_count());
      in.key_positions = count(in.key_count());
    });
    const StackInput without = changed(
        counted, [](AttentionInput& in) { in.query_positions = in.key_positions = Tensor(); });
    expect_close("no positions, against 0, 1, 2, ..., " + text_of(lengths), stack(without),
                 stack(counted));
    const StackInput repeated = changed(counted, [](AttentionInput& in) {
      in.query_positions = in.query_positions.repeat({in.batch(), 1, 1});
      in.key_positions = in.key_positions.repeat({in.batch(), 1, 1});
    });
    expect_close("positions [B, L, 1], against the same as [1, L, 1], " + text_of(lengths),
                 stack(repeated), stack(counted));
  }
  return "";
}

std::string check_permutation(const Fixture& fixture) {
  const AttentionTraits& has = fixture.declares();
  if (has.ordered) throw NotApplicable("it is ordered: where a key stands matters");
  const Stack stack = fixture.stack();
  if (stack.layers[0]->reads_order()) {
    throw NotApplicable("it says that the order of tokens matters (reads_order)");
  }
  for (const Lengths& lengths : fixture.lengths()) {
    StackInput input = fixture.with_positions(fixture.input(lengths));
    for (const Feature& feature : features()) {
      const std::string trait = feature.trait;
      if (trait != "bias" && trait != "pair_mask" && trait != "padding") continue;
      const Draw draw(2);
      if (has.*feature.declared) feature.use(input[0], draw), feature.use(input[1], draw);
    }
    input[1].visible = input[0].visible;
    const Pass expected = run_with_gradients(stack, input, {});
    const Tensor keys = Draw(11).permutation(lengths.keys);
    const StackInput moved = changed(input, [&](AttentionInput& in) {
      for (Tensor* x : {&in.keys, &in.values}) *x = reordered(*x, -2, keys);
      in.key_positions = reordered(in.key_positions, -2, keys);
      in.key_source = reordered(in.key_source, -2, keys);
      in.value_source = reordered(in.value_source, -2, keys);
      in.bias = reordered(in.bias, -1, keys);
      in.visible.pairs = reordered(in.visible.pairs, -1, keys);
      in.visible.key_valid = reordered(in.visible.key_valid, -1, keys);
    });
    expect_close("keys and values in another order, " + text_of(lengths), stack(moved),
                 expected.outputs);
    const Tensor queries = Draw(12).permutation(lengths.queries);
    const StackInput asked = changed(input, [&](AttentionInput& in) {
      in.queries = reordered(in.queries, -2, queries);
      in.query_positions = reordered(in.query_positions, -2, queries);
      in.query_source = reordered(in.query_source, -2, queries);
      in.bias = reordered(in.bias, -2, queries);
      in.visible.pairs = reordered(in.visible.pairs, -2, queries);
      in.visible.query_valid = reordered(in.visible.query_valid, -1, queries);
    });
    expect_close(
        "queries in another order, " + text_of(lengths), stack(asked),
        {reordered(expected.outputs[0], -2, queries), reordered(expected.outputs[1], -2, queries)});
  }
  return "";
}

}  // namespace attnlab::conformance
