// attnlab plugin test: every check a process; crashes, hangs and early ends are failed checks.
#include <algorithm>
#include <filesystem>
#include <iterator>

#include "framework/conformance/check_list.h"
#include "framework/manifest/manifest_writer.h"
#include "tests/integration/workspace.h"

namespace attnlab::testing::plugin_test_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class PluginTest : public Workspace {
 protected:
  static std::string quest() { return build_tree() + "/lib/attnlab/plugins/attention/quest.so"; }
  static std::string broken(const std::string& name) {
    return broken_plugins() + "/" + name + ".so";
  }

  /// `attnlab plugin test ... --json`.
  json report(Words words, int exit_code) {
    words.insert(words.begin(), {"plugin", "test"});
    words.push_back("--json");
    const Ended ended = attnlab(words);
    EXPECT_EQ(ended.exit_code, exit_code) << ended.story();
    return json::parse(ended.out);
  }
  /// The one check that was asked for, after loading.
  json only_check(const std::string& plugin, Words words = {}) {
    words.insert(words.begin(), {plugin, "--only", "shapes"});
    const json all = report(words, 1);
    EXPECT_EQ(all.at("checks").size(), 2U);
    EXPECT_EQ(all.at("checks").at(0).at("check"), "load");
    EXPECT_EQ(all.at("checks").at(0).at("outcome"), "passed");
    return all.at("checks").back();
  }
};

TEST_F(PluginTest, RunsEveryCheckOfASoundPlugin) {
  const json all = report({"quest"}, 0);
  EXPECT_EQ(all.at("plugin"), "attnlab/quest");
  EXPECT_EQ(all.at("path"), quest());
  EXPECT_EQ(all.at("counts").at("failed"), 0);
  ASSERT_EQ(all.at("checks").size(), std::size(conformance::kChecks) + 1);
  for (std::size_t i = 0; i < std::size(conformance::kChecks); ++i) {
    const json& check = all.at("checks").at(i + 1);
    EXPECT_EQ(check.at("check"), conformance::kChecks[i].name);
    EXPECT_EQ(check.at("about"), conformance::kChecks[i].about);
    EXPECT_GT(check.at("seconds"), 0);
  }
}

TEST_F(PluginTest, RunsEveryCheckOfAModelATaskAndADataset) {
  const std::vector<std::pair<Words, Kind>> plugins = {
      {{"toy_transformer", "hidden=4"}, Kind::model},
      {{"sequence_classification"}, Kind::task},
      {{"synthetic_series", "train=16", "validation=8", "test=8"}, Kind::dataset}};
  for (const auto& [words, kind] : plugins) {
    const json all = report(words, 0);
    EXPECT_EQ(all.at("kind"), name_of(kind));
    EXPECT_EQ(all.at("checks").size(), conformance::checks_of(kind).size() + 1);
    EXPECT_EQ(all.at("counts").at("failed"), 0) << all.dump(2);
  }
}

TEST_F(PluginTest, TriesATaskOnAnExperimentsModelAndData) {
  const json all = report({"image_classification", "--experiment", at("tiny.yaml"), "--only",
                           "loss", "--only", "metrics"},
                          0);
  EXPECT_EQ(all.at("counts").at("passed"), 3) << all.dump(2);
}

TEST_F(PluginTest, SaysWhichOptionAModelCannotDoWithout) {
  const json all = report({"vit"}, 1);
  ASSERT_EQ(all.at("checks").size(), 1U) << all.dump(2);
  EXPECT_THAT(all.at("checks").at(0).at("message").get<std::string>(),
              mentions("dim: is 0", "no preset"));
}

TEST_F(PluginTest, ListsTheChecksOfAKind) {
  const Ended ended = must({"plugin", "test", "vit", "--list"});
  EXPECT_THAT(ended.out, AllOf(StartsWith("outputs "), HasSubstr("\npadding  ")));
  EXPECT_EQ(std::count(ended.out.begin(), ended.out.end(), '\n'),
            static_cast<std::ptrdiff_t>(std::size(conformance::kModelChecks)));
}

TEST_F(PluginTest, TakesAFileAnywhereAndItsOptions) {
  folder_.write("mine/idea.so", file_text(quest()));
  const json all = report({"mine/idea.so", "eps=0.5", "--only", "shapes", "--only", "dtypes"}, 0);
  EXPECT_EQ(all.at("path"), fs::canonical(at("mine/idea.so")).string());
  EXPECT_EQ(all.at("options"), "{eps: 0.5}");
  EXPECT_EQ(all.at("checks").size(), 3U);
}

TEST_F(PluginTest, PrintsATableForPeople) {
  EXPECT_THAT(
      must({"plugin", "test", "quest", "--only", "shapes", "--only", "linear_cost"}).out,
      AllOf(StartsWith("attnlab/quest 1.0.0  " + quest() + "\n"),
            HasSubstr("\n  passed          shapes "), HasSubstr("\n  not applicable  linear_cost "),
            HasSubstr("  trait 'linear_cost' is not declared\n"),
            HasSubstr("\n2 passed, 1 not applicable in ")));
}

TEST_F(PluginTest, ReportsACrashWithItsSignalAndLastWords) {
  const json check = only_check(broken("crashes_in_forward"));
  EXPECT_EQ(check.at("outcome"), "failed");
  EXPECT_THAT(check.at("message").get<std::string>(),
              mentions("signal 6 (Aborted)", "double free in the kernel"));
}

TEST_F(PluginTest, EndsACheckThatHangs) {
  const json check = only_check(broken("hangs_in_forward"), {"--time-limit", "12"});
  EXPECT_EQ(check.at("outcome"), "failed");
  EXPECT_THAT(check.at("message").get<std::string>(),
              mentions("after 12 s", "--time-limit", "killed"));
  EXPECT_GE(check.at("seconds"), 12);
}

TEST_F(PluginTest, NamesTheDamagedFileThatEndedTheProcess) {
  folder_.write("data/values.bin", std::string(64, 'v'));
  const json all = report({broken("dies_of_damage"), "root=" + at("data"), "--only", "damage"}, 1);
  EXPECT_THAT(all.at("checks").back().at("message").get<std::string>(),
              AllOf(mentions("signal 6 (Aborted)", "values.bin empty"),
                    EndsWith(": frame 5\nframe 6\nframe 7")));
}

TEST_F(PluginTest, SeesWhatAConstructorChangesOnce) {
  const json all = report({broken("changes_umask_when_built"), "--only", "process_state"}, 1);
  EXPECT_THAT(all.at("checks").back().at("message").get<std::string>(),
              mentions("building it", "changes the umask"));
}

TEST_F(PluginTest, IsNotTakenInByAnEarlyEnd) {
  const json check = only_check(broken("exits_in_forward"));
  EXPECT_EQ(check.at("outcome"), "failed");
  EXPECT_THAT(check.at("message").get<std::string>(), mentions("exit code 0", "without a result"));
}

TEST_F(PluginTest, SaysHowToRunAFailedCheckAgain) {
  const std::string path = broken("crashes_in_forward");
  const Ended ended = attnlab({"plugin", "test", path, "--only", "shapes", "--jobs", "2"});
  EXPECT_EQ(ended.exit_code, 1) << ended.story();
  EXPECT_THAT(ended.out, mentions("\n  FAILED          shapes ", "signal 6 (Aborted)",
                                  "double free in the kernel\n", "\n1 passed, 1 failed in ",
                                  ": attnlab plugin test " + path + " --only shapes\n"));
}

TEST_F(PluginTest, QuotesWordsThatHoldBlanksInTheCommand) {
  folder_.write("my plugins/dies.so", file_text(broken("dies_of_damage")));
  folder_.write("my data/values.bin", std::string(64, 'v'));
  const Ended ended =
      attnlab({"plugin", "test", "my plugins/dies.so", "root=my data", "--only", "damage"});
  EXPECT_EQ(ended.exit_code, 1) << ended.story();
  EXPECT_THAT(ended.out, HasSubstr(": attnlab plugin test 'my plugins/dies.so' 'root=my data' "
                                   "--only damage\n"));
}

TEST_F(PluginTest, StopsWhereThePluginCannotBeBuilt) {
  const json all = report({broken("factory_throws")}, 1);
  ASSERT_EQ(all.at("checks").size(), 1U);
  const json& load = all.at("checks").at(0);
  EXPECT_EQ(load.at("outcome"), "failed");
  EXPECT_THAT(load.at("message").get<std::string>(), HasSubstr("the kernel table is empty"));
}

TEST_F(PluginTest, RefusesWhatCannotBeTestedAsUsage) {
  std::string foreign = file_text(quest());
  const std::string contract = "\"contract\":" + std::to_string(kContractVersion);
  foreign.replace(foreign.find(contract), contract.size(), "\"contract\":7");
  folder_.write("foreign.so", foreign);
  const std::vector<std::pair<Words, Words>> wrong = {
      {{"foreign.so"},
       {"foreign.so: ", "contract: expected " + std::to_string(kContractVersion), "found 7"}},
      {{"nowhere.so"}, {"nowhere.so: ", "no such file"}},
      {{"qest"}, {"did you mean 'quest'?"}},
      {{"quest", "ep=1"}, {"did you mean 'eps'?"}},
      {{"quest", "--only", "shape"}, {"check 'shape'", "did you mean 'shapes'?"}},
      {{"quest", "--time-limit", "0"}, {"--time-limit: ", "seconds above 0"}},
      {{"quest", "--time-limit", "inf"}, {"--time-limit: ", "seconds above 0", "at most 1000000"}},
      {{"quest", "--jobs", "1000"}, {"--jobs: ", "0 to 64", "found 1000"}},
      {{}, {"usage: attnlab plugin test ID|PATH"}},
  };
  for (const auto& [given, said] : wrong) {
    Words words = {"plugin", "test"};
    words.insert(words.end(), given.begin(), given.end());
    const Ended ended = attnlab(words);
    EXPECT_EQ(ended.exit_code, 2) << ended.story();
    EXPECT_THAT(ended.err, mentions(said));
    EXPECT_EQ(ended.out, "");
  }
}

TEST_F(PluginTest, LeavesNoFilesBehind) {
  const Environment environment = {{"TMPDIR", folder_.path()}};
  must({"plugin", "test", "quest", "--only", "save_and_load"}, environment);
  EXPECT_TRUE(files_like("attnlab-").empty());
}

}  // namespace
}  // namespace attnlab::testing::plugin_test_test
