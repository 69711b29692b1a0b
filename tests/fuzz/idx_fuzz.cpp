// Fuzzes the reader of IDX files, plain and gzipped: images before "%%", their labels after it.
// Whatever the bytes, the answer is images with labels or an error that names the folder; no more
// memory is taken than the driver allows, whatever a header or a gzip stream promises.
// Code: framework/data/image/idx_files.cpp framework/data/formats/files.cpp
#include "framework/data/image/idx_files.h"
#include "tests/fuzz/files_in_memory.h"

namespace attnlab::fuzz {
namespace {

std::string idx(const std::vector<std::uint32_t>& sizes, const std::string& bytes) {
  std::string out;
  const auto append = [&](std::uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
  };
  append(0x800 + static_cast<std::uint32_t>(sizes.size()));
  for (const std::uint32_t size : sizes) append(size);
  return out + bytes;
}

const MemoryFolder& folder() {
  static const MemoryFolder made;
  return made;
}

/// `printf 'aaaabbbb' | gzip`, behind an IDX header of two images of 2 x 2: 24 bytes in all.
const std::string kPacked(
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x63\x60\xe0\x64\x66\x60\x60\x60\x62\x80\x10\x89\x89"
    "\x89\x49\x49\x49\x49\x00\x00\x00\x00\x00\x18\x00\x00\x00",
    37);

}  // namespace

Target target() {
  Target target;
  target.seeds = {idx({2, 2, 2}, "abcdefgh") + "%%" + idx({2}, std::string("\1\2", 2)),
                  idx({1, 2, 3}, "abcdef") + "%%" + idx({1}, std::string("\0", 1)),
                  idx({2, 2, 2}, "abcdefgh") + "%%" + idx({3}, "\1\2\3"),
                  idx({0, 2, 2}, "") + "%%" + idx({0}, ""),
                  idx({65536, 65536, 65536}, "") + "%%" + idx({2}, "\1\2"),
                  kPacked + "%%" + idx({2}, "\1\2"),
                  ""};
  target.words = {"%%",
                  std::string("\0\0\x8\3", 4),
                  std::string("\0\0\x8\1", 4),
                  std::string("\0\0\0\2", 4),
                  "\xff\xff\xff\xff",
                  "\x1f\x8b",
                  kPacked};
  return target;
}

}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  const auto [images, labels] = fuzz::halves({reinterpret_cast<const char*>(data), size});
  const fuzz::MemoryFolder& folder = fuzz::folder();
  folder.write("train-images-idx3-ubyte", images);
  folder.write("train-labels-idx1-ubyte", labels);
  folder.write("t10k-images-idx3-ubyte", images);
  folder.write("t10k-labels-idx1-ubyte", labels);
  try {
    const ImageSet set = read_idx_images("mnist", 10, folder.path());
    const std::size_t count = set.train.labels.size();
    if (set.train.stride != std::size_t(set.shape.height) * std::size_t(set.shape.width) ||
        set.train.bytes.size() != set.train.begin + count * set.train.stride) {
      fuzz::fail("images do not fit their sizes");
    }
    for (const auto label : set.train.labels) {
      if (label >= 10) fuzz::fail("a wild label");
    }
    return 0;
  } catch (const DataError& error) {
    if (std::string(error.what()).rfind(folder.path(), 0) == 0) return -1;
    fuzz::fail(std::string("an error that does not name the file: ") + error.what());
  }
}
