// A classifier's answers about test images, as they are and changed, for the report.
#pragma once

#include <vector>

#include "framework/base/json.h"
#include "framework/train/overlay.h"

namespace attnlab {

/// What is drawn beside what evaluations make of an image.
struct MapRequest {
  /// Also a map by AG-CAM of what each of these would rest on.
  std::vector<std::int64_t> classes;
  /// Left, top, width and height in pixels of a part that becomes noise: a version `region`, with
  /// its maps. Empty: none. Its pixels become any colour, equally likely, the same for all runs.
  std::vector<std::int64_t> region;
};

/// What framework/report/image_pictures.h reads, one for each image: what the model says of it,
/// where it looked, and what it says of the versions that evaluations make of it. Each entry makes
/// one: the last that the model saw, which attacks and occlusions judge by; of `image_corruptions`
/// each corruption, at its highest severity. What an entry draws is what it draws in `attnlab
/// eval`.
///
/// Where the model looked is AG-CAM's map; attention rollout's where the attention has no logits;
/// none where layers see no one grid of patches.
///
/// Entries that change no image (`image_explanation`), are of another split or of other images, or
/// fail are left out, with a warning on standard error where that is not plain.
/// @param run      with the weights of the folder; in evaluation mode afterwards
/// @param indices  of the test split
/// @param maps     asked for beside these
/// @throws ConfigError for a class that the dataset has not, a region that is not within the image,
///         and where AG-CAM cannot be of a class that is asked for; Interrupted.
nlohmann::json pictures_of_images(BuiltRun& run, const RunFolder& folder,
                                  const std::vector<std::int64_t>& indices,
                                  const std::vector<EvaluationEntry>& entries,
                                  const MapRequest& maps, Registry& registry);

}  // namespace attnlab
