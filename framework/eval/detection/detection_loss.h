// The loss of detectors of the DETR family: queries are matched to objects, and judged by the
// match.
//
//   cost(q, o)  = class (focal(q, class o) as if right - as if wrong) + l1 |b_q - b_o|_1
//                 - giou GIoU(b_q, b_o)
//   loss        = (class sum focal + l1 sum |b_q - b_o|_1 + giou sum (1 - GIoU)) / N
//   focal       = - a (1 - p)^2 log p where the class is right, - (1 - a) p^2 log(1 - p) elsewhere
//
// summed over decoder layers, over one-to-many queries (each object is matched `many` times), and
// over proposals, which are asked for objects of any class. N is the number of objects asked for.
//
// Contrast (stage one): features of matched queries, at unit length; for each class of the batch
//   mean over its pairs (i, j) of -log(e^{s_ij/T} / (e^{s_ij/T} + sum_k e^{s_ik/T})),
// k over matched queries of other classes, which get no gradient from it. One-to-one queries and
// one-to-many ones have a term each. It is of the batch: parts of a step see parts of it.
// Source: Carion et al., DETR, ECCV 2020; Jia et al., DETRs with Hybrid Matching, CVPR 2023; Lin et
// al., Plain DETR, ICCV 2023; weights and contrast as IA-DETR's public code has them.
#pragma once

#include <functional>
#include <string_view>

#include "framework/config/options.h"
#include "framework/contracts/batch.h"

namespace attnlab {

struct DetectionLossOptions {
  double classes = 2, l1 = 5, giou = 2;
  double alpha = 0.25;
  std::int64_t many = 6;
  double many_weight = 1;
  double proposals = 1;
  double contrast = 2, temperature = 0.5;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("class_weight", classes, at_least(0), "weight of the focal loss");
    v("l1_weight", l1, at_least(0), "weight of the L1 distance of boxes, in shares of the image");
    v("giou_weight", giou, at_least(0), "weight of 1 - GIoU");
    v("alpha", alpha, range(0, 1), "alpha of the focal loss: weight of the positives");
    v("many", many, at_least(1), "one-to-many queries that each object is matched to");
    v("many_weight", many_weight, at_least(0), "weight of the loss of one-to-many queries");
    v("proposal_weight", proposals, at_least(0), "weight of the loss of proposals");
    v("contrast_weight", contrast, at_least(0),
      "weight of the contrastive loss, if the model gives features");
    v("temperature", temperature, range(0.02, 100), "T of the contrastive loss");
  }
};

/// The objects of a batch, example by example.
struct Objects {
  Tensor boxes;                      ///< [N, 4] centred, in shares of the image
  Tensor labels;                     ///< [N] int64: columns of logits
  Tensor kinds;                      ///< [N] int64: classes that contrast tells apart
  std::vector<std::int64_t> starts;  ///< examples + 1: where each one's begin
};

/// Takes parts of the loss by name; may be empty.
using RecordLoss = std::function<void(std::string_view, const Tensor&)>;

/// Reads layer_logits [B, L, Q, K], or layer_prompt_logits [B, L, Q, 1] of the prompt's class, and
/// layer_boxes [B, L, Q, 4] centred, of which the first queries, as many as `logits` has, are
/// one-to-one; where they are given proposal_logits [B, P, K'], proposal_boxes [B, P, 4] and
/// proposal_valid [B, P] bool, and layer_features [B, L, Q, F].
/// @param asked    what queries must find
/// @param anything what proposals must find; labels are those of column 0
/// @returns a scalar.
Tensor detection_loss(const NamedTensors& outputs, const Objects& asked, const Objects& anything,
                      const DetectionLossOptions& options, const RecordLoss& record = {});

/// The contrastive loss of features of one layer. @param features  [M, F] @param kinds  [M] int64.
Tensor contrastive_loss(const Tensor& features, const Tensor& kinds, double temperature);

}  // namespace attnlab
