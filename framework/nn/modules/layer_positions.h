// What a layer of multi-head attention tells its attention of where tokens stand
// (`attention.positions`), whatever the mechanism.
//
//   rotary   q_i, k_j  <-  R(p_i) q_i, R(p_j) k_j       (framework/nn/modules/rotary.h)
//   alibi    logit_ij  +=  -2^(-8h/H) |p_j - p_i|,      h = 1 ... H the head
//   t5       logit_ij  +=  table[h, bucket(p_j - p_i)]
//
// bucket: the first half of the buckets holds one distance each, the others distances that grow by
// one factor, up to max_distance; what is farther shares the last one. Without the causal rule half
// of all buckets are for keys behind the query, half for those before it. Here each layer has a
// table of its own, which starts at 0; T5 shares one among all layers.
//
// Places are the model's: of several coordinates, rotary splits the channels among them, ALiBi
// takes the Euclidean distance (ours), and T5, which counts tokens, refuses them. Where places are
// numbers in a row, a bias is given by its distances, AttentionInput::distance_bias.
// Source: Su et al. 2021, arXiv:2104.09864; Press, Smith, Lewis 2022, arXiv:2108.12409, section 3;
// Raffel et al. 2020, arXiv:1910.10683, section 2.1, buckets as in the authors' code.
// Cost: rotary O(L D); a bias O(H (Lq + Lk)), of other places O(H Lq Lk).
#pragma once

#include "framework/nn/modules/rotary.h"

namespace attnlab {

class LayerPositions : public torch::nn::Module {
 public:
  /// @param asked         not none
  /// @param heads         H, of one member
  /// @param head_dim      D
  /// @param members       E
  /// @param side_by_side  members' heads stand side by side, not in the batch
  /// @throws ConfigError for numbers that do not fit.
  LayerPositions(const Positions& asked, std::int64_t heads, std::int64_t head_dim,
                 std::int64_t members, bool side_by_side);

  /// Whether queries and keys are turned; else the logits get a bias.
  bool turns() const { return asked_.kind == Positions::Kind::rotary; }

  /// Turns the queries and keys, or adds the bias, of tokens that stand where the input says.
  /// @param input  complete
  /// @throws ShapeError for places that this kind does not take, and for a bias of a ragged batch.
  void add_to(AttentionInput& input) const;

  // Text that is written token by token: its tokens stand one behind the other.

  /// Queries or keys, turned. @param x  [B, H, L, D]
  /// @param first  [B] int64, the place of the first one
  Tensor turned_from(const Tensor& x, const Tensor& first) const;
  /// Adds the bias where the last keys are those of the queries' tokens.
  void add_bias_of_text(AttentionInput& input) const;
  /// @throws ShapeError for places of several coordinates.
  static void check_text(const AttentionInput& input);

 private:
  /// @param shift  the first key's place minus the first query's, both numbered in a row
  void add_bias_of_line(AttentionInput& input, double shift) const;
  void add_bias_of_pairs(AttentionInput& input) const;
  /// @param offsets  [1 or B, ...] float64: keys' places minus queries', or how far they are apart
  /// @returns [1 or B, H, ...], of the input's batch, heads and dtype.
  Tensor of_offsets(const Tensor& offsets, const AttentionInput& input) const;
  /// Number of each offset's bucket, int64.
  Tensor bucket(const Tensor& offsets, bool causal) const;
  /// What T5 learned of them. @param buckets  [1 or B, ...]
  Tensor of_buckets(const Tensor& buckets, std::int64_t batch) const;

  Positions asked_;
  std::int64_t heads_, members_;
  bool side_by_side_;
  Tensor slopes_;  ///< [H] float64; undefined unless alibi
  /// Of each distance 0 ... max_distance its bucket, int64: under the causal rule, and of one side.
  Tensor causal_buckets_, side_buckets_;
  /// [members * H * buckets]: flat, as weight decay leaves vectors alone; undefined unless t5.
  Tensor table_;
};

}  // namespace attnlab
