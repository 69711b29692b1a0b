#include "framework/eval/segmentation/confusion.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "framework/base/text.h"
#include "framework/eval/metric_names.h"

namespace attnlab {

std::vector<std::string> class_words(const DatasetInfo& data, const std::string& task) {
  const std::vector<std::string>& given = data.class_names;
  std::vector<std::string> names;
  for (const std::string& name : given) names.push_back(word_of(name));
  if (data.classes < 1 || data.classes != static_cast<std::int64_t>(names.size())) {
    throw DataError(fmt::format("dataset '{}' has no classes with names; {} tells them apart",
                                data.name, task));
  }
  for (std::size_t k = 1; k < names.size(); ++k) {
    const auto here = names.begin() + static_cast<std::ptrdiff_t>(k);
    const auto other = std::find(names.begin(), here, names[k]);
    if (other == here) continue;
    throw DataError(fmt::format(
        "dataset '{}': the classes {} and {} would share the metric 'iou_{}'; rename one",
        data.name, json_quote(given[static_cast<std::size_t>(other - names.begin())]),
        json_quote(given[k]), names[k]));
  }
  return names;
}

std::vector<MetricInfo> segmentation_metric_infos(const std::vector<std::string>& names) {
  std::vector<MetricInfo> metrics = {{"miou", Better::higher, "share"},
                                     {"macc", Better::higher, "share"},
                                     {"accuracy", Better::higher, "share"}};
  for (const std::string& name : names) {
    metrics.push_back({"iou_" + name, Better::higher, "share", name});
  }
  return metrics;
}

Metrics segmentation_metrics(const Tensor& confusion, const std::vector<std::string>& names) {
  const Tensor counts = confusion.to(at::kDouble), right = counts.diagonal();
  const Tensor labelled = counts.sum(1), answered = counts.narrow(1, 0, counts.size(0)).sum(0);
  const Tensor together = labelled + answered - right;
  double iou_sum = 0, accuracy_sum = 0;
  int ious = 0, accuracies = 0;
  Metrics metrics;
  for (std::size_t c = 0; c < names.size(); ++c) {
    const auto at = static_cast<std::int64_t>(c);
    const auto of = [&](const Tensor& x) { return x[at].item<double>(); };
    const double iou = of(together) > 0 ? of(right) / of(together) : 0;
    metrics["iou_" + names[c]] = iou;
    if (of(together) > 0) ++ious;
    iou_sum += iou;
    if (of(labelled) == 0) continue;
    ++accuracies;
    accuracy_sum += of(right) / of(labelled);
  }
  const double all = counts.sum().item<double>();
  if (all == 0) throw Error("evaluation: nothing with a label was given; is the split empty?");
  metrics["miou"] = iou_sum / ious;
  metrics["macc"] = accuracy_sum / accuracies;
  metrics["accuracy"] = right.sum().item<double>() / all;
  return metrics;
}

Tensor answers_of(const Tensor& scores, std::int64_t dim) {
  return scores.argmax(dim).masked_fill(scores.isnan().any(dim), scores.size(dim));
}

void count_answers(const Tensor& labels, const Tensor& answers, const Tensor& confusion,
                   const std::string& field) {
  const std::int64_t classes = confusion.size(0), columns = confusion.size(1);
  if (labels.sizes() != answers.sizes() || labels.scalar_type() != at::kLong) {
    throw ShapeError(fmt::format("{}: expected int64 of the answers' shape {}, found {}", field,
                                 describe(answers), describe(labels)));
  }
  if (labels.numel() == 0) return;
  const auto largest = labels.max().item<std::int64_t>();
  if (largest >= classes) {
    throw DataError(fmt::format("{}: the batch has the label {}, which is not below {}", field,
                                largest, classes));
  }
  const Tensor dense = labels.contiguous(), said = answers.contiguous();
  const auto* label = dense.data_ptr<std::int64_t>();
  const auto* answer = said.data_ptr<std::int64_t>();
  auto* total = confusion.data_ptr<std::int64_t>();
  std::mutex mutex;
  constexpr std::int64_t kGrain = std::int64_t{1} << 16;
  at::parallel_for(0, dense.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    // Neighbours mostly fall into one cell: in turn into two matrices, they need not wait for each
    // other.
    const auto cells = static_cast<std::size_t>(classes * columns);
    std::vector<std::int64_t> even(cells, 0), odd(cells, 0);
    for (std::int64_t i = begin; i < end; ++i) {
      if (label[i] < 0) continue;
      std::vector<std::int64_t>& counts = i % 2 == 0 ? even : odd;
      ++counts[static_cast<std::size_t>(label[i] * columns + answer[i])];
    }
    const std::lock_guard lock(mutex);
    for (std::size_t cell = 0; cell < cells; ++cell) total[cell] += even[cell] + odd[cell];
  });
}

}  // namespace attnlab
