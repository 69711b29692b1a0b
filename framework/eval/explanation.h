// What a vision transformer looked at: a number for each patch of each image.
//
//   AG-CAM   sum over layers l and heads h of  relu(d z_c / d A_lh)[row] * s(L_lh)[row],  s
//   logistic rollout  R = prod_l rows_to_one(mean_h A_lh / 2 + 1/2),  its [row]
//
// with weights A and logits L of the attention, z_c the model's logit of class c, and [row] the
// class token's row over the patches. A model without class token (`pool: mean`) has no such row:
// there it is the mean over the patches' rows, which is our own extension. Registers stand behind
// the patches and count as no patch: a model that has them says by `tokens` how many others there
// are.
// The logistic function sees the logits with whatever scale the mechanism gives them.
// Sources: Leem & Seo, Attention Guided CAM, AAAI 2024, and its public code; Abnar & Zuidema,
// Quantifying attention flow, ACL 2020. Cost: a forward pass with a trace, which computes weights
// one by one; AG-CAM a backward pass, too.
#pragma once

#include <string>

#include "framework/contracts/model.h"

namespace attnlab {

struct Explanation {
  Tensor logits;  ///< [B, K]
  Tensor map;     ///< [B, rows, columns] of patches, 0 or more
};

/// @param method   "ag_cam" or "rollout"
/// @param classes  [B] int64, of AG-CAM; undefined: the classes that the model answers
/// @throws ShapeError for a model whose layers do not all see one grid of patches, or whose
///         attentions record no weights (of AG-CAM: no logits).
Explanation explain(Model& model, const Batch& batch, const std::string& method,
                    const Tensor& classes = {});

/// Enlarged to the image by bilinear interpolation, corners not aligned, and each stretched to
/// 0..1.
/// @param map  [B, rows, columns]   @returns [B, height, width]; 0 where a map is flat
Tensor heat_of(const Tensor& map, std::int64_t height, std::int64_t width);

/// The smallest boxes around each connected part (8 neighbours) of what is above the threshold,
/// filled: 1 inside, 0 outside. @param heat  [height, width]   @returns bool of the same shape
Tensor boxed(const Tensor& heat, double threshold);

}  // namespace attnlab
