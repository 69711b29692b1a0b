#include "framework/base/printable_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <thread>
#include <vector>

namespace attnlab::printable_stream_test {
namespace {

TEST(PrintableStream, EscapesWhatIsWrittenAndEndsWithItself) {
  std::ostringstream out;
  const std::ostream& stream = out;  // a string stream's own rdbuf() is always its string
  std::streambuf* const before = stream.rdbuf();
  {
    const PrintableStream clean(out);
    out << "a\tb\x1b[2J" << 7 << '\r' << "!\r"
        << "\r\n"
        << "a,b\r" << std::flush << "\n"
        << "\xc2\x9b\xe2\x80\xae";
    out.put('\a');
  }
  EXPECT_EQ(stream.rdbuf(), before);
  out << "\x1b";
  EXPECT_EQ(out.str(), "a\tb\\x1b[2J7\\x0d!\\x0d\r\na,b\r\n\\u009b\\u202e\\x07\x1b");
}

TEST(PrintableStream, PutsCharactersTogetherThatComeInParts) {
  std::ostringstream out;
  {
    const PrintableStream clean(out);
    for (const char byte : std::string("gr\xc3\xb6\xe2\x82\xac\xf0\x9f\x98\x80\xff!")) {
      out << byte << std::flush;
    }
    EXPECT_EQ(out.str(), "gr\xc3\xb6\xe2\x82\xac\xf0\x9f\x98\x80\\xff!");
    out << "\xe2\x82";
    EXPECT_THAT(out.str(), ::testing::EndsWith("!")) << "its rest may come";
  }
  EXPECT_THAT(out.str(), ::testing::EndsWith("!\\xe2\\x82")) << "it did not";
}

/// Takes nothing, as a full disk.
class FullBuffer final : public std::streambuf {
  std::streamsize xsputn(const char*, std::streamsize) override { return 0; }
  int_type overflow(int_type) override { return traits_type::eof(); }
};

TEST(PrintableStream, TellsOfWhatCannotBeWritten) {
  FullBuffer full;
  std::ostream out(&full);
  {
    const PrintableStream clean(out);
    EXPECT_TRUE(out.good());
    out << "lost";
    EXPECT_FALSE(out.good());
  }
  EXPECT_FALSE(out.good()) << "the program asks at its end";
}

TEST(PrintableStream, TakesWordsOfSeveralThreads) {
  std::ostringstream out;
  {
    const PrintableStream clean(out);
    const std::ostream& stream = out;
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int word = 0; word < 1000; ++word) stream.rdbuf()->sputn("word\n", 5);
      });
    }
  }
  EXPECT_EQ(out.str().size(), 4U * 1000 * 5);
}

}  // namespace
}  // namespace attnlab::printable_stream_test
