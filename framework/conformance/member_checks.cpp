// Checks of what lets a model ask with one token alone, write text token by token, and many models
// be trained as one.
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "framework/conformance/checks.h"

namespace attnlab::conformance {
namespace {

constexpr std::int64_t kHeadMembers = 2;

/// The stack whose heads are those of all members side by side, with their parameters.
/// @throws Failure where a parameter is not each member's own.
Stack side_by_side(const Fixture& fixture, const std::vector<Stack>& singles) {
  AttentionShape shape = Fixture::shape();
  shape.heads *= kHeadMembers;
  shape.members = kHeadMembers;
  Stack together = fixture.stack(shape);
  const at::NoGradGuard no_gradients;
  for (const Stack::Parameter& all : together.parameters()) {
    std::vector<Tensor> rows;
    for (const Stack& single : singles) {
      for (const Stack::Parameter& one : single.parameters()) {
        if (one.name == all.name) rows.push_back(one.tensor);
      }
    }
    const std::string what = fmt::format("with heads of {} members, {}", kHeadMembers, all.name);
    expect(
        rows.size() == singles.size() && rows[0].dim() > 0,
        fmt::format("{} is {}, and one model has none such with rows", what, describe(all.tensor)));
    std::vector<std::int64_t> expected = rows[0].sizes().vec();
    expected[0] *= kHeadMembers;
    expect(all.tensor.sizes() == at::IntArrayRef(expected),
           fmt::format("{} is {}, expected as many times the rows of {}, which one model has "
                       "(AttentionShape::members)",
                       what, describe(all.tensor), describe(rows[0])));
    Tensor(all.tensor).copy_(at::cat(rows));
  }
  return together;
}

/// One member's heads of an input of all. Positions are the same for all examples and members.
AttentionInput member_of(const AttentionInput& all, std::int64_t member) {
  AttentionInput one = all;
  for (Tensor* x : {&one.queries, &one.keys, &one.values}) *x = x->chunk(kHeadMembers, 1)[member];
  for (Tensor* x : {&one.query_source, &one.key_source, &one.value_source}) {
    if (x->defined()) *x = x->chunk(kHeadMembers, 0)[member];
  }
  return one;
}

/// Tokens [first, last) of a layer, behind those before them.
Tensor written(Attention& layer, const AttentionInput& all, std::int64_t first, std::int64_t last,
               AttentionMemory& memory, AttentionContext& context) {
  const Tensor added = at::arange(first, last, at::kLong);
  if (layer.remembers()) return layer.extend(select(all, added, added), memory, context);
  return layer.forward(select(all, added, at::arange(last, at::kLong)), context);
}

}  // namespace

std::string check_writing(const Fixture& fixture) {
  fixture.need(&AttentionTraits::causal);
  const Stack stack = fixture.stack();
  const bool remembers = stack.layers[0]->remembers();
  if (!remembers) {
    fixture.need(&AttentionTraits::different_lengths);
    if (stack.layers[0]->couples_queries()) {
      throw NotApplicable("it says that queries depend on each other (couples_queries)");
    }
  }
  constexpr std::int64_t kTokens = 7;
  const StackInput input = changed(fixture.with_positions(fixture.input({2, kTokens, kTokens})),
                                   [](AttentionInput& in) { in.visible.causal = true; });
  const Outputs expected = stack(input);
  const at::NoGradGuard no_gradients;
  std::array<AttentionMemory, 2> memories;
  std::array<std::vector<Tensor>, 2> parts;
  for (const auto& [first, last] : {std::pair{0, 3}, std::pair{3, 4}, std::pair{4, 7}}) {
    ForwardState state;
    for (std::int64_t l = 0; l < 2; ++l) {
      const auto i = static_cast<std::size_t>(l);
      AttentionContext context{l, &state};
      parts[i].push_back(written(*stack.layers[i], input[i], first, last, memories[i], context));
    }
  }
  expect_close("written in three parts, against at once",
               {at::cat(parts[0], 2), at::cat(parts[1], 2)}, expected, kRegrouped);
  return remembers ? fmt::format("it keeps {} bytes of two examples of {} tokens",
                                 memories[0].bytes(), kTokens)
                   : "it is given the keys of all tokens";
}

std::string check_queries(const Fixture& fixture) {
  fixture.need(&AttentionTraits::different_lengths);
  const Stack stack = fixture.stack();
  if (stack.layers[0]->couples_queries()) {
    throw NotApplicable("it says that queries depend on each other (couples_queries)");
  }
  if (fixture.declares().ordered) {
    throw NotApplicable("it is ordered: a query asked alone stands at the last key");
  }
  const StackInput input = fixture.with_positions(fixture.input({2, 4, 5}));
  const Outputs all = stack(input);
  for (std::int64_t i = 0; i < 4; ++i) {
    const Outputs alone = stack(changed(input, [&](AttentionInput& in) {
      in = select(in, at::full({1}, i, at::kLong), at::arange(5));
    }));
    expect_close(fmt::format("query {} asked alone, against it among 4", i), alone,
                 {all[0].narrow(2, i, 1), all[1].narrow(2, i, 1)});
  }
  return "";
}

std::string check_members(const Fixture& fixture) {
  std::vector<Stack> singles;
  for (std::uint64_t m = 0; m < kHeadMembers; ++m) {
    singles.push_back(fixture.stack(Fixture::shape(), m + 1));
  }
  const Stack together = side_by_side(fixture, singles);
  std::vector<StackInput> inputs;
  for (std::uint64_t m = 0; m < kHeadMembers; ++m)
    inputs.push_back(fixture.input({2, 4, 4}, m + 1));
  StackInput input = inputs[0];
  for (std::size_t layer = 0; layer < input.size(); ++layer) {
    AttentionInput& in = input[layer];
    in.queries = at::cat({inputs[0][layer].queries, inputs[1][layer].queries}, 1);
    in.keys = at::cat({inputs[0][layer].keys, inputs[1][layer].keys}, 1);
    in.values = at::cat({inputs[0][layer].values, inputs[1][layer].values}, 1);
    for (Tensor AttentionInput::*source :
         {&AttentionInput::query_source, &AttentionInput::key_source,
          &AttentionInput::value_source}) {
      if (!(in.*source).defined()) continue;
      in.*source = at::cat({inputs[0][layer].*source, inputs[1][layer].*source}, 0);
    }
    for (Tensor* places : {&in.query_positions, &in.key_positions}) {
      if (places->defined()) *places = places->narrow(0, 0, 1);
    }
  }
  const Outputs all = together(input);
  const std::int64_t heads = Fixture::shape().heads;
  for (std::int64_t m = 0; m < kHeadMembers; ++m) {
    const Outputs alone = singles[m]({member_of(input[0], m), member_of(input[1], m)});
    expect_close(fmt::format("member {} of 2, against it alone", m),
                 {all[0].narrow(1, m * heads, heads), all[1].narrow(1, m * heads, heads)}, alone,
                 kRegrouped);
  }
  return together.parameters().empty() ? "it has no parameters" : "";
}

}  // namespace attnlab::conformance
