#include "framework/eval/detection/detection_loss.h"

#include <algorithm>

#include "framework/nn/boxes/boxes.h"
#include "framework/nn/boxes/matching.h"

namespace attnlab {
namespace {

/// Queries of one kind: one-to-one, one-to-many, or proposals.
struct Queries {
  Tensor logits;  ///< [B, L, Q, K]
  Tensor boxes;   ///< [B, L, Q, 4]
  Tensor valid;   ///< [B, Q] bool; undefined: all
};

/// Which rows of the flattened [B L Q] were matched to which objects.
struct Matches {
  Tensor rows, objects;  ///< [M] int64
};

/// log(1 + e^x), what -log(1 - sigmoid(x)) is; softplus without a threshold.
Tensor minus_log_not(const Tensor& x) { return x.clamp_min(0) + at::log1p(at::exp(-x.abs())); }

/// What an answer costs if its class is right, less what it costs if not: [..., K].
Tensor class_cost(const Tensor& logits, double alpha) {
  const Tensor p = logits.sigmoid();
  return alpha * (1 - p).pow(2) * minus_log_not(-logits) -
         (1 - alpha) * p.pow(2) * minus_log_not(logits);
}

/// [Q, n] of one example and layer.
Tensor matching_cost(const Tensor& logits, const Tensor& boxes, const Objects& objects,
                     std::int64_t begin, std::int64_t count, const DetectionLossOptions& options) {
  const Tensor known = objects.boxes.narrow(0, begin, count).to(boxes.scalar_type());
  const Tensor labels = objects.labels.narrow(0, begin, count);
  return options.classes * class_cost(logits, options.alpha).index_select(1, labels) +
         options.l1 * at::cdist(boxes, known, 1) -
         options.giou * pairwise_giou(corners_of(boxes), corners_of(known));
}

Matches matches_of(const Queries& queries, const Objects& objects, std::int64_t times,
                   const DetectionLossOptions& options) {
  const at::NoGradGuard no_gradients;
  const std::int64_t batch = queries.logits.size(0), layers = queries.logits.size(1);
  const std::int64_t count = queries.logits.size(2);
  std::vector<std::int64_t> rows, found;
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t begin = objects.starts[std::size_t(b)];
    const std::int64_t n = objects.starts[std::size_t(b) + 1] - begin;
    if (n == 0) continue;
    for (std::int64_t l = 0; l < layers; ++l) {
      Tensor cost =
          matching_cost(queries.logits[b][l], queries.boxes[b][l], objects, begin, n, options);
      // A model that has diverged is the trainer's to report; padding is what nobody takes.
      cost = at::nan_to_num(cost, 1e6, 1e6, -1e6);
      if (queries.valid.defined()) {
        cost = cost.masked_fill(queries.valid[b].logical_not().unsqueeze(1), 1e6);
      }
      const std::vector<std::int64_t> of = cheapest_assignment(cost.t().repeat({times, 1}));
      for (std::size_t i = 0; i < of.size(); ++i) {
        if (of[i] < 0) continue;
        if (queries.valid.defined() && !queries.valid[b][of[i]].item<bool>()) continue;
        rows.push_back((b * layers + l) * count + of[i]);
        found.push_back(begin + static_cast<std::int64_t>(i) % n);
      }
    }
  }
  const at::Device device = queries.logits.device();
  return {at::tensor(rows, at::kLong).to(device), at::tensor(found, at::kLong).to(device)};
}

/// Sums over all queries, over `count`.
Tensor loss_of(const Queries& queries, const Matches& matches, const Objects& objects, double count,
               const DetectionLossOptions& options, const std::string& name,
               const RecordLoss& record) {
  const Tensor logits = queries.logits.flatten(0, 2);
  Tensor right = at::zeros(logits.sizes(), logits.options());
  right.index_put_({matches.rows, objects.labels.index_select(0, matches.objects)},
                   at::ones({}, logits.options()));
  const Tensor p = logits.sigmoid();
  Tensor focal = right * (options.alpha * (1 - p).pow(2) * minus_log_not(-logits)) +
                 (1 - right) * ((1 - options.alpha) * p.pow(2) * minus_log_not(logits));
  if (queries.valid.defined()) {
    const Tensor counted = queries.valid.unsqueeze(1).expand(queries.logits.sizes().slice(0, 3));
    focal = focal.masked_fill(counted.reshape({-1, 1}).logical_not(), 0);
  }
  const Tensor boxes = queries.boxes.flatten(0, 2).index_select(0, matches.rows);
  const Tensor known = objects.boxes.index_select(0, matches.objects).to(boxes.scalar_type());
  const Tensor classes = focal.sum() / count;
  const Tensor l1 = (boxes - known).abs().sum() / count;
  const Tensor overlap = (1 - giou(corners_of(boxes), corners_of(known))).sum() / count;
  if (record) {
    record(name + "class", classes);
    record(name + "l1", l1);
    record(name + "giou", overlap);
  }
  return options.classes * classes + options.l1 * l1 + options.giou * overlap;
}

/// The contrastive loss of matched queries, summed over layers.
Tensor contrast_of(const Tensor& features, const Matches& matches, const Objects& objects,
                   double temperature) {
  const std::int64_t layers = features.size(1), queries = features.size(2);
  const Tensor flat = features.flatten(0, 2).index_select(0, matches.rows);
  const Tensor kinds = objects.kinds.index_select(0, matches.objects);
  const Tensor layer = at::div(matches.rows, queries, "floor").remainder(layers);
  Tensor sum = features.sum() * 0;
  for (std::int64_t l = 0; l < layers; ++l) {
    const Tensor here = layer.eq(l).nonzero().squeeze(1);
    if (here.size(0) == 0) continue;
    sum = sum +
          contrastive_loss(flat.index_select(0, here), kinds.index_select(0, here), temperature);
  }
  return sum;
}

const Tensor& layer_logits_of(const NamedTensors& outputs) {
  const Tensor* of_prompt = outputs.find("layer_prompt_logits");
  return of_prompt != nullptr ? *of_prompt : outputs.at("layer_logits");
}

Queries part_of(const NamedTensors& outputs, std::int64_t first, std::int64_t count) {
  return {layer_logits_of(outputs).narrow(2, first, count),
          outputs.at("layer_boxes").narrow(2, first, count),
          {}};
}

}  // namespace

Tensor contrastive_loss(const Tensor& features, const Tensor& kinds, double temperature) {
  const Tensor unit = features / features.norm(2, {-1}, true).clamp_min(1e-12);
  const Tensor near = at::matmul(unit, unit.t()) / temperature;
  const Tensor far = at::matmul(unit, unit.detach().t()) / temperature;
  const Tensor same = kinds.unsqueeze(0).eq(kinds.unsqueeze(1));
  // Cosines are at most 1, so nothing overflows at temperatures that are allowed.
  const Tensor others = far.exp().masked_fill(same, 0).sum(1, true);
  const Tensor pairs = (at::log(near.exp() + others) - near) * same.to(near.scalar_type());
  const Tensor members = same.sum(1).to(near.scalar_type());
  // Each class is the mean of its n^2 pairs: a row of it weighs 1 / n^2, and 1 / n counts classes.
  const Tensor classes = members.reciprocal().sum();
  return (pairs.sum(1) / members.square()).sum() / classes;
}

Tensor detection_loss(const NamedTensors& outputs, const Objects& asked, const Objects& anything,
                      const DetectionLossOptions& options, const RecordLoss& record) {
  const double count = std::max<double>(1, static_cast<double>(asked.boxes.size(0)));
  const std::int64_t ones = outputs.at("logits").size(1);
  const std::int64_t all = layer_logits_of(outputs).size(2);
  const Queries queries = part_of(outputs, 0, ones);
  const Matches matches = matches_of(queries, asked, 1, options);
  Tensor loss = loss_of(queries, matches, asked, count, options, "", record);
  const Tensor* features = outputs.find("layer_features");
  const auto contrast = [&](std::int64_t first, std::int64_t length, const Matches& found,
                            const std::string& name) {
    const Tensor value =
        contrast_of(features->narrow(2, first, length), found, asked, options.temperature);
    if (record) record(name, value);
    return options.contrast * value;
  };
  if (features != nullptr) loss = loss + contrast(0, ones, matches, "contrast");
  if (all > ones && options.many_weight > 0) {
    const Queries many = part_of(outputs, ones, all - ones);
    const Matches often = matches_of(many, asked, options.many, options);
    loss = loss + options.many_weight * loss_of(many, often, asked,
                                                count * static_cast<double>(options.many), options,
                                                "many_", record);
    if (features != nullptr) {
      loss = loss + options.many_weight * contrast(ones, all - ones, often, "many_contrast");
    }
  }
  if (const Tensor* logits = outputs.find("proposal_logits")) {
    const Queries proposals = {logits->unsqueeze(1), outputs.at("proposal_boxes").unsqueeze(1),
                               outputs.at("proposal_valid")};
    const Matches found = matches_of(proposals, anything, 1, options);
    loss = loss + options.proposals *
                      loss_of(proposals, found, anything, count, options, "proposal_", record);
  }
  return loss;
}

}  // namespace attnlab
