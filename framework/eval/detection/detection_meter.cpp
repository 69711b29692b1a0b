#include "framework/eval/detection/detection_meter.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/eval/metric_names.h"
#include "framework/nn/boxes/best_answers.h"

namespace attnlab {
namespace {

/// Means over what has boxes.
struct Mean {
  double sum = 0;
  std::int64_t count = 0;

  void add(double value) {
    sum += value;
    ++count;
  }
  double value() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
};

/// The mean of numbers by class, over all or over a group.
double mean_of(const std::map<std::int64_t, double>& by_class,
               const std::vector<std::int64_t>* group = nullptr) {
  Mean mean;
  for (const auto& [label, value] : by_class) {
    if (group == nullptr || std::find(group->begin(), group->end(), label) != group->end()) {
      mean.add(value);
    }
  }
  return mean.value();
}

/// The fields of one example, on the CPU in double precision.
class Example {
 public:
  Example(const Batch& batch, const Tensor& boxes, std::int64_t b) {
    const auto* starts = batch.offsets.at("box").data_ptr<std::int64_t>();
    const auto own = [&](const char* name) {
      return batch.fields.at(name).slice(0, starts[b], starts[b + 1]).to(at::kCPU, at::kDouble);
    };
    const Tensor size = batch.fields.at("size")[b].to(at::kCPU, at::kDouble);
    const Tensor scale = at::stack({size[1], size[0], size[1], size[0]});
    found_ = (boxes.to(at::kCPU, at::kDouble) * scale).contiguous();
    known_ = (own("box@box") * scale).contiguous();
    labels_ = own("label@box").contiguous();
    areas_ = own("area@box").contiguous();
    kinds_ = own("ignored@box").contiguous();
  }

  FoundBox found(std::int64_t i, double score) const { return {score, corners(found_, i)}; }

  /// Boxes of a class.
  std::vector<KnownBox> known(std::int64_t label) const {
    std::vector<KnownBox> boxes;
    for (std::int64_t i = 0; i < labels_.size(0); ++i) {
      if (std::int64_t(labels_.data_ptr<double>()[i]) != label) continue;
      const double kind = kinds_.data_ptr<double>()[i];  // 1: difficult, 2: a crowd
      boxes.push_back({corners(known_, i), areas_.data_ptr<double>()[i], kind > 0, kind > 1});
    }
    return boxes;
  }

 private:
  static Corners corners(const Tensor& boxes, std::int64_t i) {
    const double* box = boxes.data_ptr<double>() + 4 * i;
    return {box[0], box[1], box[2], box[3]};
  }

  Tensor found_, known_, labels_, areas_, kinds_;
};

std::vector<std::string> words_of(const DatasetInfo& data) {
  std::vector<std::string> words;
  for (const std::string& name : data.class_names) words.push_back(word_of(name));
  return words;
}

}  // namespace

void check_categories(const Batch& batch, const DatasetInfo& data) {
  for (const FieldInfo& field : data.fields) {
    const Tensor* numbers = batch.fields.find(field.name);
    if (numbers == nullptr || field.categories == 0) continue;
    if (!numbers->lt(0).logical_or(numbers->ge(field.categories)).any().item<bool>()) continue;
    throw DataError(fmt::format("{}: the batch has a number that is not 0 to {}", field.name,
                                field.categories - 1));
  }
}

std::vector<MetricInfo> detection_metrics(const DatasetInfo& data, bool one_shot) {
  std::vector<std::string> names = {"ap50", "ap", "ap75", "ap_small", "ap_medium", "ap_large"};
  if (one_shot) names.push_back("ap50_per_image");
  for (const auto& [group, classes] : data.class_groups) {
    names.push_back("ap50_" + group);
    names.push_back("ap_" + group);
    if (one_shot) names.push_back("ap50_per_image_" + group);
  }
  std::vector<MetricInfo> metrics;
  for (const std::string& name : names) metrics.push_back({name, Better::higher, "share"});
  for (const std::string& word : words_of(data)) {
    metrics.push_back({"ap50_" + word, Better::higher, "share", word});
    if (one_shot) metrics.push_back({"ap50_per_image_" + word, Better::higher, "share", word});
  }
  return metrics;
}

DetectionMeter::DetectionMeter(const DatasetInfo& data, bool one_shot, std::int64_t most)
    : data_(data), names_(words_of(data)), one_shot_(one_shot), most_(most) {}

void DetectionMeter::add(const NamedTensors& outputs, const Batch& batch) {
  check_categories(batch, data_);
  const BestAnswers best = best_answers(outputs.at("logits").detach().to(at::kFloat),
                                        outputs.at("boxes").detach().to(at::kFloat), most_);
  const Tensor scores = best.scores.to(at::kCPU, at::kDouble).contiguous();
  const Tensor labels = best.labels.to(at::kCPU).contiguous();
  const std::int64_t answers = scores.size(1);
  for (std::int64_t b = 0; b < batch.size; ++b) {
    const Example example(batch, best.boxes[b], b);
    const double* score = scores.data_ptr<double>() + b * answers;
    if (one_shot_) {
      const auto number = [&](const char* name) {
        return batch.fields.at(name)[b].item<std::int64_t>();
      };
      ClassInImage image;
      for (std::int64_t i = 0; i < answers && score[i] > kNoScore; ++i) {
        image.found.push_back(example.found(i, score[i]));
      }
      image.known = example.known(number("prompt_class"));
      OfClass& asked = rounds_[number("prompt_number")][number("prompt_class")];
      asked.images.push_back(std::move(image));
      asked.ids.push_back(number("image_id"));
      continue;
    }
    std::map<std::int64_t, ClassInImage> classes;
    for (std::int64_t i = 0; i < answers && score[i] > kNoScore; ++i) {
      const std::int64_t label = labels.data_ptr<std::int64_t>()[b * answers + i];
      classes[label].found.push_back(example.found(i, score[i]));
    }
    for (std::int64_t label = 0; label < std::int64_t(names_.size()); ++label) {
      std::vector<KnownBox> known = example.known(label);
      if (!known.empty()) classes[label].known = std::move(known);
    }
    for (auto& [label, image] : classes) rounds_[0][label].images.push_back(std::move(image));
  }
}

std::map<std::int64_t, double> DetectionMeter::per_image() const {
  std::map<std::int64_t, std::map<std::int64_t, std::vector<const ClassInImage*>>> by_class;
  for (const auto& [number, classes] : rounds_) {
    for (const auto& [label, asked] : classes) {
      for (std::size_t i = 0; i < asked.images.size(); ++i) {
        by_class[label][asked.ids[i]].push_back(&asked.images[i]);
      }
    }
  }
  std::map<std::int64_t, double> means;
  for (const auto& [label, images] : by_class) {
    Mean mean;
    for (const auto& [id, prompts] : images) {
      std::vector<ClassInImage> all;
      for (const ClassInImage* one : prompts) all.push_back(*one);
      const std::vector<double> ap = coco_precision(all, {0.5}, {}, std::size_t(most_));
      if (!ap.empty()) mean.add(ap[0]);
    }
    if (mean.count > 0) means[label] = mean.value();
  }
  return means;
}

Metrics DetectionMeter::result() const {
  if (rounds_.empty()) throw Error("evaluation: no examples were given; is the split empty?");
  Metrics sums;
  for (const auto& [number, classes] : rounds_) {
    std::map<std::int64_t, double> ap, ap50, ap75, small, medium, large;
    for (const auto& [label, asked] : classes) {
      const std::vector<ClassInImage>& images = asked.images;
      const auto average = [](const std::vector<double>& x) {
        Mean mean;
        for (const double value : x) mean.add(value);
        return mean.value();
      };
      const auto most = static_cast<std::size_t>(most_);
      const std::vector<double> all = coco_precision(images, coco_thresholds(), {}, most);
      if (all.empty()) continue;
      ap[label] = average(all);
      ap50[label] = all[0];
      ap75[label] = all[5];
      for (const auto& [range, into] :
           {std::pair{kSmallArea, &small}, {kMediumArea, &medium}, {kLargeArea, &large}}) {
        const std::vector<double> part = coco_precision(images, coco_thresholds(), range, most);
        if (!part.empty()) (*into)[label] = average(part);
      }
    }
    sums["ap"] += mean_of(ap);
    sums["ap50"] += mean_of(ap50);
    sums["ap75"] += mean_of(ap75);
    sums["ap_small"] += mean_of(small);
    sums["ap_medium"] += mean_of(medium);
    sums["ap_large"] += mean_of(large);
    for (const auto& [group, members] : data_.class_groups) {
      sums["ap50_" + group] += mean_of(ap50, &members);
      sums["ap_" + group] += mean_of(ap, &members);
    }
    for (std::size_t k = 0; k < names_.size(); ++k) {
      const auto found = ap50.find(static_cast<std::int64_t>(k));
      sums["ap50_" + names_[k]] += found == ap50.end() ? 0 : found->second;
    }
  }
  for (auto& [name, value] : sums) value /= static_cast<double>(rounds_.size());
  if (!one_shot_) return sums;
  const std::map<std::int64_t, double> alone = per_image();
  sums["ap50_per_image"] = mean_of(alone);
  for (const auto& [group, members] : data_.class_groups) {
    sums["ap50_per_image_" + group] = mean_of(alone, &members);
  }
  for (std::size_t k = 0; k < names_.size(); ++k) {
    const auto found = alone.find(static_cast<std::int64_t>(k));
    sums["ap50_per_image_" + names_[k]] = found == alone.end() ? 0 : found->second;
  }
  return sums;
}

}  // namespace attnlab
