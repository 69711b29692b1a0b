#include "framework/data/pictures/picture_files.h"

#include <filesystem>

#include "framework/base/error.h"
#include "framework/base/files.h"
#include "framework/data/formats/files.h"
#include "framework/data/pictures/image_file.h"

namespace attnlab {
namespace {

constexpr std::uint64_t kSmallData = std::uint64_t{1} << 30;

}  // namespace

PictureSet::Part PictureFiles::part(std::int64_t index, const Box& box, std::int64_t height,
                                    std::int64_t width) const {
  ImageFile file(path(index));
  const PictureNotes& known = notes(index);
  if (file.height() != known.height || file.width() != known.width) {
    throw DataError(path(index) + ": is " + std::to_string(file.width()) + " x " +
                    std::to_string(file.height()) + " pixels, its annotation says " +
                    std::to_string(known.width) + " x " + std::to_string(known.height));
  }
  ImageFile::Part read = file.read(box, height, width);
  return {std::move(read.pixels), read.box};
}

void picture_missing(const std::string& path) {
  throw DataMissingError(path + ": is not there, but is annotated");
}

std::uint64_t fingerprint_of(const std::vector<const PictureFiles*>& sets, std::uint64_t seed) {
  std::vector<std::string> paths;
  for (const PictureFiles* set : sets) {
    for (std::int64_t i = 0; i < set->size(); ++i) paths.push_back(set->path(i));
  }
  return fingerprint_of(paths, seed);
}

std::uint64_t fingerprint_of(const std::vector<std::string>& paths, std::uint64_t seed) {
  std::uint64_t hash = seed, bytes = 0;
  for (const std::string& path : paths) {
    std::error_code error;
    const std::uint64_t size = std::filesystem::file_size(path, error);
    if (error) picture_missing(path);
    bytes += size;
    const std::string name = std::filesystem::path(path).filename();
    hash = fingerprint(name + ":" + std::to_string(size) + ";", hash);
  }
  if (bytes >= kSmallData) return hash;
  for (const std::string& path : paths) hash = content_fingerprint(read_text(path), hash);
  return hash;
}

}  // namespace attnlab
