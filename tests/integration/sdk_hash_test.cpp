// The hashes that CMake takes of sources: plugins and runs of other sources are told apart by them.
#include "framework/base/files.h"
#include "tests/integration/workspace.h"

namespace attnlab::testing::sdk_hash_test {
namespace {

/// A tree with one public header, one kernel and one file that computes nothing.
class SdkHash : public ::testing::Test {
 protected:
  SdkHash() {
    folder_.write("CMakeLists.txt",
                  "cmake_minimum_required(VERSION 3.25)\nproject(made LANGUAGES NONE)\n"
                  "include(" ATTNLAB_TEST_SAMPLE "/../../framework/cmake/AttnlabSdk.cmake)\n");
    folder_.write("framework/public_headers.txt", "# what plugins include\nframework/eval/*.h\n");
    folder_.write("framework/eval/loss.h", "struct Loss { virtual double of(double); };\n");
    folder_.write("framework/nn/kernel.cpp", "double twice(double x) { return 2 * x; }\n");
    folder_.write("framework/base/random.cpp", "");
    folder_.write("framework/base/random.h", "");
    folder_.write("framework/base/vector_clones.h", "");
    folder_.write("framework/report/page.cpp", "");
    configure();
  }
  void configure() {
    const Ended ended = run({{ATTNLAB_TEST_CMAKE, "-S", folder_.path(), "-B", folder_ / "build"}});
    ASSERT_EQ(ended.exit_code, 0) << ended.story();
    sdk_before_ = sdk_;
    revision_before_ = revision_;
    sdk_ = read_text(folder_ / "build/sdk_hash.cpp");
    revision_ = read_text(folder_ / "build/include/framework/base/revision_hash.h");
  }
  void change(const std::string& file, const std::string& text) {
    folder_.write(file, text);
    configure();
  }

  TempFolder folder_;
  std::string sdk_, revision_, sdk_before_, revision_before_;
};

TEST_F(SdkHash, ChangesWithAVirtualFunctionOfAPublicHeader) {
  change("framework/eval/loss.h",
         "struct Loss { virtual double of(double); virtual double weight(); };\n");
  EXPECT_NE(sdk_, sdk_before_);
}

TEST_F(SdkHash, OfAllThatComputesChangesWithAKernelAlone) {
  change("framework/nn/kernel.cpp", "double twice(double x) { return x + x; }\n");
  EXPECT_EQ(sdk_, sdk_before_);
  EXPECT_NE(revision_, revision_before_);
  change("framework/nn/more.cpp", "double thrice(double x) { return 3 * x; }\n");
  EXPECT_NE(revision_, revision_before_);
}

TEST_F(SdkHash, StaysWhereNothingThatComputesChanges) {
  change("framework/report/page.cpp", "int page() { return 1; }\n");
  EXPECT_EQ(sdk_, sdk_before_);
  EXPECT_EQ(revision_, revision_before_);
}

}  // namespace
}  // namespace attnlab::testing::sdk_hash_test
