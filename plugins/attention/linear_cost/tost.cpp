// Token statistics self-attention (TSSA, of ToST): no pair of tokens is compared; each token is
// scaled by what its group's tokens are like on the whole.
//
//   y_i = -π_i v_i ⊘ (1 + m_i),   m_i = sum_j π_j v_j² / (sum_j π_j + 1e-8)
//   π_i = softmax over heads of t_h a_i,   a_i = sum over channels c of q_ic k_ic / (|q_c| |k_c|)
//   |q_c|² = max(sum_j q_jc², 1e-12),   |k_c|² likewise
//
// Squares, products and ⊘ are of each channel. j runs over all tokens, or with the causal rule over
// those up to i, in all three sums. π says how much a token belongs to a head's group; channels
// with a large second moment in the group are pushed down. t is one learned number for each head, 1
// at the start. With one head π is 1. In an ensemble π is among the heads of each member.
// The published layer has one map of a token in all three places (q = k = v); a model here makes
// three, and each has a place of its own. Where they are the same it is the published layer.
// Left out: a bias of the public causal code on a for each head and place, 0 at the start, which
// needs to know the longest text.
// Query i and key i are one token: lengths may not differ. A token of padding gives zeros and
// counts in no sum. No weights are there to drop: attention dropout drops numbers of 1 / (1 + m),
// as in the public code, and a trace records norms alone.
// Source: Wu et al. 2024, Token Statistics Transformer: Linear-Time Attention via Variational Rate
// Reduction, arXiv 2412.17810, and its public code.
// Cost: O(L (D + Dv)) time and memory; the memory of earlier tokens is [B, H, 1, 2 D + Dv + 1].
#include "framework/nn/attention/linear_attention.h"
#include "framework/nn/attention/unrecorded_weights.h"
#include "framework/nn/kernels/dropout.h"
#include "framework/plugin.h"

namespace attnlab {

class Tost final : public Attention {
 public:
  static constexpr AttentionTraits kTraits{
      .causal = true, .padding = true, .second_order = true, .linear_cost = true};

  Tost(const NoOptions&, const AttentionShape& shape) : Attention(shape, kTraits) {
    temperature_ = register_parameter("temperature", at::ones({shape.heads}));
  }

  bool couples_queries() const override { return true; }
  bool reads_order() const override { return true; }
  bool remembers() const override { return true; }

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext& context) override {
    if (context.trace != nullptr) record_norms(input, context);
    return scaled(input, nullptr);
  }

  Tensor attend_behind(const AttentionInput& input, AttentionMemory& memory,
                       AttentionContext& context) override {
    if (context.trace != nullptr) record_norms(input, context);
    const std::int64_t channels = 2 * shape().head_dim + shape().values() + 1;
    const std::int64_t sizes[] = {input.batch(), input.heads(), 1, channels};
    Tensor state = only_part(memory, sizes);
    Tensor out = scaled(input, &state);
    if (state.defined()) memory.parts = {state};
    return out;
  }

 private:
  /// @param state  all sums over the tokens before (undefined: zeros), which become those over
  ///               these, too; null: neither is asked for
  Tensor scaled(const AttentionInput& input, Tensor* state) const {
    if (input.key_count() == 0) return at::zeros_like(input.values);
    const std::int64_t of_keys = shape().head_dim, of_values = shape().values();
    const Tensor absent = absent_tokens(input.visible);
    const auto present = [&](const Tensor& x) {
      return absent.defined() ? x.masked_fill(absent, 0) : x;
    };
    const auto sums = [&](const Tensor& x, std::int64_t first) {
      const Tensor here = input.visible.causal ? x.cumsum(2) : x.sum(2, /*keepdim=*/true);
      const bool behind = state != nullptr && state->defined();
      return behind ? here + state->narrow(3, first, x.size(3)) : here;
    };
    const Tensor both = present(at::cat({input.queries, input.keys}, 3));
    const Tensor squares = sums(both.square(), 0);
    const Tensor unit = both * squares.clamp_min(1e-12).rsqrt();
    const Tensor agreement = (unit.narrow(3, 0, of_keys) * unit.narrow(3, of_keys, of_keys)).sum(3);
    const Tensor belongs = present(among_heads(agreement).unsqueeze(3));
    const Tensor moments = sums(belongs * with_ones(input.values.square()), 2 * of_keys);
    if (state != nullptr) *state = last_of(at::cat({squares, moments}, 3));
    const Tensor mean = moments.narrow(3, 0, of_values) / (moments.narrow(3, of_values, 1) + 1e-8);
    const Tensor factor = (1 + mean).reciprocal();
    const bool drops = is_training() && shape().dropout > 0;
    return -belongs * input.values * (drops ? dropout(factor, shape().dropout) : factor);
  }

  /// π of a, [B, H, L].
  Tensor among_heads(const Tensor& agreement) const {
    const std::int64_t members = shape().members;
    return (agreement * temperature_.view({-1, 1}))
        .reshape({agreement.size(0), members, shape().heads / members, agreement.size(2)})
        .softmax(2)
        .reshape(agreement.sizes());
  }

  static Tensor last_of(const Tensor& x) { return x.narrow(2, x.size(2) - 1, 1); }

  /// bool, [B, 1, L, 1]; undefined: none.
  static Tensor absent_tokens(const Visibility& visible) {
    Tensor real = visible.key_valid;
    if (visible.query_valid.defined()) {
      real = real.defined() ? real.logical_and(visible.query_valid) : visible.query_valid;
    }
    return real.defined() ? real.logical_not().unsqueeze(1).unsqueeze(-1) : real;
  }

  Tensor temperature_;  ///< t, [H]
};

ATTNLAB_PLUGIN(
    attention, Tost, NoOptions,
    {.id = "attnlab/tost",
     .version = "1.0.0",
     .summary = "values scaled by second moments of their group, no query-key pairs: TSSA",
     .citation = "Wu et al. 2024, Token Statistics Transformer: Linear-Time Attention "
                 "via Variational Rate Reduction, arXiv 2412.17810",
     .licence = "Apache-2.0"})

}  // namespace attnlab
