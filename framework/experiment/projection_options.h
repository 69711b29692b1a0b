// `attention.projection`: how layers make keys and values, whatever the mechanism.
#pragma once

#include <cstdint>

#include "framework/config/options.h"

namespace attnlab {

/// What `Projection` of framework/contracts/attention.h says, as a composition writes it.
struct ProjectionOptions {
  std::int64_t key_heads = 0;
  std::int64_t rank = 0;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("key_heads", key_heads, at_least(0),
      "heads of keys and values, each shared by equally many heads of queries: 1: multi-query, "
      "more: grouped-query attention; 0: as many as heads of queries");
    v("rank", rank, at_least(0),
      "keys and values are computed from this many shared channels, as in multi-head latent "
      "attention; 0: from the layer's input");
  }
};

}  // namespace attnlab
