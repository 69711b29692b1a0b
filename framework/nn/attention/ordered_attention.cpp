// Attentions that read a sequence in its order: see the header.
#include "framework/nn/attention/ordered_attention.h"

#include <fmt/format.h>

#include <vector>

#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/attention/unrecorded_weights.h"
#include "framework/nn/kernels/dropout.h"

namespace attnlab {
namespace {

AttentionTraits traits_of_order(const OrderedOptions& options) {
  AttentionTraits traits = OrderedAttention::kTraits;
  traits.ordered = !options.both_ways;
  return traits;
}

/// What a tensor of an input is cut or turned around by.
struct TokenField {
  Tensor AttentionInput::*tensor;
  std::int64_t dim;  ///< of tokens
  bool of_queries;
};
constexpr TokenField kTokenFields[] = {
    {&AttentionInput::queries, 2, true},     {&AttentionInput::keys, 2, false},
    {&AttentionInput::values, 2, false},     {&AttentionInput::query_source, 1, true},
    {&AttentionInput::key_source, 1, false}, {&AttentionInput::value_source, 1, false}};

/// The sequence from its last token to its first.
AttentionInput turned_around(AttentionInput input) {
  for (const TokenField& field : kTokenFields) {
    input.*field.tensor = (input.*field.tensor).flip(field.dim);
  }
  Tensor& valid = input.visible.key_valid;
  if (valid.defined()) valid = valid.flip(1);
  return input;
}

std::vector<std::int64_t> lengths_of(const Tensor& offsets) {
  const std::int64_t* at = offsets.data_ptr<std::int64_t>();
  std::vector<std::int64_t> lengths;
  for (std::int64_t t = 0; t + 1 < offsets.size(0); ++t) lengths.push_back(at[t + 1] - at[t]);
  return lengths;
}

}  // namespace

OrderedAttention::OrderedAttention(const OrderedOptions& options, const AttentionShape& shape)
    : Attention(shape, traits_of_order(options)), both_ways_(options.both_ways) {}

Tensor OrderedAttention::attend(const AttentionInput& input, AttentionContext& context) {
  if (context.trace != nullptr) record_norms(input, context);
  const Tensor out = input.visible.ragged() ? attend_ragged(input) : attend_dense(input);
  return is_training() && shape().dropout > 0 ? dropout(out, shape().dropout) : out;
}

Tensor OrderedAttention::attend_behind(const AttentionInput& input, AttentionMemory& memory,
                                       AttentionContext& context) {
  if (context.trace != nullptr) record_norms(input, context);
  const std::int64_t sizes[] = {input.batch(), input.heads(), input.keys.size(3),
                                input.values.size(3)};
  Tensor state = only_part(memory, sizes);
  const Tensor out = read(input, &state);
  memory.parts = {state};
  return is_training() && shape().dropout > 0 ? dropout(out, shape().dropout) : out;
}

Tensor OrderedAttention::attend_dense(const AttentionInput& input) const {
  if (input.visible.causal) return read(input, nullptr);
  if (input.query_count() != input.key_count()) {
    throw TraitError(fmt::format(
        "{} with both_ways true has no trait 'different_lengths' without the causal rule, but "
        "there are {} queries and {} keys: where would the queries stand? Give as many, or set "
        "visible.causal",
        name(), input.query_count(), input.key_count()));
  }
  return (read(input, nullptr) + read(turned_around(input), nullptr).flip(2)) / 2;
}

Tensor OrderedAttention::attend_ragged(const AttentionInput& input) const {
  const std::vector<std::int64_t> rows = lengths_of(input.visible.query_offsets);
  const std::vector<std::int64_t> columns = lengths_of(input.visible.key_offsets);
  if (rows.empty()) return at::zeros_like(input.values);
  // Split once: cutting a piece out of the whole for each sequence would give each a gradient as
  // large as the whole.
  std::vector<std::vector<Tensor>> pieces;
  for (const TokenField& field : kTokenFields) {
    pieces.push_back(
        (input.*field.tensor).split_with_sizes(field.of_queries ? rows : columns, field.dim));
  }
  std::vector<Tensor> outputs;
  for (std::size_t t = 0; t < rows.size(); ++t) {
    AttentionInput one = sequence_of(input, static_cast<std::int64_t>(t));
    std::size_t next = 0;
    for (const TokenField& field : kTokenFields) one.*field.tensor = pieces[next++][t];
    outputs.push_back(attend_dense(one));
  }
  return at::cat(outputs, 2);
}

}  // namespace attnlab
