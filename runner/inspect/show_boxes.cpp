#include "runner/inspect/show_boxes.h"

#include <fmt/format.h>

#include "framework/base/json.h"
#include "framework/nn/boxes/best_answers.h"
#include "runner/inspect/image_bytes.h"

namespace attnlab {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostFound = 10;

/// Corners in shares as a list in pixels.
json in_pixels(const Tensor& box, std::int64_t height, std::int64_t width) {
  const Tensor b = box.to(at::kCPU, at::kDouble).clamp(0, 1);
  const auto edge = [&](std::int64_t k, std::int64_t side) {
    return b[k].item<double>() * double(side);
  };
  return {edge(0, width), edge(1, height), edge(2, width), edge(3, height)};
}

/// The last layer's weights as they come.
struct LastWeights {
  AttentionTrace trace;
  Tensor weights;  ///< [H, Q, N]

  LastWeights() {
    trace.weights = true;
    trace.on_layer = [this](const LayerTrace& layer) {
      if (layer.weights.defined()) weights = layer.weights.select(0, 0);
    };
  }
};

/// Adds the row of a query, and the grid that it lies on.
/// @param grid  the model's output of this name; null: it says nothing, and nothing is added
void add_attention(json& picture, const Tensor& weights, std::int64_t query, const Tensor* grid) {
  picture["attention"] = json::array();
  picture["columns"] = 0;
  picture["stride"] = 0;
  if (grid == nullptr || !weights.defined() || query >= weights.size(1)) return;
  const Tensor row = weights.select(1, query).to(at::kCPU, at::kDouble).mean(0);
  const auto number = [&](std::int64_t i) { return (*grid)[0][i].item<std::int64_t>(); };
  if (number(0) * number(1) != row.size(0)) return;
  picture["columns"] = number(1);
  picture["stride"] = number(2);
  for (std::int64_t i = 0; i < row.size(0); ++i) {
    picture["attention"].push_back(finite_or_null(row[i].item<double>()));
  }
}

}  // namespace

json picture_of_boxes(const BuiltRun& run, std::int64_t index) {
  const DatasetInfo& info = run.dataset->info();
  const NamedTensors example = run.dataset->example(Split::test, index, nullptr);
  LastWeights last;
  ForwardPass pass;
  pass.trace = &last.trace;
  const NamedTensors outputs =
      run.model->forward(to_device(run.dataset->collate({example}), run.device), pass);
  const Tensor& image = example.at("image");
  const std::int64_t height = image.size(1), width = image.size(2);
  const auto name = [&](const Tensor& label) {
    return info.class_names.at(static_cast<std::size_t>(label.item<std::int64_t>()));
  };
  const Tensor* prompt = example.find("prompt");
  json picture = {{"index", index},
                  {"height", height},
                  {"width", width},
                  {"image", png_text(image, info.field("image"))},
                  {"prompt", prompt == nullptr ? "" : png_text(*prompt, info.field("prompt"))},
                  {"asked", prompt == nullptr ? "" : name(example.at("prompt_class"))},
                  {"known", json::array()},
                  {"found", json::array()}};
  const Tensor& known = example.at("box@box");
  for (std::int64_t i = 0; i < known.size(0); ++i) {
    const Tensor label = example.at("label@box")[i];
    if (prompt != nullptr && !label.equal(example.at("prompt_class"))) continue;
    picture["known"].push_back(
        {{"box", in_pixels(known[i], height, width)}, {"words", name(label)}});
  }
  const Tensor logits = outputs.at("logits").to(at::kCPU, at::kFloat);
  const BestAnswers best =
      best_answers(logits, outputs.at("boxes").to(at::kCPU, at::kFloat), kMostFound);
  for (std::int64_t i = 0; i < best.scores.size(1); ++i) {
    const double score = best.scores[0][i].item<double>();
    if (score < best.scores[0][0].item<double>() / 2) break;
    if (!best.boxes[0][i].isfinite().all().item<bool>()) continue;
    const std::string word = prompt == nullptr ? name(best.labels[0][i]) + " " : "";
    picture["found"].push_back({{"box", in_pixels(best.boxes[0][i], height, width)},
                                {"words", fmt::format("{}{:.2f}", word, score)}});
  }
  const std::int64_t query = logits[0].flatten().argmax().item<std::int64_t>() / logits.size(2);
  add_attention(picture, last.weights, query, outputs.find("grid"));
  return picture;
}

}  // namespace attnlab
