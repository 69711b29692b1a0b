// Image files that cannot be decoded.
#pragma once

#include <string>
#include <vector>

#include "plugins/datasets/images/image_folder/class_folders.h"

namespace attnlab {

/// Decodes every file of a list, and takes out of it those that fail. @returns their names, as the
/// list had them.
std::vector<std::string> take_out_damaged(ImageList& list);

}  // namespace attnlab
