// A detector's answers about one test example, for the report.
#pragma once

#include "framework/base/json.h"
#include "framework/train/run.h"

namespace attnlab {

/// What framework/report/box_pictures.h reads: picture, prompt, true boxes, the answers above half
/// of the best score (ten at most), and where the best one's query looked. Sizes are those that the
/// model sees.
nlohmann::json picture_of_boxes(const BuiltRun& run, std::int64_t index);

}  // namespace attnlab
