#include "framework/eval/classification.h"

#include <fmt/format.h>

#include <cmath>

#include "framework/eval/member_losses.h"
#include "framework/tensor/narrow.h"

namespace attnlab {
namespace {

void check_shapes(const Tensor& logits, const Tensor& classes) {
  if (logits.dim() != 2 || !logits.is_floating_point() || logits.size(1) < 1) {
    throw ShapeError("logits: expected [B, K] floating point, got " + describe(logits));
  }
  if (classes.dim() != 1 || classes.scalar_type() != at::kLong ||
      classes.size(0) != logits.size(0)) {
    throw ShapeError(
        fmt::format("class: expected [{}] int64, got {}", logits.size(0), describe(classes)));
  }
}

/// @param classes  on the CPU, contiguous.
void check_classes(const Tensor& classes, std::int64_t count) {
  const std::int64_t* label = classes.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < classes.numel(); ++i) {
    if (label[i] >= 0 && label[i] < count) continue;
    throw DataError(
        fmt::format("class: example {} of the batch is of class {}, but the model gives logits for "
                    "{} classes (0 to {})",
                    i, label[i], count, count - 1));
  }
}

struct Outcome {
  std::int64_t rank = 0;  ///< how many logits come before that of the right class
  double nll = 0;
};

/// @param logits  K logits of one example.
Outcome judge(const double* logits, std::int64_t count, std::int64_t label) {
  Outcome outcome;
  double largest = logits[0];
  for (std::int64_t k = 1; k < count; ++k) largest = std::max(largest, logits[k]);
  double sum = 0;
  for (std::int64_t k = 0; k < count; ++k) {
    sum += std::exp(logits[k] - largest);
    outcome.rank += logits[k] > logits[label] || (k < label && logits[k] == logits[label]);
  }
  outcome.nll = largest + std::log(sum) - logits[label];
  if (std::isnan(outcome.nll)) outcome.rank = count;
  return outcome;
}

/// Logits that a loss can be computed of: in single precision at least.
/// @throws what is wrong with them or with the classes
Tensor checked_logits(const Tensor& logits, const Tensor& classes) {
  check_shapes(logits, classes);
  if (classes.device().is_cpu()) check_classes(classes.contiguous(), logits.size(1));
  return wide(logits);
}

}  // namespace

Tensor classification_loss(const Tensor& logits, const Tensor& classes, double label_smoothing) {
  return at::cross_entropy_loss(checked_logits(logits, classes), classes, /*weight=*/{},
                                at::Reduction::Mean, /*ignore_index=*/-100, label_smoothing);
}

Tensor classification_losses(const Tensor& logits, const Tensor& classes, double label_smoothing,
                             std::int64_t members) {
  if (members < 1 || (logits.dim() > 0 && logits.size(0) % members != 0)) {
    throw ShapeError(fmt::format(
        "logits: {} members must have as many rows each, one member's after the other's, got {}",
        members, describe(logits)));
  }
  return member_cross_entropy(checked_logits(logits, classes), classes, label_smoothing, members);
}

Tensor right_of(const Tensor& logits, const Tensor& classes) {
  const Tensor own = logits.gather(1, classes.view({-1, 1})).view({-1});
  const Tensor numbers = logits.isnan().any(1).logical_not().logical_and(own.isfinite());
  return logits.argmax(1).eq(classes).logical_and(numbers);
}

void ClassificationMeter::add(const NamedTensors& outputs, const Batch& batch) {
  const Tensor& given = outputs.at("logits");
  check_shapes(given, batch.fields.at("class"));
  const Tensor logits = given.detach().to(at::kCPU, at::kDouble).contiguous();
  const Tensor classes = batch.fields.at("class").to(at::kCPU).contiguous();
  classes_ = logits.size(1);
  check_classes(classes, classes_);
  for (std::int64_t i = 0; i < logits.size(0); ++i) {
    const Outcome outcome = judge(logits.data_ptr<double>() + i * classes_, classes_,
                                  classes.data_ptr<std::int64_t>()[i]);
    top1_ += outcome.rank < 1;
    top5_ += outcome.rank < 5;
    nll_ += outcome.nll;
    ++count_;
  }
}

Metrics ClassificationMeter::result() const {
  if (count_ == 0) throw Error("evaluation: no examples were given; is the split empty?");
  const auto count = static_cast<double>(count_);
  Metrics metrics = {{"accuracy", static_cast<double>(top1_) / count}, {"nll", nll_ / count}};
  if (classes_ >= 5) metrics["top5"] = static_cast<double>(top5_) / count;
  return metrics;
}

ClassificationTask::ClassificationTask(const ClassificationOptions& options, const TaskSetup& setup)
    : label_smoothing_(options.label_smoothing), classes_(setup.data.classes) {
  if (label_smoothing_ >= 1) {
    throw OptionError("label_smoothing", "must be below 1: at 1 the labels no longer matter");
  }
  if (classes_ < 1) {
    throw DataError(fmt::format("dataset '{}' has no classes; a classification task needs some",
                                setup.data.name));
  }
}

std::vector<MetricInfo> ClassificationTask::metrics() const {
  std::vector<MetricInfo> metrics = {{"accuracy", Better::higher, "share"},
                                     {"nll", Better::lower, "nats"}};
  if (classes_ >= 5) metrics.push_back({"top5", Better::higher, "share"});
  return metrics;
}

const Tensor& ClassificationTask::checked(const Tensor& logits) const {
  if (logits.dim() != 2 || logits.size(1) == classes_) return logits;
  throw ShapeError(fmt::format("logits: the dataset has {} classes, the model gives {}", classes_,
                               describe(logits)));
}

Tensor ClassificationTask::loss(const NamedTensors& outputs, const Batch& batch) const {
  return classification_loss(checked(outputs.at("logits")), batch.fields.at("class"),
                             label_smoothing_);
}

Tensor ClassificationTask::losses(const NamedTensors& outputs, const Batch& batch,
                                  std::int64_t members) const {
  return classification_losses(checked(outputs.at("logits")), batch.fields.at("class"),
                               label_smoothing_, members);
}

}  // namespace attnlab
