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
  // What the line says that refuses the file.
  const auto refused = [&](const std::string& path) {
    const std::string before = "    refused  " + path + ": ";
    const std::size_t place = ended.out.find(before);
    EXPECT_NE(place, std::string::npos) << path;
    if (place == std::string::npos) return std::string();
    const std::size_t begin = place + before.size();
    return ended.out.substr(begin, ended.out.find('\n', begin) - begin);
  };
  EXPECT_THAT(refused(broken_plugins() + "/no_manifest.so"),
              mentions(".attnlab.manifest", "attnlab_add_plugin()", "remove the file"));
  for (const char* file : {"/manifest_is_no_json.so", "/manifest_lacks_fields.so"}) {
    EXPECT_THAT(refused(broken_plugins() + file), HasSubstr("invalid manifest: "));
  }
  EXPECT_THAT(refused(strange("text.so")),
              mentions("not an ELF file", "attnlab_add_plugin()", "remove the file"));
  EXPECT_THAT(refused(strange("half.so")), HasSubstr("cut short"));
  EXPECT_THAT(refused(strange("attention/quest.so")),
              mentions("contract: expected " + std::to_string(kContractVersion), "found 7",
                       "cmake -S SOURCE -B BUILD -DCMAKE_PREFIX_PATH=" + build_tree(),
                       "cmake --build BUILD"));
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
  EXPECT_THAT(plain.err, mentions("refused: " + strange("text.so"), "not an ELF file"));
  EXPECT_THAT(plain.out, HasSubstr("standard"));
}

TEST_F(BrokenPlugins, DoNotDisturbARunThatDoesNotNameThem) {
  EXPECT_EQ(must({"run", "tiny.yaml", "train.epochs=1", "attention=quest"}, environment()).err, "");
  EXPECT_EQ(status_of(run_folder("tiny/quest")).at("state"), "done");
}

TEST_F(BrokenPlugins, EndARunThatNamesThemBeforeItBegins) {
  const Environment env = environment();
  for (const auto& [name, reason] : std::map<std::string, std::string>{
           {"entry_throws", "no licence server"},
           {"changes_default_dtype", "default dtype"},
           {"unresolved_symbol", "undefined symbol: attnlab_test_nowhere"}}) {
    must({"validate", "tiny.yaml", "attention=" + name}, env);
    EXPECT_THAT(refusal({"run", "tiny.yaml", "attention=" + name}, env),
                mentions(broken_plugins() + "/" + name + ".so: ", reason));
    EXPECT_FALSE(exists("runs"));
  }
}

TEST_F(BrokenPlugins, ThatThrowNumbersDoNotAbortTheProgram) {
  const Ended built =
      attnlab({"run", "tiny.yaml", "attention=factory_throws_number"}, environment());
  EXPECT_EQ(built.exit_code, 2) << built.story();
  EXPECT_THAT(built.err, mentions(broken_plugins() + "/factory_throws_number.so: ",
                                  "attention 'factory_throws_number'", "cannot be built",
                                  "not a std::exception"));
  const Ended run =
      attnlab({"run", "tiny.yaml", "attention=throws_number_in_forward"}, environment());
  EXPECT_EQ(run.exit_code, 1) << run.story();
  const std::string folder = run_folder("tiny/throws_number_in_forward");
  const std::string reason = status_of(folder).at("reason");
  EXPECT_THAT(reason, HasSubstr("not a std::exception"));
  EXPECT_THAT(run.err, HasSubstr("failed: " + reason + "\n"));
  EXPECT_EQ(status_of(folder).at("state"), "failed");
}

TEST_F(BrokenPlugins, AreNamedWhenAnExperimentAsksForThem) {
  const Ended ended = attnlab({"validate", "tiny.yaml", "attention=no_manifest"}, environment());
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, says_lines({{"argument 'attention=no_manifest': attention: ",
                                      broken_plugins() + "/no_manifest.so: ", ".attnlab.manifest",
                                      "attnlab_add_plugin()", "remove the file"},
                                     {}}));
}

TEST_F(BrokenPlugins, OfOneNameAreBothRefused) {
  const std::string quest = build_tree() + "/lib/attnlab/plugins/attention/quest.so";
  folder_.write("plugins/mine.so", file_text(quest));
  const std::string mine = fs::canonical(folder_.path()).string() + "/plugins/mine.so";
  EXPECT_THAT(refusal({"validate", "tiny.yaml", "attention=quest"}),
              mentions("attention 'quest'", "more than one file", mine, quest, "remove or rename"));
  EXPECT_THAT(must({"list", "attention"}).out,
              AllOf(HasSubstr("\n  standard "), Not(HasSubstr("\n  quest "))));
}

}  // namespace
}  // namespace attnlab::testing::broken_plugins_test
