// Softmax attention of small heads on the CPU: loops instead of matrix products of a library.
//
//   P = softmax(scale * Q K̄^T),   Y = drop(P) V,   K̄ = K, or K with rows of unit length
//
// What a library's product does before it begins costs more than the product of a head of ten
// tokens, and still a fifth of one of a hundred. Here a head costs nothing but its numbers: no
// tensor, no allocation; everything of a head lies in one piece of scratch, in a core's cache.
// Cost: O(B H Lq Lk (D + Dv)) time; P is kept for the gradient.
#pragma once

#include <span>

#include "framework/nn/kernels/headwise.h"

namespace attnlab {

/// One sequence of a ragged batch: which rows of the whole are its own, and where what is kept of
/// it begins.
struct Sequence {
  std::int64_t query = 0, rows = 0;   ///< queries [query, query + rows)
  std::int64_t key = 0, columns = 0;  ///< keys and values [key, key + columns)
  std::int64_t weights = 0;           ///< first of its H * rows * padded columns kept weights
  std::uint64_t drops = 0;            ///< key of its dropout
};

/// Keys of a part of a head with one query: threads share the parts of long ones.
inline constexpr std::int64_t kKeysOfPart = 4096;

/// What is done one after the other; logits and values by parts.
enum class QueryStep { logits, weights, values, result };

template <class T>
struct PartOfQuery {
  QueryStep step;
  std::int64_t head, part;
  T* row;   ///< logits, then weights [padded Lk]
  T* sums;  ///< [parts, padded Dv]
};

/// Whether heads of these sizes are faster here. By measurement; the same for any layout.
bool heads_are_small(const HeadwiseProblem& in);

/// Whether heads of a sequence of `like`'s rows are. @param like  with neither bias, terms nor
/// relative positions
bool heads_are_small(const HeadwiseProblem& like, const Sequence& sequence);

/// Numbers that the weights of a sequence take: H * rows * padded columns.
std::int64_t small_weights_of(const HeadwiseProblem& whole, const Sequence& sequence);

/// Uninitialised weights [B * H, Lq, Lk, padded] of small heads.
Tensor room_for_small_weights(const HeadwiseProblem& in);

/// @param weights  of `room_for_small_weights`, filled with P; undefined: not wanted
/// @param out      [B, H, Lq, Dv], filled; the numbers of a row are neighbours, here and below
void attend_small_heads(const HeadwiseProblem& in, const Tensor& weights, const Tensor& out);

/// Where K was brought to unit length, dk is the gradient of what it was before.
/// @param weights     what `attend_small_heads` left there
/// @param grad        [B, H, Lq, Dv], the numbers of a row are neighbours
/// @param to       filled, but for the bias's: small heads have none
void differentiate_small_heads(const HeadwiseProblem& in, const Tensor& weights, const Tensor& grad,
                               const HeadGradients& to);

/// The same for sequences that lie end to end, each of which sees itself alone. Threads take equal
/// shares of the pairs.
/// @param whole     B is 1; no pairs, valid keys, bias or relative positions. `inverse`, where keys
/// are
///                  brought to unit length: H numbers per key, those of a sequence together
/// @param weights   of all sequences' `small_weights_of`; undefined: not wanted
void attend_small_sequences(const HeadwiseProblem& whole, std::span<const Sequence> sequences,
                            const Tensor& weights, const Tensor& out);
void differentiate_small_sequences(const HeadwiseProblem& whole,
                                   std::span<const Sequence> sequences, const Tensor& weights,
                                   const Tensor& grad, const HeadGradients& to);

}  // namespace attnlab
