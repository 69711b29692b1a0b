// Dot-product attention with hooks: most mechanisms are a few lines on top of it.
//
//   A = N( scale * map_q(Q) diag(M) map_k(K)^T + bias ),   Y = A V
//
// with a map on queries, a map on keys (then to unit length, where that is asked), a diagonal
// metric M, a scale, terms of the logits, and a normaliser N of the logits (softmax unless
// replaced). Standard attention is all maps = identity, scale = 1/sqrt(D) (Vaswani et al. 2017).
// Cost: O(Lq Lk (D + Dv)) time, O(Lq Lk) memory; in the kernels on the CPU, softmax and rules take
// O(Lq + Lk) memory.
#pragma once

#include <optional>

#include "framework/contracts/attention.h"
#include "framework/nn/kernels/logit_terms.h"
#include "framework/nn/kernels/row_rule.h"
#include "framework/nn/kernels/unit.h"

namespace attnlab {

/// How the logits become weights.
enum class Normaliser {
  softmax,  ///< over the visible keys
  rule,     ///< each by itself: `DotProductAttention::row_weights`
  custom,   ///< `DotProductAttention::normalise`
};

struct DotProductSettings {
  /// Factor of the logits; empty means 1/sqrt(D).
  std::optional<double> scale = {};
  Normaliser normaliser = Normaliser::softmax;
  /// The same as `map_keys` ending with `unit(keys, eps)`; kernels fold it into their own pass.
  UnitKeys unit_keys = {};
  /// Whether logits have terms of the mechanism's own: `DotProductAttention::terms`.
  bool terms = false;
};

struct SoftmaxCall;

class DotProductAttention : public Attention {
 public:
  static constexpr AttentionTraits kTraits = AttentionTraits::all_quadratic();

  explicit DotProductAttention(const AttentionShape& shape, const DotProductSettings& settings = {},
                               const AttentionTraits& traits = kTraits);

  bool reads_distance_bias() const override { return true; }

 protected:
  /// [..., L, D] to the same shape, each row by itself. Applied to relative positional keys as
  /// well.
  virtual Tensor map_queries(const Tensor& queries, AttentionContext&) const { return queries; }
  virtual Tensor map_keys(const Tensor& keys, AttentionContext&) const { return keys; }
  /// The diagonal of M, broadcastable to [B, H, Lq, D]: one for all queries, or one for each;
  /// undefined means M = 1. Called once for a whole ragged batch.
  virtual Tensor metric(const AttentionInput&, AttentionContext&) const { return {}; }
  /// What logits get besides, for DotProductSettings::terms; of the queries' dtype. What is added a
  /// trace records as the mechanism's own bias. Sequences of a ragged batch come one by one, those
  /// without queries or keys not at all.
  virtual LogitTerms terms(const AttentionInput&, AttentionContext&) const { return {}; }
  /// The rule of the weights, for Normaliser::rule; likewise.
  virtual RowWeights row_weights(const AttentionInput&, AttentionContext&) const { return {}; }
  /// Weights from logits [B, H, Lq, Lk], for Normaliser::custom.
  /// @param visible  bool, broadcastable to the logits, true = may see; undefined = all may.
  ///                 Queries of padding see nothing.
  /// Hidden pairs must get weight 0, a row that sees nothing all zeros.
  virtual Tensor normalise(const Tensor& logits, const Tensor& visible, AttentionContext&) const;
  /// The kernel of a mechanism with Normaliser::custom, of linear cost for instance: the output
  /// [B, H, Lq, Dv], equal to the explicit form up to rounding; undefined where it cannot serve
  /// this input (the default).
  /// Not asked where weights are needed one by one: under a trace, a bias, relative positions,
  /// terms or dropout. Sequences of a ragged batch come one by one.
  /// @param queries  mapped, times metric and scale
  /// @param keys     mapped, at unit length where the settings ask for it
  virtual Tensor own_kernel(const Tensor& /*queries*/, const Tensor& /*keys*/,
                            const AttentionInput&, AttentionContext&) const {
    return {};
  }

  /// Override to change the input first, or to keep something for the next layer; call this for
  /// the rest.
  Tensor attend(const AttentionInput& input, AttentionContext& context) override;
  /// The same for a mechanism that makes its answer of several: only `seen` is recorded, under a
  /// trace, with weights where these or their entropy are asked for, and with norms.
  Tensor attend_noting(const AttentionInput& input, AttentionContext& context, LayerTrace& seen);
  /// The same with a bias of the mechanism's own on the logits, which a trace records as such.
  /// @param bias  [B or 1, H or 1, Lq, Lk], of the queries' dtype
  Tensor attend_with_bias(const AttentionInput& input, const Tensor& bias,
                          AttentionContext& context);

 private:
  Tensor attend_dense(const AttentionInput& input, const Tensor& diagonal,
                      AttentionContext& context) const;
  Tensor attend_ragged(const AttentionInput& input, const Tensor& diagonal,
                       AttentionContext& context) const;
  /// A ragged batch as one operation; undefined where its sequences are to be asked one by one.
  Tensor attend_sequences(const AttentionInput& input, const Tensor& diagonal,
                          AttentionContext& context) const;
  /// Whether weights are needed one by one. @throws ConfigError where a kernel was asked for by
  /// name that cannot give them.
  bool wants_weights(const SoftmaxCall& call, const AttentionContext& context) const;
  /// Undefined where no kernel serves.
  Tensor attend_by_softmax_kernel(const SoftmaxCall& call) const;
  /// Weights from complete logits, which may be written over.
  Tensor weights_of(const Tensor& logits, const Tensor& visible, const SoftmaxCall& call,
                    AttentionContext& context) const;
  /// @throws ShapeError, ConfigError: the mechanism's terms do not fit the input.
  void check_terms(const LogitTerms& own, const AttentionInput& input) const;
  Tensor attend_by_own_kernel(const Tensor& queries, const Tensor& keys,
                              const AttentionInput& input, AttentionContext& context) const;
  Tensor scaled(const Tensor& queries) const;
  /// Mapped keys at unit length, where the settings ask for it.
  Tensor to_unit(const Tensor& keys) const;

  double scale_;
  Normaliser normaliser_;
  UnitKeys unit_keys_;
  bool has_terms_;
};

/// The input of sequence t of a ragged batch, as if it stood alone: B is 1, no offsets, everything
/// else cut to the sequence.
AttentionInput sequence_of(const AttentionInput& ragged, std::int64_t t);

/// The pairs that `visible` allows, as one bool tensor broadcastable to [B, H, Lq, Lk] (true = may
/// see), or an undefined tensor when every query sees every key. Ragged offsets and padding queries
/// are not included.
Tensor visible_pairs(const Visibility& visible, std::int64_t query_count, std::int64_t key_count,
                     const at::Device& device);

}  // namespace attnlab
