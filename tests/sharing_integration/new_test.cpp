// What `attnlab new` writes: builds, passes its own tests, packs and can be installed as it is,
// whatever it is called.
#include <filesystem>

#include "tests/sharing_integration/two_labs.h"

namespace attnlab::testing::new_test {
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

TEST_P(New, BuildsPassesItsTestsPacksAndIsInstalled) {
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
  must_run({ATTNLAB_TEST_CMAKE, "--build", "build"});
  // Its test of the equation and the conformance kit.
  const Ended tested = run({{"ctest", "--test-dir", "build", "--output-on-failure"},
                            lab_.home(),
                            {{"HOME", lab_.home()}, {"ATTNLAB_PLUGIN_PATH", ""}}});
  EXPECT_EQ(tested.exit_code, 0) << tested.story();
  EXPECT_THAT(tested.out, HasSubstr("0 tests failed out of 2"));
  const Ended packed = lab_.must(
      {"plugin", "pack", begun.name, "--unsigned", "--binary", "--no-kit", "--time-limit", "1800"});
  EXPECT_THAT(packed.out, HasSubstr(begun.name + "-0.1.0.attnlab"));
  // Installing runs the kit, confined.
  lab_.write(".config/attnlab/policy.yaml", "unsigned: allow\n");
  const Ended installed =
      lab_.must({"plugin", "install", begun.name + "-0.1.0.attnlab", "--time-limit", "1800"});
  EXPECT_THAT(installed.out, HasSubstr("installed " + begun.kind + " " + begun.lab + "/" +
                                       begun.name + " 0.1.0 (its binary, unsigned)"));
  EXPECT_THAT(lab_.must({"list", begun.kind}).out, HasSubstr(begun.name));
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

TEST_F(New, WritesToAFolderThatIsNamedWithSlashesAtItsEnd) {
  for (const char* out : {"one/", "two//", "three/.", "./above/../four/"}) {
    lab_.must({"new", "attention", "fine", "--out", out});
  }
  for (const char* folder : {"one", "two", "three", "four"}) {
    EXPECT_TRUE(fs::exists(lab_.at(folder) + "/fine.cpp")) << folder;
  }
  EXPECT_FALSE(fs::exists(lab_.at("above")));
}

TEST_F(New, RefusesAFolderThatIsThereOrHasNoName) {
  fs::create_directory(lab_.at("there"));
  for (const char* out : {"there", "there/", ".", "/"}) {
    const Ended ended = lab_.attnlab({"new", "attention", "fine", "--out", out});
    EXPECT_EQ(ended.exit_code, 2) << ended.story();
    EXPECT_THAT(ended.err, mentions("there already", "--out"));
  }
  const Ended unnamed = lab_.attnlab({"new", "attention", "fine", "--out", ""});
  EXPECT_EQ(unnamed.exit_code, 2) << unnamed.story();
  EXPECT_THAT(unnamed.err, mentions("--out: is empty", "--out DIR"));
}

}  // namespace
}  // namespace attnlab::testing::new_test
