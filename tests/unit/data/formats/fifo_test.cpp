// Data files that are FIFOs are refused at once.
#include <sys/stat.h>

#include "framework/data/detection/coco_file.h"
#include "framework/data/formats/mapped_file.h"
#include "tests/support/compositions.h"
#include "tests/support/deadline.h"

namespace attnlab::fifo_test {
namespace {

using testing::mentions;
using testing::message_of;

TEST(FifosForData, AreRefused) {
  const testing::TempFolder folder;
  const testing::Deadline deadline;
  const std::string path = folder / "fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const auto refusal = mentions(path + ": ", "cannot read", "a pipe");
  EXPECT_THAT(message_of<FileError>([&] { MappedFile file(path); }), refusal);
  EXPECT_THAT(message_of<FileError>([&] { read_coco(path, {}); }), refusal);
}

}  // namespace
}  // namespace attnlab::fifo_test
