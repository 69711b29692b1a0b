// What a backbone makes of images: a map of features, and which of it is real.
//
// Images of one batch are padded at the bottom and on the right. Backbones hide the padding
// wherever cells see their neighbours, so in evaluation an image gives the same alone and in any
// batch.
#pragma once

#include "framework/contracts/model.h"

namespace attnlab {

struct ImageFeatures {
  Tensor map;    ///< [B, C, h, w]
  Tensor valid;  ///< [B, h, w] bool, true = real; undefined: all is
};

/// Zeros where nothing is real.
inline Tensor hidden_padding(const ImageFeatures& x) {
  return x.valid.defined() ? x.map * x.valid.unsqueeze(1).to(x.map.scalar_type()) : x.map;
}

/// Every n-th cell of each row and column, from the first on.
inline Tensor every(const Tensor& valid, std::int64_t n) {
  return valid.defined() ? valid.slice(1, 0, valid.size(1), n).slice(2, 0, valid.size(2), n)
                         : valid;
}

/// Answers a question for features with the last map [B, C, h, w], as the only layer.
inline void add_map(FeatureTrace& features, const Tensor& map) {
  features.depth = 1;
  if (!features.wants(1)) return;
  LayerFeatures out;
  out.layer = 1;
  out.tokens = map.flatten(2).transpose(1, 2);
  out.rows = map.size(2);
  out.columns = map.size(3);
  features.found.push_back(out);
}

}  // namespace attnlab
