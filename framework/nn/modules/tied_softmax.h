// A table of tokens that is read at both ends of a language model: as embedding, and as the matrix
// of the softmax over the next token, plain or adaptive.
//
//   plain      log p(t) = log_softmax(h W^T + b)_t
//   adaptive   tokens, by falling frequency, are cut at c_1 < c_2 < ...: a head of c_1 tokens and
//              a row for each cluster behind them
//                t < c_1           log p(t) = log_softmax(h [W_head; C]^T + [b_head; d])_t
//                t in cluster i    log p(t) = head's log p(cluster i) + log_softmax(h W_i^T +
//                b_i)_t
//              so a row of logits has c_1 numbers and those of one cluster, not all of V.
//
// One table [V, dim] for all clusters (div_val 1 of Transformer-XL), biases b [V], and for each
// cluster a vector C_i and a bias d_i.
// Source: Grave et al., Efficient softmax approximation for GPUs, ICML 2017; Dai et al.,
// Transformer-XL, ACL 2019, and its public code. Cost: O(N dim (c_1 + clusters that occur)).
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

struct TiedSoftmaxOptions {
  std::int64_t vocabulary = 0, dim = 0;
  /// Rising; those that are not below the vocabulary do not count. Empty: plain.
  std::vector<std::int64_t> cutoffs{};
  bool bias = true;
};

class TiedSoftmax : public torch::nn::Module {
 public:
  /// @throws ShapeError where cutoffs do not rise from 1.
  explicit TiedSoftmax(const TiedSoftmaxOptions& options);

  /// Rows of the table.
  /// @param tokens  [B, L] int64
  /// @returns [B, L, dim].
  /// @throws DataError, on the CPU, for a token outside the vocabulary.
  Tensor embed(const Tensor& tokens) const;
  /// Negative log-likelihoods in nats.
  /// @param hidden   [B, L, dim]
  /// @param targets  [B, L] int64; negative: not counted, and costs nothing
  /// @returns [B, L], 0 where not counted.
  /// @throws DataError, on the CPU, for a target outside the vocabulary.
  Tensor nll(const Tensor& hidden, const Tensor& targets) const;
  /// @param hidden  [N, dim]
  /// @returns [N, V].
  Tensor log_probabilities(const Tensor& hidden) const;

  /// Table and clusters normal with `std`, biases 0.
  void start(double std);

  Tensor weight;          ///< [V, dim]
  Tensor bias;            ///< [V]; undefined without
  Tensor cluster_weight;  ///< [clusters, dim]; undefined where plain
  Tensor cluster_bias;    ///< [clusters]

 private:
  /// Matrices and biases of the head, with the clusters' rows, and of each cluster.
  struct Parts {
    std::vector<Tensor> weights, biases;  ///< biases undefined without
  };
  Parts parts() const;
  /// @param targets  [N], none negative
  Tensor rows_nll(const Tensor& hidden, const Tensor& targets) const;

  std::vector<std::int64_t> sizes_;  ///< tokens of the head and of each cluster
};

}  // namespace attnlab
