// What attention, a head at a time, computes from, and which pairs of it are seen.
#pragma once

#include <algorithm>

#include "framework/nn/kernels/dropout.h"
#include "framework/nn/kernels/matrix.h"
#include "framework/nn/kernels/row_rule.h"
#include "framework/nn/kernels/unit.h"

namespace attnlab {

/// Keys [begin, end) of a row.
struct KeyRange {
  std::int64_t begin, end;
};

/// Rules that follow from places alone: no tensor of pairs is made for them. The last query stands
/// at the last key.
struct PlaceRules {
  bool causal = false;      ///< no key behind the query's place
  std::int64_t window = 0;  ///< above 0: keys whose place is less than this away; 0: all

  bool any() const { return causal || window > 0; }

  /// What query i of Lq sees of Lk keys. Begins and ends grow with i.
  KeyRange seen(std::int64_t i, std::int64_t queries, std::int64_t keys) const {
    const std::int64_t place = i + keys - queries;
    KeyRange range{0, keys};
    if (window > 0) range = {place - window + 1, place + window};
    if (causal) range.end = std::min(range.end, place + 1);
    range.begin = std::clamp<std::int64_t>(range.begin, 0, keys);
    range.end = std::clamp(range.end, range.begin, keys);
    return range;
  }
};

/// A logit that is nearer to 0 has no sign (LogitTerms::signs): rounding would draw one where
/// numbers of few digits cancel.
inline constexpr double kNoSign = 1e-5;

/// Float32 or float64 on the CPU.
struct HeadwiseProblem {
  Tensor q, k, v;       ///< [B, H, Lq, D], [B, H, Lk, D], [B, H, Lk, Dv]; the numbers of a row are
                        ///< neighbours
  Tensor pairs, valid;  ///< bool [B, H, Lq, Lk], both true = may see; undefined: all may
  PlaceRules rules;     ///< what is hidden besides
  Tensor bias;          ///< [B, H, Lq, Lk], added to the scaled logits; undefined: none
  /// Relative positions: query i and key j have the logit scale <rq_i, r_(Lq - 1 - i + j)> more.
  Tensor relative_q;  ///< [B, H, Lq, D]; undefined: none
  Tensor relative_k;  ///< [B, H, Lq + Lk - 1, D]
  /// Terms of long heads alone (logit_terms.h), the numbers of a head neighbours: biases by
  /// distance [B, H, Lq + Lk - 1, 1]; a [B, H, Lq, 1] and b [B, H, Lk, 1] of a_i - b_j; sinks [B,
  /// H, 1, 1].
  Tensor by_distance, at_queries, at_keys, sink;  ///< undefined: none
  double cap = 0;                                 ///< of scaled products; 0: none
  bool signs = false;                             ///< whether weights have their logits' signs
  const RowRule* rule = nullptr;                  ///< in place of softmax
  Tensor factor;                                  ///< of the rule's weights, [B, H, Lq, 1]
  double scale = 1;
  UnitKeys unit;
  DropoutMask drops;  ///< of the weights, as numbers of [B, H, Lq, Lk]
  Tensor inverse;     ///< [B, H, Lk, 1] of unit keys: filled forward, read backward
  /// Whether factors of products are rounded to bfloat16, but for those of relative positions and
  /// those in the loops of a single query. Of float32, and only where `has_rounded_heads()`; sums
  /// and results keep float32.
  bool rounds = false;

  bool has_terms() const {
    return by_distance.defined() || at_queries.defined() || at_keys.defined() || sink.defined() ||
           cap > 0 || signs || rule != nullptr;
  }
};

/// Whether there are products of rounded factors here: with AVX-512's instructions for bfloat16.
bool has_rounded_heads();

/// Whether heads of these queries have them: train.precision.
bool rounds_heads(const Tensor& queries);

/// x without a graph, copied where the numbers of a row are not neighbours.
Tensor rows_dense(const Tensor& x);

/// [B, H, L, C], lying in memory as [B, L, H, C]; as [H, B, L, C] where heads of `like` lie
/// furthest apart: those of an ensemble, whose members come first.
Tensor empty_by_token(const Tensor& like, std::int64_t length, std::int64_t channels);

/// Room for 1 / |k| of unit keys; undefined where there are none.
Tensor room_for_inverse(const Tensor& k, const UnitKeys& unit);

/// What a backward pass fills, [B, H, L, C] each.
struct HeadGradients {
  Tensor q, k, v;
  Tensor bias = {};  ///< [B, H, Lq, Lk], zeros at first; undefined: not wanted
  Tensor relative_q = {}, relative_k = {};
  /// Sums of the gradient of the complete logits, contiguous: of each query [B, H, Lq], of each key
  /// [B, H, Lk], of each distance [B, H, Lq + Lk - 1]; undefined: not wanted.
  Tensor by_query = {}, by_key = {}, by_distance = {};
  Tensor sink = {};  ///< [B, H]; undefined: not wanted
};

/// A problem as pointers and numbers.
template <class T>
struct HeadwisePlan {
  std::int64_t queries, keys, dim, channels;
  Heads<const T> q, k, v;
  Heads<const bool> pairs, valid;
  PlaceRules rules;
  Heads<const T> bias, relative_q, relative_k;
  Heads<const T> by_distance;  ///< of query i and key j at (i, j)
  Heads<const T> at_queries, at_keys, sink, factor;
  T cap;
  bool signs;
  const RowLoops<T>* rule;  ///< null: softmax
  T scale;
  bool unit;
  double eps;
  DropoutMask drops;
  T* inverse;  ///< [B * H, Lk] of unit keys, or null
  bool rounds;

  explicit HeadwisePlan(const HeadwiseProblem& in)
      : queries(in.q.size(2)),
        keys(in.k.size(2)),
        dim(in.q.size(3)),
        channels(in.v.size(3)),
        q(in.q),
        k(in.k),
        v(in.v),
        pairs(in.pairs),
        valid(in.valid),
        rules(in.rules),
        bias(in.bias),
        relative_q(in.relative_q),
        relative_k(in.relative_k),
        by_distance(in.by_distance),
        at_queries(in.at_queries),
        at_keys(in.at_keys),
        sink(in.sink),
        factor(in.factor),
        cap(T(in.cap)),
        signs(in.signs),
        rule(loops_of(in.rule)),
        scale(T(in.scale)),
        unit(in.unit.has_value()),
        eps(in.unit.value_or(0)),
        drops(in.drops),
        inverse(unit ? in.inverse.template data_ptr<T>() : nullptr),
        rounds(in.rounds) {
    if (by_distance.data == nullptr) return;
    by_distance.data += queries - 1;  // one less each query, one more each key
    by_distance.row = -1, by_distance.column = 1;
  }

  bool all_seen() const { return pairs.data == nullptr && valid.data == nullptr && !rules.any(); }
  bool relative() const { return relative_q.data != nullptr; }
  std::int64_t distances() const { return queries + keys - 1; }

 private:
  static const RowLoops<T>* loops_of(const RowRule* rule) {
    if (rule == nullptr) return nullptr;
    if constexpr (std::is_same_v<T, float>) {
      return &rule->best().floats;
    } else {
      return &rule->best().doubles;
    }
  }
};

/// Rows of D that a part of a head's backward pass sums up: of queries, and of relative positions'
/// queries and distances.
template <class T>
std::int64_t rows_of_sums(const HeadwisePlan<T>& in) {
  return in.relative() ? 2 * in.queries + in.distances() : in.queries;
}

/// What a backward pass reads and fills.
template <class T>
struct HeadwiseGradients {
  Heads<const T> out;
  Heads<T> q, k, v;
  Heads<T> bias = {};                         ///< [B, H, Lq, Lk], zeros at first; null: not wanted
  Heads<T> relative_q = {}, relative_k = {};  ///< null: there are none
  /// As in HeadGradients; null: not wanted.
  T *by_query = nullptr, *by_key = nullptr, *by_distance = nullptr, *sink = nullptr;
};

/// Numbers that a part of a head's backward pass sums up: rows of D, each padded, then sums of the
/// logits' gradient by query and by distance, as far as they are wanted.
template <class T>
std::int64_t numbers_of_sums(const HeadwisePlan<T>& in, const HeadwiseGradients<T>& to) {
  return rows_of_sums(in) * padded<T>(in.dim) +
         (to.by_query != nullptr ? padded<T>(in.queries) : 0) +
         (to.by_distance != nullptr ? padded<T>(in.distances()) : 0);
}

}  // namespace attnlab
