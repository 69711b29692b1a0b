#include "plugins/datasets/images/image_folder/damaged_files.h"

#include <tbb/parallel_for.h>

#include "framework/base/error.h"
#include "framework/data/pictures/image_file.h"

namespace attnlab {
namespace {

bool is_damaged(const std::string& path) {
  try {
    ImageFile file(path);
    file.read({0, 0, file.height(), file.width()});
    return false;
  } catch (const Error&) {
    return true;
  }
}

}  // namespace

std::vector<std::string> take_out_damaged(ImageList& list) {
  std::vector<char> damaged(list.files.size());  // not bool: threads write neighbours
  tbb::parallel_for(std::size_t{0}, damaged.size(),
                    [&](std::size_t i) { damaged[i] = is_damaged(list.path(i)) ? 1 : 0; });
  ImageList sound{list.folder, {}, {}, list.bytes};
  std::vector<std::string> names;
  for (std::size_t i = 0; i < damaged.size(); ++i) {
    if (damaged[i] != 0) {
      names.push_back(list.files[i]);
      continue;
    }
    sound.files.push_back(list.files[i]);
    sound.labels.push_back(list.labels[i]);
  }
  list = std::move(sound);
  return names;
}

}  // namespace attnlab
