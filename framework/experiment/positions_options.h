// `attention.positions`: what layers tell the attention of where tokens stand, whatever the
// mechanism.
#pragma once

#include <cstdint>
#include <string>

#include "framework/config/options.h"

namespace attnlab {

/// What `Positions` of framework/contracts/attention.h says, as a composition writes it: `rotary`,
/// or {use: rotary, base: 100}. Only the options that a kind reads may be given.
struct PositionsOptions {
  std::string use = "none";
  double base = 10000;
  std::int64_t buckets = 32;
  std::int64_t max_distance = 128;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("use", use, required(one_of("none", "rotary", "alibi", "t5")),
      "rotary: queries and keys are rotated by their positions; alibi: logits fall with the "
      "distance; t5: a bias is learned for each head and bucket of distances. alibi and t5 need "
      "the trait 'bias'");
    v("base", base, range(1, 1e12),
      "for rotary: pair m of a coordinate's n channel pairs is rotated by the position times "
      "base^(-m/n); 100 is usual for images");
    v("buckets", buckets, range(4, 65536),
      "for t5: half of the buckets hold one distance each, the others ever longer ranges");
    v("max_distance", max_distance, range(3, 1 << 20),
      "for t5: tokens that are farther apart share the last bucket");
  }
};

}  // namespace attnlab
