#include "runner/inspect/show_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "framework/base/foreign_text.h"
#include "framework/base/random.h"
#include "framework/data/image/corruption.h"
#include "framework/eval/classification.h"
#include "framework/eval/explanation.h"
#include "framework/runs/missing_evaluations.h"
#include "framework/train/checkpoint.h"
#include "runner/engine/engine.h"
#include "runner/inspect/class_name.h"
#include "runner/inspect/image_bytes.h"

namespace attnlab {
namespace {

using nlohmann::json;

/// Some examples of a dataset as its test split.
class SomeExamples final : public Dataset {
 public:
  SomeExamples(std::shared_ptr<Dataset> all, std::vector<std::int64_t> indices)
      : all_(std::move(all)), indices_(std::move(indices)) {}

  const DatasetInfo& info() const override { return all_->info(); }
  std::int64_t size(Split split) const override {
    return split == Split::test ? static_cast<std::int64_t>(indices_.size()) : 0;
  }
  NamedTensors make_example(Split split, std::int64_t index, Random* augmentation) const override {
    return all_->example(split, indices_.at(static_cast<std::size_t>(index)), augmentation);
  }
  Batch collate(const std::vector<NamedTensors>& examples) const override {
    return all_->collate(examples);
  }

 private:
  std::shared_ptr<Dataset> all_;
  std::vector<std::int64_t> indices_;
};

/// A model that remembers the last image that it was asked about, and what it said.
class RecordingModel final : public Model {
 public:
  explicit RecordingModel(std::shared_ptr<Model> model)
      : model_(register_module("watched", std::move(model))) {}

  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    NamedTensors outputs = model_->forward(batch, pass);
    image = batch.fields.at("image").detach().select(0, 0);
    logits = outputs.at("logits").detach().select(0, 0);
    return outputs;
  }
  std::vector<FieldInfo> outputs() const override { return model_->outputs(); }

  Tensor image, logits;

 private:
  std::shared_ptr<Model> model_;
};

/// What the model says, for people.
std::string words_of(const Tensor& logits, const DatasetInfo& info) {
  if (logits.isnan().any().item<bool>()) return "logits that are not numbers";
  const auto said = logits.argmax().item<std::int64_t>();
  const double share = logits.to(at::kCPU, at::kDouble).softmax(0)[said].item<double>();
  return fmt::format("{} ({:.0f} %)", class_name(info, said), 100 * share);
}

/// @param logits  [K]
json version_of(const std::string& name, const Tensor& image, const Tensor& logits,
                std::int64_t truth, const DatasetInfo& info) {
  const Tensor right =
      right_of(logits.unsqueeze(0), at::full({1}, truth, logits.options().dtype(at::kLong)));
  return {{"name", name},
          {"image", png_text(image.to(at::kCPU), info.field("image"))},
          {"words", words_of(logits, info)},
          {"wrong", !right.item<bool>()}};
}

json cells_of(const Tensor& map) {
  json cells = json::array();
  const Tensor all = map.to(at::kCPU, at::kDouble).flatten().contiguous();
  for (std::int64_t i = 0; i < all.numel(); ++i) cells.push_back(all.data_ptr<double>()[i]);
  return cells;
}

/// Adds the map of the first method that the model and its attention have what it needs for.
void add_map(json& picture, Model& model, const Batch& batch) {
  picture["method"] = "";
  picture["columns"] = 0;
  picture["map"] = json::array();
  for (const char* method : {"ag_cam", "rollout"}) {
    try {
      const Tensor map = explain(model, batch, method).map[0];
      if (!at::isfinite(map).all().item<bool>()) return;
      picture["method"] = method;
      picture["columns"] = map.size(1);
      picture["map"] = cells_of(map);
      return;
    } catch (const ShapeError&) {  // it lacks what this method needs
      continue;
    }
  }
}

/// Adds AG-CAM's map of a class, or of the model's answer (-1).
/// @throws ConfigError where there can be none.
void add_class_map(json& picture, Model& model, const Batch& batch, const std::string& version,
                   std::int64_t of, const DatasetInfo& info) {
  Tensor classes;
  if (of >= 0)
    classes =
        at::full({1}, of, at::TensorOptions(at::kLong).device(batch.fields.at("image").device()));
  const auto refuse = [&](const std::string& why) {
    throw ConfigError(fmt::format(
        "--{}: there is no AG-CAM of {}: {}", of >= 0 ? "class" : "region",
        of >= 0 ? fmt::format("class {}", class_name(info, of)) : "the changed image", why));
  };
  try {
    const Tensor map = explain(model, batch, "ag_cam", classes).map[0];
    if (!at::isfinite(map).all().item<bool>()) refuse("it is not finite");
    picture["more_maps"].push_back({{"version", version},
                                    {"of", of >= 0 ? class_name(info, of) : ""},
                                    {"cells", cells_of(map)}});
  } catch (const ShapeError& error) {
    refuse(one_line(without_backtrace(error.what())));
  }
}

/// @throws ConfigError for a region that is not within the image.
void check_region(const std::vector<std::int64_t>& region, const Tensor& image) {
  const std::int64_t height = image.size(2), width = image.size(3);
  const std::int64_t left = region[0], top = region[1];
  const bool fits = left >= 0 && top >= 0 && region[2] > 0 && region[3] > 0 &&
                    region[2] <= width - left && region[3] <= height - top;
  if (fits) return;
  throw ConfigError(
      fmt::format("--region: {},{},{},{} is not within the image, which the model gets as {} x {} "
                  "pixels; give left, top, width and height in pixels",
                  left, top, region[2], region[3], width, height));
}

/// The image with its region as noise: pixels of any colour, in the model's units.
Tensor with_noise(const Tensor& image, const std::vector<std::int64_t>& region,
                  const FieldInfo& field, std::int64_t index) {
  Tensor changed = image.to(at::kCPU, at::kDouble).clone();
  const double low = changed.min().item<double>(), high = changed.max().item<double>();
  Random random = RandomStreams(0).stream("region", static_cast<std::uint64_t>(index));
  for (std::int64_t c = 0; c < changed.size(1); ++c) {
    const auto channel = static_cast<std::size_t>(c);
    const bool known = channel < field.mean.size();
    auto pixels = changed.accessor<double, 4>();
    for (std::int64_t y = region[1]; y < region[1] + region[3]; ++y) {
      for (std::int64_t x = region[0]; x < region[0] + region[2]; ++x) {
        const double level = random.uniform();
        pixels[0][c][y][x] = known ? (level - field.mean[channel]) / field.deviation[channel]
                                   : low + level * (high - low);
      }
    }
  }
  return changed.to(image.options());
}

json picture_of(const BuiltRun& run, std::int64_t index, const MapRequest& maps) {
  const DatasetInfo& info = run.dataset->info();
  const Batch batch = to_device(
      run.dataset->collate({run.dataset->example(Split::test, index, nullptr)}), run.device);
  const Tensor image = batch.fields.at("image");
  const auto truth = batch.fields.at("class").item<std::int64_t>();
  json picture = {{"index", index},
                  {"height", image.size(2)},
                  {"width", image.size(3)},
                  {"class", class_name(info, truth)}};
  const auto logits_of = [&](const Batch& asked) {
    ForwardPass pass;
    return run.model->forward(asked, pass).at("logits")[0];
  };
  picture["versions"] = {version_of(kClean, image[0], logits_of(batch), truth, info)};
  add_map(picture, *run.model, batch);
  for (const std::int64_t of : maps.classes) {
    add_class_map(picture, *run.model, batch, kClean, of, info);
  }
  if (maps.region.empty()) return picture;
  check_region(maps.region, image);
  Batch noised = batch;
  noised.fields.set("image", with_noise(image, maps.region, info.field("image"), index));
  picture["versions"].push_back(
      version_of("region", noised.fields.at("image")[0], logits_of(noised), truth, info));
  if (picture["method"] == "ag_cam") {
    add_class_map(picture, *run.model, noised, "region", -1, info);
  }
  for (const std::int64_t of : maps.classes) {
    add_class_map(picture, *run.model, noised, "region", of, info);
  }
  return picture;
}

/// An entry of several corruptions as one for each, at its highest severity.
std::vector<EvaluationEntry> parts_of(const EvaluationEntry& entry) {
  if (entry.experiment.task.name != "image_corruptions") return {entry};
  const auto list_of = [](const std::vector<std::string>& texts) {
    Node list = Node::list();
    for (const std::string& text : texts) list.items().push_back(Node::scalar(text));
    return list;
  };
  const Node& options = entry.experiment.task.options;
  std::vector<std::string> kinds;
  for (const Node& kind : options.at("corruptions").items()) kinds.push_back(kind.text());
  if (kinds.empty()) kinds = standard_corruptions();
  std::int64_t severity = 1;
  for (const Node& one : options.at("severities").items()) {
    severity = std::max(severity, one.as_int().value_or(1));
  }
  std::vector<EvaluationEntry> parts;
  for (const std::string& kind : kinds) {
    parts.push_back(entry);
    parts.back().name = fmt::format("{} {}", kind, severity);
    Node& own = parts.back().experiment.task.options;
    own.set("corruptions", list_of({kind}));
    own.set("severities", list_of({std::to_string(severity)}));
  }
  return parts;
}

/// @throws DataError where the overlay's test images are others than the run's.
void check_same_images(const BuiltRun& run, const BuiltRun& overlay,
                       const std::vector<std::int64_t>& indices) {
  bool same = overlay.dataset->size(Split::test) == run.dataset->size(Split::test);
  for (const std::int64_t index : indices) {
    same = same && overlay.dataset->example(Split::test, index, nullptr)
                       .at("class")
                       .equal(run.dataset->example(Split::test, index, nullptr).at("class"));
  }
  if (!same) throw DataError("it is of other test images than the run's");
}

/// Adds what an entry makes of each image.
void add_versions(json& pictures, const BuiltRun& run, const EvaluationEntry& entry,
                  const std::vector<std::int64_t>& indices, const NamedTensors& weights,
                  const std::string& source, Registry& registry) {
  BuiltRun overlay = overlaid(run, entry, registry);
  take_weights(overlay, run, entry, weights, source);
  check_same_images(run, overlay, indices);
  const auto watched = std::make_shared<RecordingModel>(overlay.model);
  overlay.model = watched;
  overlay.dataset = std::make_shared<SomeExamples>(overlay.dataset, indices);
  std::vector<json> versions;
  evaluate_overlay_examples(overlay, entry, stop_requested(), [&](const ExampleMetrics& one) {
    const auto at = indices.at(static_cast<std::size_t>(one.example));
    const auto truth =
        run.dataset->example(Split::test, at, nullptr).at("class").item<std::int64_t>();
    versions.push_back(
        version_of(entry.name, watched->image, watched->logits, truth, run.dataset->info()));
  });
  for (std::size_t i = 0; i < versions.size(); ++i) {
    pictures[i]["versions"].push_back(std::move(versions[i]));
  }
}

}  // namespace

json pictures_of_images(BuiltRun& run, const RunFolder& folder,
                        const std::vector<std::int64_t>& indices,
                        const std::vector<EvaluationEntry>& entries, const MapRequest& maps,
                        Registry& registry) {
  json pictures = json::array();
  run.model->eval();
  for (const std::int64_t of : maps.classes) {
    if (of >= 0 && of < run.dataset->info().classes) continue;
    throw ConfigError(fmt::format("--class: {} is not one of the {} classes of dataset '{}'", of,
                                  run.dataset->info().classes, run.dataset->info().name));
  }
  for (const std::int64_t index : indices) pictures.push_back(picture_of(run, index, maps));
  const std::string path = weights_file(run.experiment, folder);
  const NamedTensors weights = entries.empty() ? NamedTensors{} : read_sealed(path).tensors;
  for (const EvaluationEntry& whole : entries) {
    const bool asked_for_maps = whole.experiment.task.name == "image_explanation";
    if (asked_for_maps || whole.options.split != "test") continue;
    for (const EvaluationEntry& entry : parts_of(whole)) {
      if (stop_requested()) throw Interrupted();
      try {
        add_versions(pictures, run, entry, indices, weights, path, registry);
      } catch (const Interrupted&) {
        throw;
      } catch (const Error& error) {
        std::cerr << fmt::format("warning: evaluation '{}' is not drawn: {}\n", entry.name,
                                 one_line(without_backtrace(error.what())));
      }
    }
  }
  return pictures;
}

}  // namespace attnlab
