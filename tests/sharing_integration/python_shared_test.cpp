// Python files through the program: packed, installed without a compiler, used by name, altered,
// removed; tried in a confined process; in results.
#include <filesystem>

#include "framework/base/files.h"
#include "framework/base/json.h"
#include "framework/manifest/python_plugin.h"
#include "framework/sharing/bundle.h"
#include "framework/sharing/confine.h"
#include "tests/sharing_integration/two_labs.h"
#include "tests/support/python.h"

namespace attnlab::testing::python_shared_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kExperiment = R"(schema: 1
name: small
model: {use: vit, patch_size: 7, dim: 16, depth: 1, heads: 2}
attention: {use: standard}
task: {use: image_classification}
dataset: {use: synthetic_images, train: 32, test: 16}
train: {epochs: 1, batch_size: 16, log_every: 1, threads: 1}
)";

class PythonShared : public OneInstallation {
 protected:
  void SetUp() override {
    if (!python_is_there() || !fs::exists(prefix() + "/lib/attnlab/attnlab_python.so")) {
      GTEST_SKIP() << "attnlab was built without Python";
    }
    lab_.write("small.yaml", kExperiment);
  }

  /// A bundle as `attnlab plugin pack` makes it, without what takes long.
  std::string bundle(const std::string& text, const std::string& name) const {
    const PythonFile& file = python_file({home_.write("source/" + name + ".py", text), ""});
    const Manifest& manifest = *file.candidate.manifest;
    sharing::Contents contents;
    contents.type = "plugin";
    contents.id = {"acme", name};
    contents.version = manifest.version;
    contents.kind = "attention";
    contents.summary = manifest.summary;
    contents.citation = manifest.citation;
    contents.licence = manifest.licence;
    return write_bundle(contents,
                        {{"manifest.json", packed_manifest(file, "acme"), false},
                         {"python/" + name + ".py", text, false}},
                        std::nullopt);
  }
  /// The one run below a folder of the lab.
  static std::string run_below(const std::string& folder) {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.path().filename() == "config.yaml") return entry.path().parent_path().string();
    }
    return folder + "/none";
  }
};

TEST_F(PythonShared, LiveAsPluginsUnderTheirNames) {
  const auto refusal = [&](const Words& words) {
    const Ended ended = lab_.attnlab(words);
    EXPECT_NE(ended.exit_code, 0) << ended.story();
    return ended.err;
  };
  lab_.write("mine.py",
             "import torch\nclass Mine(torch.nn.Module):\n"
             "    def forward(self, q, k, v):\n        return v\n");
  EXPECT_THAT(refusal({"plugin", "pack", "mine.py"}), HasSubstr("--lab is missing"));
  EXPECT_THAT(refusal({"plugin", "pack", "mine.py", "--lab", "acme"}),
              mentions("mine.py: ", "no version", "\"1.0.0\""));
  EXPECT_THAT(refusal({"plugin", "install", "mine.py"}), HasSubstr("attnlab plugin pack mine.py"));
  lab_.write("up.py", "scale = 1\n");
  lab_.write("far/mine.py", "from .. import up\n" + packable_attention());
  EXPECT_THAT(
      refusal({"plugin", "pack", "far/mine.py", "--lab", "acme"}),
      AllOf(HasSubstr("far/mine.py:1:1: imports "), HasSubstr("up.py, which lies outside")));
  lab_.write("mine.py", "from helpers import one\n" + packable_attention());
  lab_.write("helpers.py", "one = 1\n");
  const Ended packed = lab_.must({"plugin", "pack", "mine.py", "--lab", "acme", "--no-kit"});
  EXPECT_THAT(packed.out, HasSubstr("mine-1.0.0.attnlab"));
  EXPECT_THAT(packed.err, mentions("expected numbers: ", "made-up tensors"));
  for (const char* file : {"mine.py", "helpers.py"}) fs::remove(lab_.at(file));

  const LabMachine careful(prefix(), home_ / "careful");
  const Ended asked = careful.attnlab({"plugin", "install", lab_.at("mine-1.0.0.attnlab")});
  EXPECT_NE(asked.exit_code, 0);
  EXPECT_THAT(asked.err, mentions("with your rights", "policy does not let"));
  EXPECT_THAT(lab_.must({"plugin", "install", "mine-1.0.0.attnlab", "--no-kit"}).out,
              mentions("installed attention acme/mine 1.0.0", "Python, unsigned"));
  EXPECT_THAT(
      lab_.must({"describe", "mine"}).out,
      AllOf(HasSubstr("acme/mine 1.0.0"), HasSubstr("\n  temperature (float in [0.1, 10]")));
  lab_.must({"run", "small.yaml", "attention=mine", "attention.temperature=2"});
  const std::string run = run_below(lab_.at("runs"));
  EXPECT_THAT(file_text(run + "/config.yaml"), HasSubstr("use: mine\n  temperature: 2"));
  EXPECT_FALSE(fs::exists(run + "/python")) << "it is installed, as any plugin";
  const json lock = json::parse(file_text(run + "/lock.json"));
  bool locked = false;
  for (const json& part : lock.at("parts")) {
    locked = locked || (part.at("id") == "acme/mine" && part.contains("bundle"));
  }
  EXPECT_TRUE(locked) << lock.dump(1);
  EXPECT_THAT(lab_.must({"cite", "runs"}).out, HasSubstr("Somebody: Mine, 2026"));

  EXPECT_THAT(lab_.must({"plugin", "verify"}).out, HasSubstr("acme/mine 1.0.0: sound"));
  EXPECT_THAT(lab_.must({"plugin", "rebuild"}).out, HasSubstr("nothing to rebuild"));
  const std::string installed = fs::canonical(lab_.plugins() + "/attention/mine.py").string();
  write_file(fs::path(installed).replace_filename("helpers.py").string(), "one = 2\n");
  EXPECT_EQ(lab_.attnlab({"plugin", "verify"}).exit_code, 1);
  EXPECT_THAT(refusal({"run", "small.yaml", "attention=mine"}),
              mentions("altered since", "acme/mine 1.0.0", "attnlab plugin remove acme/mine"));
  lab_.must({"plugin", "remove", "mine"});
  EXPECT_THAT(refusal({"validate", "small.yaml", "attention=mine"}),
              HasSubstr("there is no attention 'mine'"));

  lab_.write("quest.attnlab", bundle(packable_attention(), "quest"));
  EXPECT_THAT(refusal({"plugin", "install", "quest.attnlab", "--no-kit"}),
              mentions("name 'quest'", "by attnlab/quest"));
}

TEST_F(PythonShared, AreTriedWithoutReachingTheUser) {
  const sharing::Walls walls = sharing::possible_walls();
  if (!walls.landlock && !walls.read_only) GTEST_SKIP() << "no wall stands around files here";
  const std::string marker = lab_.at("marker");
  lab_.write("mine.attnlab", bundle("open(\"" + marker + "\", \"w\").write(\"I was here\")\n" +
                                        packable_attention(),
                                    "mine"));
  const Ended ended =
      lab_.attnlab({"plugin", "install", "mine.attnlab", "--time-limit", "1800", "--jobs", "1"});
  EXPECT_NE(ended.exit_code, 0) << ended.story();
  EXPECT_THAT(ended.err, AllOf(HasSubstr("step 'kit' failed"), HasSubstr("mine.py:1:")));
  EXPECT_FALSE(fs::exists(marker));
  EXPECT_FALSE(fs::exists(lab_.plugins() + "/attention/mine.py"));
}

TEST_F(PythonShared, AreRepeatedWithTheResultThatKeepsThem) {
  lab_.write("mine.py", packable_attention());
  lab_.must({"run", "small.yaml", "attention={use: mine.py, options: {temperature: 2}}"});
  const Ended packed = lab_.must({"suite", "pack", "runs", "--lab", "acme", "--name", "small"});
  EXPECT_THAT(packed.err, Not(HasSubstr("python/mine")));
  const std::string result = lab_.at("small-1.0.0.attnlab");
  const LabMachine careful(prefix(), home_ / "careful");
  EXPECT_THAT(careful.attnlab({"reproduce", result}).err, HasSubstr("policy does not let"));
  const LabMachine other(prefix(), home_ / "other");
  const Ended repeated = other.must({"reproduce", result, "--yes", "--no-kit"});
  EXPECT_THAT(repeated.out, AllOf(HasSubstr("identical"), Not(HasSubstr("not installed"))));
}

}  // namespace
}  // namespace attnlab::testing::python_shared_test
