// Fuzzes the reader of CIFAR's records: training file before "%%", test file after it. Whatever the
// bytes, the answer is images with labels or an error that names the folder.
// Code: framework/data/image/cifar_files.cpp
#include "framework/data/image/cifar_files.h"
#include "tests/fuzz/files_in_memory.h"

namespace attnlab::fuzz {
namespace {

const MemoryFolder& folder() {
  static const MemoryFolder made;
  return made;
}

std::string record(char label) { return label + std::string(3072, 'p'); }

}  // namespace

Target target() {
  Target target;
  target.seeds = {record(1) + record(9) + "%%" + record(0),
                  record(3) + "%%" + record(4) + record(5),
                  record(10) + "%%" + record(0),
                  record(1).substr(1) + "%%" + record(0),
                  "%%",
                  "\x1f\x8b\x08%%" + record(0)};
  target.words = {"%%", record(2), record(2).substr(1), "\x1f\x8b\x08"};
  // A whole number of records again.
  target.repair = [](std::string& input) {
    auto [train, test] = halves(input);
    constexpr std::size_t kRecord = 3073;
    for (std::string* part : {&train, &test})
      part->resize((part->size() + 1536) / kRecord * kRecord);
    input = train + "%%" + test;
  };
  return target;
}

}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  const auto [train, test] = fuzz::halves({reinterpret_cast<const char*>(data), size});
  const fuzz::MemoryFolder& folder = fuzz::folder();
  folder.write("data_batch_1.bin", train);
  folder.write("test_batch.bin", test);
  CifarFiles files;
  files.batches = {1};
  files.partial = true;
  try {
    const ImageSet set = read_cifar(files, folder.path());
    if (set.train.bytes.size() != set.train.labels.size() * 3073) fuzz::fail("records are lost");
    for (const auto label : set.test.labels) {
      if (label >= 10) fuzz::fail("a wild label");
    }
    return 0;
  } catch (const DataError& error) {
    if (std::string(error.what()).rfind(folder.path(), 0) == 0) return -1;
    fuzz::fail(std::string("an error that does not name the file: ") + error.what());
  }
}
