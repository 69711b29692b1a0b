// Classification of whole examples (images, series, graphs): loss and metrics.
//
//   nll      = - mean log softmax(z)[y]
//   loss     = - mean sum_k q_k log softmax(z)[k],   q = (1 - eps) onehot(y) + eps / K
//   accuracy = share of examples whose class has the largest logit; top5 one of the five largest
#pragma once

#include <cstdint>

#include "framework/config/options.h"
#include "framework/contracts/task.h"

namespace attnlab {

/// Mean cross entropy with label smoothing; half-precision logits are widened to float32 first.
/// @param logits   [B, K] floating point
/// @param classes  [B] int64, 0 <= class < K
/// @returns a scalar of the logits' dtype, at least float32.
/// @throws ShapeError, DataError for a class out of range. (Classes on another device than the CPU
///         are not read, as that would wait for the device; the meter's are.)
Tensor classification_loss(const Tensor& logits, const Tensor& classes, double label_smoothing);

/// The same for models trained together.
/// @param logits   [members * B, K], one member's after the other's
/// @param classes  [members * B] int64
/// @returns [members], the mean of each.
/// @throws ShapeError, DataError as above, and where the members do not divide the rows.
Tensor classification_losses(const Tensor& logits, const Tensor& classes, double label_smoothing,
                             std::int64_t members);

/// Whether the class has the largest logit, by the same rule as the meter's: never where a logit is
/// not a number, or that of the class not finite. (argmax alone takes what is not a number for the
/// largest, and the first of all that are none is class 0.)
/// @param logits   [B, K] floating point
/// @param classes  [B] int64, 0 <= class < K
/// @returns [B] bool
Tensor right_of(const Tensor& logits, const Tensor& classes);

/// accuracy, nll and, from five classes on, top5; in double precision. Equal logits count in order
/// of their index, so a model that answers nothing scores as one that always answers class 0. A
/// logit that is not a number is never right.
class ClassificationMeter final : public Meter {
 public:
  /// Reads the output "logits" [B, K] and the field "class" [B].
  void add(const NamedTensors& outputs, const Batch& batch) override;
  Metrics result() const override;

 private:
  std::int64_t count_ = 0, top1_ = 0, top5_ = 0, classes_ = 0;
  double nll_ = 0;
};

struct ClassificationOptions {
  double label_smoothing = 0.0;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("label_smoothing", label_smoothing, range(0, 1),
      "share of the target spread over all classes; below 1");
  }
};

/// What the classification tasks of all domains are: the loss and the metrics above, judged by
/// accuracy.
class ClassificationTask : public Task {
 public:
  /// @throws OptionError for a smoothing that leaves nothing of the labels; DataError for a dataset
  ///         without classes.
  ClassificationTask(const ClassificationOptions& options, const TaskSetup& setup);

  /// Reads the output "logits" [B, K] and the field "class" [B]. @throws ShapeError where K is not
  /// the dataset's number of classes.
  Tensor loss(const NamedTensors& outputs, const Batch& batch) const override;
  Tensor losses(const NamedTensors& outputs, const Batch& batch,
                std::int64_t members) const override;
  std::unique_ptr<Meter> meter() const override { return std::make_unique<ClassificationMeter>(); }
  std::vector<MetricInfo> metrics() const override;

 private:
  /// @throws ShapeError where the model gives another number of classes than the dataset has.
  const Tensor& checked(const Tensor& logits) const;

  double label_smoothing_;
  std::int64_t classes_;
};

}  // namespace attnlab
