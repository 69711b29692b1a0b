// Clouds that `attnlab show` kept beside a run (clouds.json): points with labels and answers, and
// how one point's attention lies over the others. Pages and papers show still pictures of them
// (cloud_still.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "framework/report/cloud_still.h"
#include "framework/report/kept_pictures.h"

namespace attnlab {

/// One test cloud as one model sees it.
struct CloudPicture {
  PictureOrigin origin;
  std::int64_t index = 0;   ///< in the test split
  std::int64_t points = 0;  ///< of the whole cloud; `cloud` holds those that are shown
  std::int64_t point = 0;   ///< the chosen one, among all
  std::int64_t patch = 0;   ///< tokens that it attends to; 0: no attention is known
  std::string answer;       ///< of all points, or of the cloud; may be empty
  DrawnCloud cloud;
};

/// Of the first seed of each experiment and attention that has any.
/// @param notes  gets a note for a file that cannot be read
std::vector<CloudPicture> cloud_pictures_of(const std::vector<RunRecord>& runs,
                                            std::vector<std::string>& notes);

/// A heading, captions and still pictures of each cloud.
std::string cloud_pictures_html(const std::vector<CloudPicture>& pictures);

/// A still picture for a paper.
struct CloudFile {
  std::string name;  ///< letters, digits and -_. alone: "EXPERIMENT-cloud0-ATTENTION-error.svg"
  std::string svg;
};
/// Every colouring of every cloud; what all attentions share once.
std::vector<CloudFile> cloud_files(const std::vector<CloudPicture>& pictures,
                                   const StillOptions& options);

}  // namespace attnlab
