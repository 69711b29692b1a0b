// Checks of who may see whom. Hidden tokens are replaced by others and must change nothing;
// gradients by the values tell which pairs a row rests on.
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include "framework/conformance/checks.h"
#include "framework/nn/attention/dot_product_attention.h"

namespace attnlab::conformance {
namespace {

/// Random batches that a rule is tried with: so many at least, and more until each visible pair has
/// had an influence, which sparse mechanisms do not give all of them.
constexpr std::size_t kFewestDraws = 4, kMostDraws = 24;

/// |d out_i / d v_j| with the values of both layers as leaves, for each example and head.
struct Influence {
  Tensor own;      ///< [B, H, Lq, Lk]: of the layer's own values
  Tensor earlier;  ///< of the first layer's values, for the second layer
};

Influence influence(const Stack& stack, StackInput input, int layer, AttentionTrace* trace) {
  for (AttentionInput& each : input) each.values = each.values.detach().requires_grad_();
  ForwardState state;
  Tensor out;
  for (int l = 0; l <= layer; ++l) out = stack.run(l, input[l], &state, trace);
  const Tensor weighted = out * probe_like(out.select(2, 0)).abs().add(0.5).unsqueeze(2);
  std::vector<Tensor> own, earlier;
  for (std::int64_t i = 0; i < out.size(2); ++i) {
    const Tensor row = weighted.select(2, i).sum();
    std::vector<Tensor> found(2);
    if (row.requires_grad()) {
      found = torch::autograd::grad({row}, {input[layer].values, input[0].values}, {},
                                    /*retain_graph=*/true, false, /*allow_unused=*/true);
    }
    const auto size = [&](const Tensor& gradient) {
      return gradient.defined() ? gradient.abs().sum(-1)
                                : at::zeros_like(input[layer].values).detach().sum(-1);
    };
    own.push_back(size(found[0]));
    earlier.push_back(size(found[1]));
  }
  return {at::stack(own, 2), at::stack(earlier, 2)};
}

void expect_hidden(const std::string& what, const Tensor& influence, const Tensor& hidden) {
  const Tensor wrong = influence.masked_fill(hidden.logical_not(), 0);
  if (wrong.count_nonzero().item<std::int64_t>() == 0) return;
  const Tensor flat = wrong.contiguous().view({-1});
  const std::int64_t worst = flat.argmax().item<std::int64_t>();
  throw Failure(fmt::format(
      "{}: the pair [b, h, query, key] = {} is hidden, yet the value has a derivative of {:f}",
      what, place_text(wrong, worst), flat[worst].item<double>()));
}

/// Values of hidden pairs have no influence; those of visible ones have some. A mechanism may give
/// single pairs no weight, so that each pair is looked at in several examples and heads.
void expect_rule(const Stack& stack, const std::string& what, const std::vector<StackInput>& draws,
                 bool traced = false) {
  AttentionTrace recorded;
  AttentionTrace* trace = traced ? &recorded : nullptr;
  for (int layer = 0; layer < 2; ++layer) {
    Tensor reached, allowed;
    const std::string where = fmt::format("{}, layer {}", what, layer);
    const auto missed_pairs = [&] { return reached.eq(0).logical_and(allowed.gt(0)); };
    std::size_t tried = 0;
    for (const StackInput& input : draws) {
      if (tried++ >= kFewestDraws && !missed_pairs().any().item<bool>()) break;
      const AttentionInput& in = input[layer];
      const Influence found = influence(stack, input, layer, trace);
      Tensor pairs = visible_pairs(in.visible, in.query_count(), in.key_count(), at::kCPU);
      if (!pairs.defined()) pairs = at::ones({1}, at::kBool);
      if (in.visible.query_valid.defined()) {
        pairs = pairs.logical_and(in.visible.query_valid.unsqueeze(1).unsqueeze(-1));
      }
      const Tensor visible = pairs.expand(found.own.sizes());
      expect_hidden(where, found.own, visible.logical_not());
      expect_hidden(where + ", values of layer 0", found.earlier, visible.logical_not());
      const Tensor seen = found.own.gt(0).sum(at::IntArrayRef{0, 1});
      const Tensor may = visible.sum(at::IntArrayRef{0, 1});
      reached = reached.defined() ? reached + seen : seen;
      allowed = allowed.defined() ? allowed + may : may;
    }
    const Tensor missed = missed_pairs();
    if (!missed.any().item<bool>()) continue;
    const std::int64_t first =
        missed.contiguous().view({-1}).to(at::kInt).argmax().item<std::int64_t>();
    throw Failure(
        fmt::format("{}: the pair [query, key] = {} is visible, yet the value has no influence in "
                    "any of {} random batches",
                    where, place_text(missed, first), draws.size()));
  }
}

template <class Rule>
std::vector<StackInput> draws_with(const Fixture& fixture, const Lengths& lengths,
                                   const Rule& rule) {
  std::vector<StackInput> draws;
  for (std::uint64_t seed = 1; seed <= kMostDraws; ++seed) {
    draws.push_back(changed(fixture.input(lengths, seed), rule));
  }
  return draws;
}

/// The tensor with other numbers from `first` on along a dimension (from the end).
Tensor replaced(const Tensor& x, std::int64_t dim, std::int64_t first, const Draw& draw) {
  if (!x.defined() || x.size(x.dim() + dim) <= first) return x;
  Tensor other = x.clone();
  Tensor tail = other.narrow(x.dim() + dim, first, x.size(x.dim() + dim) - first);
  if (x.scalar_type() == at::kBool) {
    tail.logical_not_();
  } else {
    tail.copy_(draw.normal(tail.sizes()) * 5);
  }
  return other;
}

/// Other tokens from the moment `cut` (a key's index) on; causal rules only.
StackInput with_other_future(const StackInput& input, std::int64_t cut) {
  const Draw draw(50 + static_cast<std::uint64_t>(cut));
  return changed(input, [&](AttentionInput& in) {
    const std::int64_t query = std::max<std::int64_t>(0, cut - in.key_count() + in.query_count());
    in.queries = replaced(in.queries, -2, query, draw);
    in.keys = replaced(in.keys, -2, cut, draw);
    in.values = replaced(in.values, -2, cut, draw);
    in.query_source = replaced(in.query_source, -2, query, draw);
    in.key_source = replaced(in.key_source, -2, cut, draw);
    in.value_source = replaced(in.value_source, -2, cut, draw);
    in.bias = replaced(replaced(in.bias, -2, query, draw), -1, cut, draw);
    in.query_positions = replaced(in.query_positions, -2, query, draw);
    in.key_positions = replaced(in.key_positions, -2, cut, draw);
    // Distances below 0 are the future's: column Lk and beyond.
    in.relative.keys = replaced(in.relative.keys, -2, in.key_count(), draw);
  });
}

void expect_blind_to_future(const Stack& stack, const NamedStackInput& named) {
  const StackInput input =
      changed(named.input, [](AttentionInput& in) { in.visible.causal = true; });
  const Outputs expected = stack(input);
  const std::int64_t keys = input[0].key_count(), queries = input[0].query_count();
  for (std::int64_t cut = 1; cut < keys; ++cut) {
    const std::int64_t past = cut - keys + queries;  // queries that see keys before `cut` alone
    if (past <= 0) continue;
    const Outputs found = stack(with_other_future(input, cut));
    for (int layer = 0; layer < 2; ++layer) {
      expect_close(
          fmt::format("{}, causal, tokens from key {} on replaced: earlier rows of layer {}",
                      named.name, cut, layer),
          found[layer].narrow(2, 0, past), expected[layer].narrow(2, 0, past));
    }
  }
}

/// Replaces one value after the other: rows that do not see it stay. In the second layer heads may
/// be mixed by what the first one hands on; there, rows that see it in no head.
void expect_pairs_hold(const Stack& stack, const std::string& what, const StackInput& input) {
  const Outputs expected = stack(input);
  const Draw draw(60);
  for (std::int64_t j = 0; j < input[0].key_count(); ++j) {
    const StackInput other = changed(input, [&](AttentionInput& in) {
      in.values = in.values.clone();
      Tensor value = in.values.select(2, j);
      value.copy_(draw.normal(value.sizes()) * 5);
    });
    const Outputs found = stack(other);
    const AttentionInput& in = input[0];
    const Tensor sees = visible_pairs(in.visible, in.query_count(), in.key_count(), at::kCPU)
                            .expand({in.batch(), in.heads(), in.query_count(), in.key_count()})
                            .select(3, j)
                            .unsqueeze(-1);
    for (int layer = 0; layer < 2; ++layer) {
      const Tensor changes = layer == 0 ? sees : sees.any(1, true);
      expect_close(
          fmt::format("{}, value {} replaced: rows that do not see it, layer {}", what, j, layer),
          found[layer].masked_fill(changes, 0), expected[layer].masked_fill(changes, 0));
    }
  }
}

}  // namespace

std::string check_causality(const Fixture& fixture) {
  fixture.need(&AttentionTraits::causal);
  const Stack stack = fixture.stack();
  const auto causal = [](AttentionInput& in) { in.visible.causal = true; };
  for (const Lengths& lengths : fixture.lengths()) {
    const std::string what = "causal, " + text_of(lengths);
    for (const NamedStackInput& named : fixture.inputs(lengths)) {
      expect_blind_to_future(stack, named);
    }
    const auto draws = draws_with(fixture, lengths, causal);
    expect_rule(stack, what, draws);
    expect_rule(stack, what + ", traced", draws, true);
  }
  if (fixture.declares().ordered) return "it takes no input without the causal rule";
  const StackInput input = fixture.input({2, 4, 4});
  expect_effect("visible.causal", stack(changed(input, causal)), stack(input));
  return "";
}

std::string check_window(const Fixture& fixture) {
  fixture.need(&AttentionTraits::window);
  const Stack stack = fixture.stack();
  for (const Lengths& lengths : fixture.lengths()) {
    for (const std::int64_t width : {1, 2, 3}) {
      const auto window = [&](AttentionInput& in) { in.visible.window = width; };
      const std::string what = fmt::format("window {}, {}", width, text_of(lengths));
      const auto draws = draws_with(fixture, lengths, window);
      expect_rule(stack, what, draws);
      expect_pairs_hold(stack, what, draws[0]);
    }
    const StackInput input = fixture.input(lengths);
    const auto wide = [](AttentionInput& in) { in.visible.window = 100; };
    expect_close("a window wider than all, " + text_of(lengths), stack(changed(input, wide)),
                 stack(input));
  }
  return "";
}

std::string check_pair_mask(const Fixture& fixture) {
  fixture.need(&AttentionTraits::pair_mask);
  const Stack stack = fixture.stack();
  for (const Lengths& lengths : fixture.lengths()) {
    const Tensor pairs = Draw(8).chance({2, 2, lengths.queries, lengths.keys}, 0.6);
    const auto hide = [&](AttentionInput& in) { in.visible.pairs = pairs; };
    const std::string what = "a random pair mask, " + text_of(lengths);
    const auto draws = draws_with(fixture, lengths, hide);
    expect_rule(stack, what, draws);
    expect_pairs_hold(stack, what, draws[0]);
    const StackInput input = fixture.input(lengths);
    expect_effect("visible.pairs", stack(draws[0]), stack(input));
    const auto show = [&](AttentionInput& in) { in.visible.pairs = at::ones_like(pairs); };
    expect_close("a pair mask that hides nothing, " + text_of(lengths), stack(changed(input, show)),
                 stack(input));
  }
  // A key that nobody sees: neither it nor its value matters.
  const auto nobody = [](AttentionInput& in) {
    in.visible.pairs = at::ones({4, 4}, at::kBool);
    in.visible.pairs.select(1, 1).fill_(false);
  };
  const StackInput input = changed(fixture.input({2, 4, 4}), nobody);
  const StackInput other = changed(input, [](AttentionInput& in) {
    for (Tensor* x : {&in.keys, &in.values}) {
      *x = x->clone();
      x->select(2, 1).mul_(-7);
    }
  });
  expect_close("a key that no query sees, replaced", stack(other), stack(input));
  return "";
}

}  // namespace attnlab::conformance
