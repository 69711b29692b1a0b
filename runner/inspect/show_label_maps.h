// A test picture with its label map and a model's answers, for the report.
#pragma once

#include "framework/base/json.h"
#include "runner/inspect/pixel_answers.h"

namespace attnlab {

/// What framework/report/label_pictures.h reads: picture, truth, answers and errors, each with 256
/// pixels at most on its longer side, the classes in them, and how many pixels are right. Pixels
/// are counted at the label map's own size.
/// @param answers  of this run
nlohmann::json picture_of_label_map(const BuiltRun& run, const PixelAnswers& answers,
                                    std::int64_t index);

}  // namespace attnlab
