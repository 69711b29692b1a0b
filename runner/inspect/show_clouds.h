// A model's answers about one test cloud, for the report.
#pragma once

#include "framework/base/json.h"
#include "framework/train/run.h"

namespace attnlab {

/// What framework/report/cloud_pictures.h reads: 20,000 points of the cloud at most, with label and
/// answer each (of clouds with one class: in words), and the chosen point's attention over its
/// patch in the last layer.
/// @param point  whose attention, of all points of the cloud; -1: the one nearest to their mean
/// @throws ConfigError for a point that the cloud does not have; DataError for classes that a byte
///         does not tell apart.
nlohmann::json picture_of_cloud(const BuiltRun& run, std::int64_t index, std::int64_t point);

}  // namespace attnlab
