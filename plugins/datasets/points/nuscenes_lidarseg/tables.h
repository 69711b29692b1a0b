// nuScenes' tables: which scan has which labels, and to which scene it belongs.
#pragma once

#include <string>
#include <vector>

namespace attnlab {

struct LabelledScan {
  std::string scan, labels;  ///< files, below the data's folder
  int scene = 0;             ///< 61 of "scene-0061"
};

/// Scans with labels, in order of their files.
/// @param folder   of the data
/// @param version  of the tables: "v1.0-trainval", "v1.0-mini"
/// @throws FileError; DataError for tables that are damaged or do not belong together.
std::vector<LabelledScan> labelled_scans(const std::string& folder, const std::string& version);

/// Whether a scene is of the official validation split: one of 150, of v1.0-mini one of 2.
bool is_validation_scene(int scene, const std::string& version);

}  // namespace attnlab
