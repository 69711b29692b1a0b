// What looks like a file and is none: nothing that reads or writes lines waits for it.
#include "framework/base/regular_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "framework/base/error_text.h"
#include "framework/base/file_lock.h"
#include "framework/base/files.h"
#include "tests/support/compositions.h"
#include "tests/support/deadline.h"

namespace attnlab::regular_file_test {
namespace {

using namespace testing;

class Fifo : public ::testing::Test {
 protected:
  Fifo() { EXPECT_EQ(::mkfifo(path_.c_str(), 0600), 0); }
  const TempFolder folder_;
  const std::string path_ = folder_ / "fifo";
  const Deadline deadline_;
};

TEST_F(Fifo, IsRefusedWhereAFileIsOpened) {
  const auto refusal = mentions(path_ + ": ", "cannot read", "a pipe", "into a file");
  EXPECT_THAT(message_of<FileError>([&] { open_regular(path_); }), refusal);
  EXPECT_THAT(message_of<FileError>([&] { open_regular_stream(path_); }), refusal);
  EXPECT_THAT(message_of<FileError>([&] { read_text(path_); }), refusal);
  EXPECT_THAT(message_of<FileError>([&] { open_regular(folder_.path()); }),
              HasSubstr("is a folder"));
}

TEST_F(Fifo, HasNoLastLines) { EXPECT_THAT(last_lines(path_, 3), IsEmpty()); }

TEST_F(Fifo, TakesNoLines) {
  EXPECT_THAT(message_of<FileError>([&] { LineWriter lines(path_); }),
              StartsWith(path_ + ": cannot write: "));
}

TEST_F(Fifo, IsNoLockThatAnybodyWaitsFor) { EXPECT_FALSE(is_locked(path_).value_or(false)); }

TEST(RegularFile, IsReadAsAStream) {
  const TempFolder folder;
  const InputStream stream = open_regular_stream(folder.write("a", "xy"));
  EXPECT_EQ(std::fgetc(stream.get()), 'x');
}

TEST(RegularFile, IsNotTheOneWhoseNameEndsAtAZeroByte) {
  const TempFolder folder;
  const std::string path = folder.write("a", "xy");
  EXPECT_THAT(message_of<FileError>([&] { read_text(path + std::string("\0.txt", 5)); }),
              HasSubstr("zero byte"));
}

TEST(ErrorText, SaysWhatToLookAtWhereMemoryRanOut) {
  EXPECT_THAT(text_of(std::bad_alloc()), HasSubstr("sizes of model and data"));
  EXPECT_THAT(text_of(std::length_error("vector")), HasSubstr("look at the sizes"));
  EXPECT_EQ(text_of(std::runtime_error("other")), "other");
}

}  // namespace
}  // namespace attnlab::regular_file_test
