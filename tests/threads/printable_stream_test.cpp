#include "framework/base/printable_stream.h"

#include <gmock/gmock.h>

#include <iostream>
#include <map>
#include <sstream>
#include <thread>

namespace attnlab::printable_stream_test {
namespace {

TEST(PrintableStream, TakesWholeTextsOfSeveralThreads) {
  constexpr int kLines = 500;
  const std::string texts[] = {"first \x1b[31m line\n", "second line, \u00e9\n", "third\n"};
  ::testing::internal::CaptureStdout();
  {
    const PrintableStream printable(std::cout);
    std::vector<std::jthread> threads;
    for (const std::string& text : texts) {
      threads.emplace_back([&text] {
        for (int i = 0; i < kLines; ++i) std::cout << text;
      });
    }
  }
  std::istringstream printed(::testing::internal::GetCapturedStdout());
  std::map<std::string, int> found;
  for (std::string line; std::getline(printed, line);) ++found[line];
  EXPECT_EQ(found, (std::map<std::string, int>{{"first \\x1b[31m line", kLines},
                                               {"second line, \u00e9", kLines},
                                               {"third", kLines}}));
}

}  // namespace
}  // namespace attnlab::printable_stream_test
