// Videos whose frames have masks of objects, in the layout of DAVIS.
//
//   ImageSets/SET.txt              of 2017 a video's name a line; of 2016 the paths of a frame and
//                                  of its mask, of which the video's name counts
//   JPEGImages/480p/VIDEO/*.jpg    the frames, in order of their names
//   Annotations/480p/VIDEO/*.png   their masks: numbers of objects, 0 for none and 255 for no
//                                  label; of 2016 255 is the only object
//
// Source: Perazzi et al., CVPR 2016; Pont-Tuset et al., The 2017 DAVIS Challenge, arXiv:1704.00675.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/data/pictures/labelled_files.h"
#include "framework/data/segmentation/label_map.h"

namespace attnlab {

struct Video {
  std::string name;
  std::int64_t begin = 0, frames = 0;  ///< among all frames of the set
};

struct VideoSet {
  std::vector<Video> videos;
  std::shared_ptr<const LabelledFiles> frames;  ///< one video's after the other's
  std::uint64_t fingerprint = 0;
};

/// @param root  the dataset's folder
/// @param set   "2017/val", or of 2016 "480p/val"
/// @throws DataMissingError for a video, a frame or a mask that is not there; DataError naming the
///         file: a video of fewer than three frames, without objects in its first one, or whose
///         frames differ in size; a damaged mask, one of another size than its frame, or one with
///         a number that is none of an object.
VideoSet read_videos(const std::string& root, const std::string& set);

}  // namespace attnlab
