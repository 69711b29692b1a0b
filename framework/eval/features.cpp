#include "framework/eval/features.h"

#include <fmt/format.h>

#include "framework/base/text.h"

namespace attnlab {
namespace {

constexpr const char* kForms =
    "expected class, mean or pooled, alone or of layers: class@3, mean@-1, class@last4";
constexpr const char* kTrainFeatures = "train.features";
constexpr const char* kTrainClasses = "train.classes";

/// Layers of "3", "-2" or "last4", as in FeatureTrace::layers; none for another text.
std::vector<std::int64_t> layers_of(std::string_view text) {
  constexpr std::string_view kLast = "last";
  constexpr std::int64_t kMost = 10000;
  const bool several = text.starts_with(kLast);
  const auto number = parsed_number<std::int64_t>(several ? text.substr(kLast.size()) : text);
  if (!number || *number == 0 || *number > kMost || *number < (several ? 1 : -kMost)) return {};
  if (!several) return {*number};
  std::vector<std::int64_t> layers;
  for (std::int64_t layer = -*number; layer < 0; ++layer) layers.push_back(layer);
  return layers;
}

void check_class_numbers(const Tensor& classes, const DatasetInfo& data, Split split) {
  if (classes.numel() == 0) return;
  const auto least = classes.min().item<std::int64_t>(), most = classes.max().item<std::int64_t>();
  if (least >= 0 && most < data.classes) return;
  throw DataError(fmt::format("the {} split of '{}' has class {}, and there are {} (0 to {})",
                              name_of(split), data.name, least < 0 ? least : most, data.classes,
                              data.classes - 1));
}

}  // namespace

FeatureReader::FeatureReader(const std::vector<std::string>& names, std::string option)
    : option_(std::move(option)) {
  if (names.empty()) throw OptionError(option_, fmt::format("names nothing; {}", kForms));
  for (const std::string& name : names) {
    const std::size_t at = name.find('@');
    const std::string base = name.substr(0, at);
    const std::vector<std::int64_t> layers =
        at == std::string::npos ? std::vector<std::int64_t>{-1} : layers_of(name.substr(at + 1));
    const bool known = base == "class" || base == "mean" || base == "pooled";
    if (!known || layers.empty()) {
      throw OptionError(option_, fmt::format("{} is not a feature; {}", json_quote(name), kForms));
    }
    const Token token = base == "class"  ? Token::class_token
                        : base == "mean" ? Token::mean
                                         : Token::pooled;
    for (const std::int64_t layer : layers) parts_.push_back({name, token, layer});
  }
}

FeatureTrace FeatureReader::asked(Model& model, const Batch& batch) const {
  FeatureTrace trace;
  for (const Part& part : parts_) trace.layers.push_back(part.layer);
  ForwardPass pass;
  pass.features = &trace;
  model.forward(batch, pass);
  if (trace.depth == 0) {
    throw DataError(
        "the model lists layer_features and gave none: its forward() must answer "
        "ForwardPass::features");
  }
  return trace;
}

Tensor FeatureReader::part_of(const Part& part, const FeatureTrace& trace) const {
  const std::int64_t layer = part.layer > 0 ? part.layer : trace.depth + 1 + part.layer;
  const LayerFeatures* found = nullptr;
  for (const LayerFeatures& one : trace.found) {
    if (one.layer == layer) found = &one;
  }
  if (found == nullptr) {
    throw OptionError(option_, fmt::format("{}: the model gives features of layers 1 to {} (-{} to "
                                           "-1 from the end); name one of them",
                                           json_quote(part.name), trace.depth, trace.depth));
  }
  const bool of_class = found->class_token.defined();
  if (part.token == Token::class_token && !of_class) {
    throw OptionError(
        option_, fmt::format("{}: the model has no class token; take mean", json_quote(part.name)));
  }
  if (of_class && part.token != Token::mean) return found->class_token;
  return found->tokens.mean(1);
}

Tensor FeatureReader::read(Model& model, const Batch& batch) const {
  const FeatureTrace trace = asked(model, batch);
  std::vector<Tensor> parts;
  parts.reserve(parts_.size());
  for (const Part& part : parts_) parts.push_back(part_of(part, trace));
  return parts.size() == 1 ? parts[0] : at::cat(parts, 1);
}

std::vector<LayerFeatures> FeatureReader::layers(Model& model, const Batch& batch) const {
  FeatureTrace trace = asked(model, batch);
  for (const Part& part : parts_) part_of(part, trace);  // throws for what is not there
  return std::move(trace.found);
}

void check_finite(const Tensor& features, const DatasetInfo& data, Split split) {
  if (features.isfinite().all().item<bool>()) return;
  throw DataError(
      fmt::format("features of the {} split of '{}' are not numbers: the model has diverged",
                  name_of(split), data.name));
}

FeatureTable features_of(const Evaluation& evaluation, Split split, const FeatureReader& reader) {
  std::vector<Tensor> features, classes;
  evaluation.batches(split, [&](const Batch& batch) {
    features.push_back(reader.read(evaluation.model, batch).to(at::kCPU, at::kFloat));
    classes.push_back(batch.fields.at("class").to(at::kCPU));
  });
  if (features.empty()) return {};
  FeatureTable table{at::cat(features), at::cat(classes)};
  check_class_numbers(table.classes, evaluation.data, split);
  check_finite(table.features, evaluation.data, split);
  return table;
}

FeatureTable training_features(const Evaluation& evaluation, const FeatureReader& reader) {
  NamedTensors* const kept = evaluation.fitted == nullptr ? nullptr : &evaluation.fitted->kept;
  if (kept != nullptr && kept->find(kTrainFeatures) != nullptr) {
    return {kept->at(kTrainFeatures), kept->at(kTrainClasses)};
  }
  FeatureTable table = features_of(evaluation, Split::train, reader);
  const DatasetInfo& data = evaluation.data;
  const Tensor counts = table.size() == 0
                            ? at::zeros({data.classes}, at::kLong)
                            : at::bincount(table.classes, /*weights=*/{}, data.classes);
  for (std::int64_t k = 0; k < data.classes; ++k) {
    if (counts[k].item<std::int64_t>() > 0) continue;
    throw DataError(
        fmt::format("class {} of '{}' has no training example; train on more of them, "
                    "or leave the class out of the data",
                    data.class_word(k), data.name));
  }
  if (kept != nullptr) {
    kept->set(kTrainFeatures, table.features);
    kept->set(kTrainClasses, table.classes);
  }
  return table;
}

}  // namespace attnlab
