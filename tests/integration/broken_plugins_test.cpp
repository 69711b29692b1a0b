// Broken plugins through the program: each is shown with its reason, the good ones work on.
#include <filesystem>

#include "framework/base/files.h"
#include "framework/manifest/manifest_writer.h"
#include "tests/integration/workspace.h"

namespace attnlab::testing::broken_plugins_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class BrokenPlugins : public Workspace {
 protected:
  /// Beside those of the build: a file that is not a library, one cut short, one of another host.
  void SetUp() override {
    const std::string sound = file_text(build_tree() + "/lib/attnlab/plugins/attention/quest.so");
    folder_.write("strange/text.so", "hello\n");
    folder_.write("strange/half.so", sound.substr(0, sound.size() / 2));
    std::string foreign = sound;
    const std::string contract = "\"contract\":" + std::to_string(kContractVersion);
    foreign.replace(foreign.find(contract), contract.size(), "\"contract\":7");
    folder_.write("strange/attention/quest.so", foreign);
  }
  Environment environment() const {
    return {{"ATTNLAB_PLUGIN_PATH", broken_plugins() + "::" + at("strange")}};
  }
  std::string strange(const std::string& name) const {
    return fs::canonical(at("strange")).string() + "/" + name;
  }
};

TEST_F(BrokenPlugins, AreExplainedByList) {
  const Ended ended = must({"list", "--explain"}, environment());
  const auto refused = [](const std::string& path, const std::string& reason) {
    return HasSubstr("    refused  " + path + ": " + reason);
  };
  const std::string remedy = "; rebuild it with attnlab_add_plugin(), or remove the file\n";
  EXPECT_THAT(ended.out,
              AllOf(refused(broken_plugins() + "/no_manifest.so",
                            "has no section .attnlab.manifest" + remedy),
                    refused(broken_plugins() + "/manifest_is_no_json.so", "invalid manifest: "),
                    refused(broken_plugins() + "/manifest_lacks_fields.so", "invalid manifest: "),
                    refused(strange("text.so"), "is not an ELF file" + remedy),
                    refused(strange("half.so"), "is cut short: "),
                    refused(strange("attention/quest.so"),
                            "was built for another host: contract: expected " +
                                std::to_string(kContractVersion) +
                                ", found 7; "
                                "rebuild it: cmake -S SOURCE -B BUILD -DCMAKE_PREFIX_PATH=" +
                                build_tree() + " && cmake --build BUILD\n")));
  EXPECT_THAT(ended.out, HasSubstr("  " + broken_plugins() + " (ATTNLAB_PLUGIN_PATH)\n"));
  EXPECT_THAT(ended.out, HasSubstr("/plugins (project): no such folder\n"));
  EXPECT_THAT(ended.out,
              HasSubstr("    taken    " + build_tree() +
                        "/lib/attnlab/plugins/attention/standard.so (attnlab/standard "));
  EXPECT_THAT(ended.out, HasSubstr("  quest "));
}

TEST_F(BrokenPlugins, AreListedForProgramsAndOnStandardError) {
  const json listed = json::parse(must({"list", "--json"}, environment()).out);
  EXPECT_EQ(listed.at("refused").size(), 6U);
  const Ended plain = must({"list"}, environment());
  EXPECT_THAT(plain.err, HasSubstr("refused: " + strange("text.so") + ": is not an ELF file"));
  EXPECT_THAT(plain.out, HasSubstr("standard"));
}

TEST_F(BrokenPlugins, DoNotDisturbARunThatDoesNotNameThem) {
  EXPECT_EQ(must({"run", "tiny.yaml", "train.epochs=1", "attention=quest"}, environment()).err, "");
  EXPECT_EQ(status_of(run_folder("tiny/quest")).at("state"), "done");
}

TEST_F(BrokenPlugins, EndARunThatNamesThemBeforeItBegins) {
  const Environment env = environment();
  for (const auto& [name, reason] : std::map<std::string, std::string>{
           {"entry_throws", "its entry threw an exception: no licence server"},
           {"changes_default_dtype", "changes LibTorch's default dtype of the whole process"},
           {"unresolved_symbol", "cannot be loaded: undefined symbol: attnlab_test_nowhere"}}) {
    must({"validate", "tiny.yaml", "attention=" + name}, env);
    EXPECT_THAT(refusal({"run", "tiny.yaml", "attention=" + name}, env),
                HasSubstr(broken_plugins() + "/" + name + ".so: " + reason));
    EXPECT_FALSE(exists("runs"));
  }
}

TEST_F(BrokenPlugins, ThatThrowNumbersDoNotAbortTheProgram) {
  const Ended built =
      attnlab({"run", "tiny.yaml", "attention=factory_throws_number"}, environment());
  EXPECT_EQ(built.exit_code, 2) << built.story();
  EXPECT_THAT(built.err, HasSubstr(broken_plugins() +
                                   "/factory_throws_number.so: attention "
                                   "'factory_throws_number': cannot be built: it threw something "
                                   "that is not a std::exception"));
  const Ended run =
      attnlab({"run", "tiny.yaml", "attention=throws_number_in_forward"}, environment());
  EXPECT_EQ(run.exit_code, 1) << run.story();
  const std::string folder = run_folder("tiny/throws_number_in_forward");
  const std::string thrown = "something that is not a std::exception was thrown";
  EXPECT_THAT(run.err, HasSubstr(": the run failed: " + thrown + "\n"));
  EXPECT_EQ(status_of(folder).at("state"), "failed");
  EXPECT_EQ(status_of(folder).at("reason"), thrown);
}

TEST_F(BrokenPlugins, AreNamedWhenAnExperimentAsksForThem) {
  const Ended ended = attnlab({"validate", "tiny.yaml", "attention=no_manifest"}, environment());
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_EQ(ended.err, "argument 'attention=no_manifest': attention: " + broken_plugins() +
                           "/no_manifest.so: has no section .attnlab.manifest; rebuild it with "
                           "attnlab_add_plugin(), or remove the file\n");
}

TEST_F(BrokenPlugins, OfOneNameAreBothRefused) {
  const std::string quest = build_tree() + "/lib/attnlab/plugins/attention/quest.so";
  folder_.write("plugins/mine.so", file_text(quest));
  const std::string mine = fs::canonical(folder_.path()).string() + "/plugins/mine.so";
  EXPECT_THAT(refusal({"validate", "tiny.yaml", "attention=quest"}),
              HasSubstr("attention 'quest' is provided by more than one file: " + mine + " and " +
                        quest + "; remove or rename one of them"));
  EXPECT_THAT(must({"list", "attention"}).out,
              AllOf(HasSubstr("\n  standard "), Not(HasSubstr("\n  quest "))));
}

}  // namespace
}  // namespace attnlab::testing::broken_plugins_test
