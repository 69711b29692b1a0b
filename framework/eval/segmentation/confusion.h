// Intersections over unions of pixels or points, from a confusion matrix.
//
//   IoU_c = TP / (TP + FP + FN),   acc_c = TP / (TP + FN)
//   miou, macc = their means over classes that occur among labels or answers (acc: among labels)
#pragma once

#include <string>
#include <vector>

#include "framework/contracts/task.h"

namespace attnlab {

/// The classes' names as words of metrics.
/// @param task  for messages
/// @throws DataError where there are none, or two would share a metric.
std::vector<std::string> class_words(const DatasetInfo& data, const std::string& task);

/// miou, macc, accuracy, and iou_NAME of each class.
std::vector<MetricInfo> segmentation_metric_infos(const std::vector<std::string>& names);

/// @param confusion  [K, K] int64: what is of class i (rows) and was called j; or [K, K + 1], the
///                   last column for what has no answer
/// @returns the metrics above; of a class that neither occurs nor is answered 0, which counts in
/// no mean.
/// @throws Error where nothing was counted.
Metrics segmentation_metrics(const Tensor& confusion, const std::vector<std::string>& names);

/// The class with the largest score, the first of equal ones; K where a score is not a number.
/// @param scores  K of them along `dim`
/// @returns int64, without that dimension.
Tensor answers_of(const Tensor& scores, std::int64_t dim);

/// Adds answers to a confusion matrix; exact in any order.
/// @param labels     int64 on the CPU, any shape; negative ones do not count
/// @param answers    the same shape, 0 to K
/// @param confusion  [K, K + 1] int64, changed
/// @param field      the labels' name, for messages
/// @throws DataError for a label that is not below K. Cost: a pass over both, on all cores.
void count_answers(const Tensor& labels, const Tensor& answers, const Tensor& confusion,
                   const std::string& field);

}  // namespace attnlab
