// How the build goes through ccache.
#include <filesystem>

#include "framework/base/files.h"
#include "tests/integration/workspace.h"

namespace attnlab::testing::ccache_test {
namespace {

namespace fs = std::filesystem;

class Ccache : public ::testing::Test {
 protected:
  void SetUp() override {
    if (run({{"sh", "-c", "command -v ccache"}}).exit_code != 0) GTEST_SKIP() << "no ccache here";
    folder_.write("all.h", "#include \"value.h\"\n");
    folder_.write("all.cpp", "");
  }
  /// The precompiled header of `constexpr int kValue = value`, as CMake asks for it.
  void precompile(int value) {
    folder_.write("value.h", "constexpr int kValue = " + std::to_string(value) + ";\n");
    compile({ATTNLAB_TEST_SAMPLE "/../../scripts/through_ccache.sh", ATTNLAB_TEST_COMPILER,
             "-fpch-preprocess", "-x", "c++-header", "-include", folder_ / "all.h", "-o",
             "all.h.gch", "-c", folder_ / "all.cpp"});
  }
  void compile(const Words& words) {
    const Ended ended = run({words, folder_.path(), {{"CCACHE_DIR", folder_ / "cache"}}});
    ASSERT_EQ(ended.exit_code, 0) << ended.story();
  }

  TempFolder folder_;
};

TEST_F(Ccache, GivesNoPrecompiledHeaderOfOtherHeaders) {
  precompile(0);
  fs::copy_file(folder_ / "all.h.gch", folder_ / "kept.gch");
  precompile(1);
  // The same file as before stands there, as after `git switch`; the headers are others.
  fs::copy_file(folder_ / "kept.gch", folder_ / "all.h.gch", fs::copy_options::overwrite_existing);
  precompile(2);
  folder_.write("use.cpp", "static_assert(kValue == 2);\n");
  compile({ATTNLAB_TEST_COMPILER, "-include", folder_ / "all.h", "-c", "use.cpp"});
}

}  // namespace
}  // namespace attnlab::testing::ccache_test
