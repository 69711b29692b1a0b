// Fuzzes the reader of torch.save's files: values that can be asked for all that they have, or a
// DataError that names the file.
// Code: framework/data/formats/torch_file.cpp framework/data/formats/zip.cpp
// Code: framework/data/formats/pickle_operations.cpp framework/data/formats/pickle_arrays.cpp
#include "framework/data/formats/torch_file.h"

#include <cstring>

#include "tests/fuzz/pickle_walk.h"
#include "tests/support/data_files.h"
#include "tests/support/pickles.h"

namespace attnlab::fuzz {
namespace {

namespace pickles = testing::pickles;

std::string zip_of(const std::string& value, bool deflated = false) {
  return testing::zip_file({{"a/data.pkl", pickles::file(value)},
                            {"a/data/0", pickles::raw(1.0F) + pickles::raw(2.0F)},
                            {"a/data/1", pickles::raw(std::int64_t{7})}},
                           deflated);
}

std::uint32_t number_at(const std::string& bytes, std::size_t at) {
  std::uint32_t number;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

/// Gives members of the first directory the checksums of what they hold now.
void repair_sums(std::string& zip) {
  for (std::size_t at = zip.find("PK\x01\x02"); at != std::string::npos && at + 46 <= zip.size();
       at = zip.find("PK\x01\x02", at + 46)) {
    const std::uint64_t header = number_at(zip, at + 42), size = number_at(zip, at + 20);
    if (header + 30 > zip.size()) continue;
    const std::uint32_t lengths = number_at(zip, header + 26);
    const std::uint64_t begin = header + 30 + (lengths & 0xffff) + (lengths >> 16);
    if (begin > zip.size() || zip.size() - begin < size) continue;
    const auto sum = static_cast<std::uint32_t>(
        crc32_z(0, reinterpret_cast<const Bytef*>(zip.data() + begin), size));
    std::memcpy(zip.data() + at + 16, &sum, sizeof sum);
  }
}

}  // namespace

Target target() {
  Target target;
  const std::string floats = pickles::stored("0", "Float", {2, 1});
  const std::string longs = pickles::stored("1", "Long", {1});
  target.seeds = {zip_of(pickles::list({pickles::map({{pickles::text("x"), floats}}), longs, "N"})),
                  zip_of("ctorch.jit._pickle\nrestore_type_tag\n(](" + floats + "e" +
                         pickles::text("List[Tensor]") + "tR"),
                  zip_of(pickles::stored("0", "Bool", {8})), zip_of(longs, true), ""};
  target.words = {"PK\x01\x02",
                  "PK\x05\x06",
                  "PK\x06\x06",
                  "PK\x06\x07",
                  "\xff\xff",
                  "\xff\xff\xff\xff",
                  "a/data/0",
                  "a/data.pkl",
                  floats,
                  longs,
                  "ctorch\nBoolStorage\n",
                  "q\x01h\x01",
                  "Q",
                  "\x85\x85\x85\x85"};
  target.repair = repair_sums;
  return target;
}

}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  const std::string path = "a.pt";
  try {
    const TorchFile file({reinterpret_cast<const char*>(data), size}, path);
    fuzz::Walk().visit(file.root());
    return 0;
  } catch (const DataError& error) {
    fuzz::check_names(path, error);
    return -1;
  }
}
