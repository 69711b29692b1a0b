// PaTH: a key's position is the product of the reflections that the tokens since then stand for.
//
//   Y = softmax(L / √D) V,   L_ij = q_i · H_i H_{i-1} ... H_{j+1} k_j
//   H_t = I - β_t w_t w_tᵀ,   β_t = 2 σ(u · x_t + b)
//   w_t = ŵ_t / √(|ŵ_t|² + 1e-6),   ŵ_t = U₂ U₁ x_t
//
// for each head; x_t is what key t is projected from, U₁ is of rank `rank` for all heads. Query i
// stands at key i + Lk - Lq. Against rotary positions: what lies between a key and a query decides
// how the key is turned, so that states can be followed through a sequence. β starts near 1, where
// H takes one direction away; at 2 it mirrors. A token of padding turns nothing (β = 0); one that
// a window or a pair mask hides counts.
// Left out: the short convolution of ŵ, norms of queries and keys, and the forget gate of PaTH-FoX.
// Source: Yang et al. 2025, PaTH Attention: Position Encoding via Accumulating Householder
// Transformations, arXiv 2505.16381, and its public code.
// How it is computed: within a chunk of C = 64 tokens r_sj = β_s w_s · (H_{s-1} ... H_{j+1} k_j)
// solves a triangular system, R + diag(β) below(W Wᵀ) R = diag(β) below(W Kᵀ), with what is below
// the diagonal, and L_ij = q_i · k_j - sum over j < s <= i of (q_i · w_s) r_sj. Keys of earlier
// chunks are turned by one chunk after the other, queries back to their chunk's beginning (the WY
// form of products of reflections). A bias L / √D - Q Kᵀ / √D then goes into softmax attention.
// Cost: as standard attention, the logits twice and O(Lk² D) for turning keys; memory for a bias
// [B, H, Lq, Lk] with its gradient, and Lk / C copies of the keys. Text is written from cached
// keys, which are turned anew for each token (the paper turns them in place).
#include <algorithm>
#include <cmath>
#include <vector>

#include "framework/nn/attention/decay_maps.h"
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/attention/present_keys.h"
#include "framework/nn/kernels/precision.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

/// Near the usual numbers of channels, where both halves of the work are equal.
constexpr std::int64_t kTokensOfChunk = 64;

/// The reflections of some tokens.
struct Reflections {
  Tensor directions;  ///< w, [B, H, L, D]
  Tensor strengths;   ///< β, [B, H, L, 1]

  Reflections of(std::int64_t first, std::int64_t length) const {
    return {directions.narrow(2, first, length), strengths.narrow(2, first, length)};
  }
};

/// A chunk of C tokens and what its reflections do.
class Chunk {
 public:
  /// @param keys  [B, H, C, D], of the same tokens
  Chunk(const Reflections& reflections, const Tensor& keys)
      : directions_(reflections.directions), keys_(keys) {
    const Tensor later = below(product(directions_, keys.transpose(2, 3)));
    const Tensor solved = at::linalg_solve_triangular(
        reflections.strengths * below(product(directions_, directions_.transpose(2, 3))),
        reflections.strengths * at::cat({directions_, later}, 3),
        /*upper=*/false, /*left=*/true, /*unitriangular=*/true);
    const std::int64_t channels = keys.size(3);
    of_all_ = solved.narrow(3, 0, channels);
    of_keys_ = solved.narrow(3, channels, keys.size(2));
  }

  /// L of some of its queries with all keys up to the chunk's end.
  /// @param queries  [B, H, n, D], the first of them at token `first`
  /// @param earlier  keys before the chunk, turned up to its beginning; undefined: there are none
  Tensor logits(const Tensor& queries, std::int64_t first, const Tensor& earlier) const {
    const Tensor steps = product(queries, directions_.transpose(2, 3)).tril(first);
    const Tensor within = product(queries, keys_.transpose(2, 3)) - product(steps, of_keys_);
    if (!earlier.defined()) return within;
    const Tensor turned_back = queries - product(steps, of_all_);
    return at::cat({product(turned_back, earlier.transpose(2, 3)), within}, 3);
  }

  /// Keys before the chunk and in it, turned up to its end.
  Tensor turned(const Tensor& earlier) const {
    const Tensor own = keys_ - product(of_keys_.transpose(2, 3), directions_);
    if (!earlier.defined()) return own;
    const Tensor parts = product(earlier, of_all_.transpose(2, 3));
    return at::cat({earlier - product(parts, directions_), own}, 2);
  }

 private:
  static Tensor below(const Tensor& x) { return x.tril(-1); }

  Tensor directions_, keys_;
  Tensor of_all_;   ///< [B, H, C, D]: H_C ... H_1 = I - Wᵀ of_all
  Tensor of_keys_;  ///< R, [B, H, C, C]
};

}  // namespace

struct PathOptions {
  std::int64_t rank = 32;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("rank", rank, range(1, 1 << 16),
      "rank of the map that gives the directions of the reflections");
  }
};

class Path final : public DotProductAttention {
 public:
  static constexpr AttentionTraits kTraits = [] {
    AttentionTraits traits = AttentionTraits::ordered_quadratic();
    traits.sources = true;
    return traits;
  }();

  Path(const PathOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape, {}, kTraits),
        direction_(register_module("direction", std::make_shared<LowRankSourceMap>(
                                                    shape.key_width, options.rank, shape.head_dim,
                                                    shape, /*bias=*/false))),
        strength_(
            register_module("strength", std::make_shared<SourceMap>(shape.key_width, 1, shape))) {}

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext& context) override {
    const std::int64_t rows = input.query_count(), columns = input.key_count();
    if (rows == 0 || columns == 0) return DotProductAttention::attend(input, context);
    const double scale = 1 / std::sqrt(static_cast<double>(shape().head_dim));
    const Tensor plain = product(input.queries, input.keys.transpose(2, 3));
    const Tensor bias = ((along_path(input) - plain) * scale).tril(columns - rows);
    return attend_with_bias(input, bias, context);
  }

 private:
  Reflections reflections(const AttentionInput& input) const {
    const Tensor given = direction_->forward(input.key_source);
    Tensor strengths = 2 * strength_->forward(input.key_source).sigmoid();
    const Tensor present = present_keys(input.visible, shape().members);
    if (present.defined()) {
      strengths = strengths.masked_fill(present.logical_not().unsqueeze(-1), 0);
    }
    return {given * (given.square().sum(-1, /*keepdim=*/true) + 1e-6).rsqrt(), strengths};
  }

  /// L, [B, H, Lq, Lk]; numbers of no meaning where the causal rule hides a pair.
  Tensor along_path(const AttentionInput& input) const {
    const Reflections all = reflections(input);
    const std::int64_t columns = input.key_count(), shift = columns - input.query_count();
    std::vector<Tensor> logits;
    Tensor earlier;
    for (std::int64_t begin = 0; begin < columns; begin += kTokensOfChunk) {
      const std::int64_t length = std::min(kTokensOfChunk, columns - begin), end = begin + length;
      const Chunk chunk(all.of(begin, length), input.keys.narrow(2, begin, length));
      const std::int64_t first = std::max(begin, shift);  // the first query stands at key `shift`
      if (first < end) {
        const Tensor queries = input.queries.narrow(2, first - shift, end - first);
        logits.push_back(
            at::constant_pad_nd(chunk.logits(queries, first - begin, earlier), {0, columns - end}));
      }
      if (end < columns) earlier = chunk.turned(earlier);
    }
    const Tensor seen = at::cat(logits, 2);
    // Queries before the first key see nothing.
    return shift < 0 ? at::constant_pad_nd(seen, {0, 0, -shift, 0}) : seen;
  }

  std::shared_ptr<LowRankSourceMap> direction_;
  std::shared_ptr<SourceMap> strength_;
};

ATTNLAB_PLUGIN(attention, Path, PathOptions,
               {.id = "attnlab/path",
                .version = "1.0.0",
                .summary = "softmax(q · H_i ... H_{j+1} k) V, H reflections of the tokens between",
                .citation = "Yang et al. 2025, PaTH Attention: Position Encoding via Accumulating "
                            "Householder Transformations, arXiv 2505.16381",
                .licence = "Apache-2.0"})

}  // namespace attnlab
