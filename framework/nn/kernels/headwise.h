// What attention, a head at a time, computes from, and which pairs of it are seen.
#pragma once

#include <algorithm>

#include "framework/nn/kernels/dropout.h"
#include "framework/nn/kernels/matrix.h"
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

/// Float32 or float64 on the CPU.
struct HeadwiseProblem {
  Tensor q, k, v;    ///< [B, H, Lq, D], [B, H, Lk, D] (of unit keys, the numbers of a row are
                     ///< neighbours), [B, H, Lk, Dv]
  Tensor hidden;     ///< bool [B, H, Lq, Lk], true = may not see, or undefined
  PlaceRules rules;  ///< what is hidden besides
  double scale = 1;
  UnitKeys unit;
  DropoutMask drops;  ///< of the weights, as numbers of [B, H, Lq, Lk]
  Tensor inverse;     ///< [B, H, Lk, 1] of unit keys: filled forward, read backward
};

/// A problem as pointers and numbers.
template <class T>
struct HeadwisePlan {
  std::int64_t queries, keys, dim, channels;
  Heads<const T> q, k, v;
  Heads<const bool> hidden;
  PlaceRules rules;
  T scale;
  bool unit;
  double eps;
  DropoutMask drops;
  T* inverse;  ///< [B * H, Lk] of unit keys, or null

  explicit HeadwisePlan(const HeadwiseProblem& in)
      : queries(in.q.size(2)),
        keys(in.k.size(2)),
        dim(in.q.size(3)),
        channels(in.v.size(3)),
        q(in.q),
        k(in.k),
        v(in.v),
        hidden(in.hidden),
        rules(in.rules),
        scale(T(in.scale)),
        unit(in.unit.has_value()),
        eps(in.unit.value_or(0)),
        drops(in.drops),
        inverse(unit ? in.inverse.template data_ptr<T>() : nullptr) {}

  bool all_seen() const { return hidden.data == nullptr && !rules.any(); }
};

/// What a backward pass reads and fills.
template <class T>
struct HeadwiseGradients {
  Heads<const T> out;
  Heads<T> q, k, v;
};

}  // namespace attnlab
