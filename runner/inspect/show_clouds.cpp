#include "runner/inspect/show_clouds.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "framework/base/base64.h"
#include "runner/inspect/class_name.h"
#include "runner/inspect/cloud_view.h"

namespace attnlab {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostPoints = 20000, kMostClasses = 255;

std::int64_t chosen_point(const Tensor& places, std::int64_t wanted, std::int64_t cloud) {
  const std::int64_t points = places.size(0);
  if (wanted >= points) {
    throw ConfigError(fmt::format("--point: test cloud {} has points 0 to {}", cloud, points - 1));
  }
  if (wanted >= 0) return wanted;
  const Tensor all = places.to(at::kDouble);
  return (all - all.mean(0)).square().sum(1).argmin().item<std::int64_t>();
}

/// The last layer's weights as they come, the mean over heads.
struct LastPatchWeights {
  AttentionTrace trace;
  Tensor weights;  ///< [P, K, K]; undefined: the attention has none

  LastPatchWeights() {
    trace.weights = true;
    trace.on_layer = [this](const LayerTrace& layer) {
      weights = layer.weights.defined() ? layer.weights.mean(1) : Tensor();
    };
  }
};

/// What the model says of a whole cloud, and what is true.
std::string cloud_answer(const DatasetInfo& info, const Tensor& logits, const Tensor& truth) {
  const auto said = logits[0].argmax().item<std::int64_t>(), is = truth.item<std::int64_t>();
  return fmt::format("says {} ({:.0f} %), is {}", class_name(info, said),
                     100 * logits[0].to(at::kDouble).softmax(0)[said].item<double>(),
                     class_name(info, is));
}

std::string share_right(const Tensor& said, const Tensor& label) {
  const Tensor counts = label.ge(0);
  const auto known = counts.sum().item<std::int64_t>();
  const auto right = said.eq(label).logical_and(counts).sum().item<std::int64_t>();
  if (known == 0) return "no point has a label that counts";
  return fmt::format("{:.1f} % of {} points right", 100 * double(right) / double(known), known);
}

json class_names(const DatasetInfo& info) {
  if (info.classes > kMostClasses) {
    throw DataError(fmt::format("dataset '{}' has {} classes of points; {} at most are drawn",
                                info.name, info.classes, kMostClasses));
  }
  json names = json::array();
  for (std::int64_t c = 0; c < info.classes; ++c) names.push_back(class_name(info, c));
  return names;
}

/// Adds each shown point's share of the chosen one's attention: that of the token it lies in.
void add_attention(json& picture, const VoxelAttention& attention, const Tensor& inverse,
                   const Tensor& shown) {
  picture["attention"] = "";
  picture["most"] = 0;
  picture["patch"] = 0;
  if (!attention.weight.defined()) return;
  const Tensor weight = attention.weight.index_select(0, inverse);
  const double most = weight.max().item<double>();
  if (!std::isfinite(weight.sum().item<double>())) return;
  picture["attention"] = base64_text(packed_weights(weight.index_select(0, shown), most));
  picture["most"] = most;
  picture["patch"] = attention.tokens;
}

}  // namespace

json picture_of_cloud(const BuiltRun& run, std::int64_t index, std::int64_t point) {
  const DatasetInfo& info = run.dataset->info();
  const NamedTensors example = run.dataset->example(Split::test, index, nullptr);
  const Tensor& places = example.at("coord@point");
  const Tensor& inverse = example.at("inverse@point>voxel");
  const std::int64_t chosen = chosen_point(places, point, index);
  LastPatchWeights last;
  ForwardPass pass;
  pass.trace = &last.trace;
  const Batch batch = to_device(run.dataset->collate({example}), run.device);
  const NamedTensors outputs = run.model->forward(batch, pass);

  const Tensor* label = example.find("label@point");
  const std::vector<std::int64_t> rows = thinned(example.at("grid@voxel").index_select(0, inverse),
                                                 label ? *label : Tensor(), kMostPoints, chosen);
  const Tensor shown = at::tensor(rows, at::kLong);
  const PackedPlaces packed = packed_places(places.index_select(0, shown));
  json picture = {{"index", index},
                  {"points", places.size(0)},
                  {"shown", rows.size()},
                  {"point", chosen},
                  {"chosen", std::lower_bound(rows.begin(), rows.end(), chosen) - rows.begin()},
                  {"low", packed.low},
                  {"side", packed.side},
                  {"coord", base64_text(packed.bytes)},
                  {"classes", json::array()},
                  {"label", ""},
                  {"said", ""},
                  {"answer", ""}};
  VoxelAttention attention;
  if (outputs.find("slots") != nullptr && outputs.find("token@voxel") != nullptr) {
    attention = attention_of_voxel(last.weights, outputs.at("slots"), outputs.at("token@voxel"),
                                   inverse[chosen].item<std::int64_t>());
  }
  add_attention(picture, attention, inverse, shown);
  if (label != nullptr) {
    picture["classes"] = class_names(info);
    picture["label"] = base64_text(packed_classes(label->index_select(0, shown)));
  }
  if (const Tensor* logits = outputs.find("logits@voxel"); logits != nullptr && label != nullptr) {
    const Tensor said = logits->argmax(1).to(at::kCPU).index_select(0, inverse);
    picture["said"] = base64_text(packed_classes(said.index_select(0, shown)));
    picture["answer"] = share_right(said, *label);
  } else if (const Tensor* whole = outputs.find("logits");
             whole != nullptr && example.find("class") != nullptr) {
    picture["answer"] = cloud_answer(info, *whole, example.at("class"));
  }
  return picture;
}

}  // namespace attnlab
