// What `attnlab new` writes: builds, passes its own test and packs as it is, whatever it is called.
// (two_labs_test.cpp packs and installs an attention.)
#include <filesystem>

#include "tests/sharing_integration/two_labs.h"

namespace attnlab::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

struct Begun {
  std::string kind, name, lab;
};

class New : public ::testing::TestWithParam<Begun> {
 protected:
  static void SetUpTestSuite() {
    prefix_ = new TempFolder();
    const Ended ended =
        run({{ATTNLAB_TEST_CMAKE, "--install", build_tree(), "--prefix", prefix_->path()}});
    ASSERT_EQ(ended.exit_code, 0) << ended.story();
  }
  static void TearDownTestSuite() {
    delete prefix_;
    prefix_ = nullptr;
  }
  void must_run(const Words& words) const {
    const Ended ended = run({words, lab_.home()});
    ASSERT_EQ(ended.exit_code, 0) << ended.story();
  }

  inline static TempFolder* prefix_ = nullptr;
  TempFolder home_;
  LabMachine lab_{prefix_->path(), home_ / "home"};
};

TEST_P(New, BuildsPassesItsTestAndPacks) {
  const Begun& begun = GetParam();
  lab_.must({"new", begun.kind, begun.name, "--lab", begun.lab});
  Words configure = {ATTNLAB_TEST_CMAKE,
                     "-S",
                     begun.name,
                     "-B",
                     "build",
                     "-DCMAKE_PREFIX_PATH=" + prefix_->path()};
  if (const std::string torch = ATTNLAB_TEST_LIBTORCH; !torch.empty()) {
    configure.push_back("-DLibTorch_ROOT=" + torch);
  }
  must_run(configure);
  must_run({ATTNLAB_TEST_CMAKE, "--build", "build", "--target", begun.name + "_test"});
  must_run({lab_.at("build/" + begun.name + "_test")});
  // Packing builds the plugin and runs the conformance kit.
  const Ended packed =
      lab_.must({"plugin", "pack", begun.name, "--unsigned", "--time-limit", "1800"});
  EXPECT_THAT(packed.out, HasSubstr(begun.name + "-0.1.0.attnlab"));
}

// Names that mean something to C++, or that attnlab has itself.
INSTANTIATE_TEST_SUITE_P(Kinds, New,
                         ::testing::Values(Begun{"attention", "dot_product", "class"},
                                           Begun{"model", "model", "std"},
                                           Begun{"task", "task", "int"},
                                           Begun{"dataset", "class", "at"}),
                         [](const auto& one) { return one.param.kind; });

TEST_F(New, RefusesNamesThatCannotBe) {
  for (const char* name : {"null", "Big", "softmax; rm", "standard", "1st"}) {
    const Ended ended = lab_.attnlab({"new", "attention", name});
    EXPECT_NE(ended.exit_code, 0) << name;
    EXPECT_FALSE(fs::exists(lab_.at(name))) << name;
  }
  EXPECT_NE(lab_.attnlab({"new", "attention", "fine", "--lab", "attnlab"}).exit_code, 0);
}

}  // namespace
}  // namespace attnlab::testing
