#include "plugins/tasks/language/language_modelling/request_meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace attnlab {
namespace {

/// The choice of the lowest number, the first of equal ones.
std::int64_t lowest(const std::map<std::int64_t, double>& of_choices) {
  return std::min_element(of_choices.begin(), of_choices.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

/// A field of the batch, on the CPU; zeros where there is none.
Tensor numbers_of(const Batch& batch, const char* name, std::int64_t rows) {
  const Tensor* found = batch.fields.find(name);
  return found == nullptr ? at::zeros({rows}, at::kLong) : found->to(at::kCPU).contiguous();
}

}  // namespace

std::vector<MetricInfo> RequestMeter::infos(bool choices, bool answers) {
  const MetricInfo nll = {"nll", Better::lower, "nats/request"};
  const MetricInfo cut = {"cut", Better::lower, "requests"};
  const MetricInfo accuracy = {"accuracy", Better::higher, "share"};
  if (choices) return {accuracy, {"accuracy_normalised", Better::higher, "share"}, nll, cut};
  std::vector<MetricInfo> all = {{"perplexity", Better::lower, ""}, nll, cut};
  if (answers) all.insert(all.begin(), accuracy);
  return all;
}

void RequestMeter::add(const NamedTensors& outputs, const Batch& batch) {
  const Tensor targets = batch.fields.at("targets").to(at::kCPU);
  const Tensor asked = targets.ge(0);
  const std::int64_t rows = targets.size(0);
  const Tensor sums = outputs.at("nll")
                          .detach()
                          .to(at::kCPU, at::kDouble)
                          .masked_fill(asked.logical_not(), 0)
                          .sum(1);
  const double* const nll = sums.data_ptr<double>();
  requests_ += rows;
  cut_ += numbers_of(batch, "cut", rows).gt(0).sum().item<std::int64_t>();
  for (std::int64_t i = 0; i < rows; ++i) nll_ += nll[i];
  if (!choices_ && answers_) {
    const Tensor same =
        outputs.at("answers").to(at::kCPU).eq(targets).logical_or(asked.logical_not());
    right_ += same.all(1).sum().item<std::int64_t>();
  }
  if (!choices_) return;
  const Tensor choice = numbers_of(batch, "choice", rows);
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t* const of = choice.data_ptr<std::int64_t>() + 5 * i;
    Question& question = questions_[of[0]];
    question.choices = of[2];
    question.label = of[3];
    question.nll[of[1]] = nll[i];
    question.per_character[of[1]] = nll[i] / static_cast<double>(of[4]);
  }
}

Metrics RequestMeter::result() const {
  if (requests_ == 0) throw Error("evaluation: there were no requests; is the split empty?");
  const double nll = nll_ / static_cast<double>(requests_);
  Metrics metrics = {{"nll", nll}, {"cut", static_cast<double>(cut_)}};
  if (!choices_) {
    metrics["perplexity"] = std::exp(nll);
    if (answers_) metrics["accuracy"] = static_cast<double>(right_) / double(requests_);
    return metrics;
  }
  std::int64_t right = 0, normalised = 0;
  for (const auto& [number, question] : questions_) {
    if (std::ssize(question.nll) != question.choices) {
      throw UndefinedMetrics(
          fmt::format("accuracy: question {} came with {} of its {} choices; evaluate all", number,
                      question.nll.size(), question.choices),
          metrics);
    }
    right += lowest(question.nll) == question.label;
    normalised += lowest(question.per_character) == question.label;
  }
  const auto count = static_cast<double>(questions_.size());
  metrics["accuracy"] = static_cast<double>(right) / count;
  metrics["accuracy_normalised"] = static_cast<double>(normalised) / count;
  return metrics;
}

}  // namespace attnlab
