// Which cells of a suite run: finished, failed, stale, skipped, incompatible, killed.
#include <csignal>
#include <filesystem>

#include "framework/base/file_lock.h"
#include "framework/base/files.h"
#include "tests/integration/workspace.h"

namespace attnlab::testing::suite_cells_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kCausal =
    "set: {model: {use: vjt, patch_size: 7, dim: 16, depth: 1, heads: 2}}\n";

class SuiteCells : public Workspace {
 protected:
  void write_suite(const std::string& attentions, const std::string& more = "") const {
    folder_.write("pair.yaml", "schema: 1\nattentions: " + attentions +
                                   "\nexperiments: [tiny.yaml]\nseeds: [0]\n" + more);
  }
  json table() const { return json::parse(file_text(at("runs/pair/table.json"))); }
  json status() const { return json::parse(must({"status", "runs/pair", "--json"}).out); }
  std::vector<std::string> folders_of(const std::string& attention) const {
    std::vector<std::string> found;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(at("runs/pair/tiny/" + attention), error)) {
      found.push_back(entry.path());
    }
    return found;
  }

  static std::string replaced(std::string bytes, const std::string& old, const std::string& now) {
    if (old.size() != now.size()) throw std::logic_error("a library's sections must not move");
    for (std::size_t at = bytes.find(old); at != std::string::npos; at = bytes.find(old, at + 1)) {
      bytes.replace(at, old.size(), now);
    }
    return bytes;
  }
  static std::string plugin(const std::string& name) {
    return file_text(build_tree() + "/lib/attnlab/plugins/" + name + ".so");
  }

  /// A plugin of this project: quest under another name, in ./plugins.
  void install_twin() const {
    folder_.write("plugins/attention/qzest.so",
                  replaced(plugin("attention/quest"), "attnlab/quest", "attnlab/qzest"));
  }
  /// The vision transformer under another name, with a manifest that asks for causal masks.
  void install_causal_model() const {
    const std::string twin = replaced(plugin("model/vit"), "attnlab/vit", "attnlab/vjt");
    const std::string words = "DeiT's sizes and initialisation", needs = "\"needs\":[]";
    const std::size_t start = twin.find(words), end = twin.find(needs, start) + needs.size();
    const std::string old = twin.substr(start, end - start);
    std::string now = "DeiT's sizes, and start" + old.substr(words.size());
    now.replace(now.find(needs), needs.size(), "\"needs\":[\"causal\"]");
    folder_.write("plugins/model/vjt.so", replaced(twin, old, now));
  }
  /// The same plugin, one byte longer behind its last section.
  void rebuild_twin() const {
    const std::string name = "plugins/attention/qzest.so";
    folder_.write(name, file_text(at(name)) + '\0');
  }
};

TEST_F(SuiteCells, AFailedCellIsLeftUntilAskedFor) {
  write_suite("[standard, quest]");
  must({"suite", "pair.yaml"});
  const std::string folder = folders_of("quest").at(0);
  nlohmann::json status = status_of(folder);
  status["state"] = "failed";
  status["reason"] = "no memory";
  status.erase("check");
  write_file(folder + "/status.json", status.dump());

  const Ended left = attnlab({"suite", "pair.yaml"});
  EXPECT_EQ(left.exit_code, 3) << left.story();
  EXPECT_THAT(left.out, AllOf(HasSubstr("failed before: no memory"), HasSubstr("--rerun failed"),
                              Not(HasSubstr("starts"))));
  EXPECT_EQ(status_of(folder).at("state"), "failed");
  EXPECT_THAT(must({"status", "runs/pair"}).out,
              AllOf(HasSubstr("1 failed, 1 done"), HasSubstr("no memory")));

  EXPECT_THAT(must({"suite", "pair.yaml", "--rerun", "failed"}).out, Not(HasSubstr("1 failed")));
  EXPECT_EQ(status_of(folder).at("state"), "done");
  EXPECT_EQ(attnlab({"suite", "pair.yaml", "--rerun", "fialed"}).exit_code, 2);
}

TEST_F(SuiteCells, ACellWhosePluginChangedIsStaleAndRunsAnewOnlyWhenAskedFor) {
  install_twin();
  write_suite("[standard, qzest]", "compare: {test: t}\n");
  must({"suite", "pair.yaml"});
  const std::string old = folders_of("qzest").at(0);
  const std::string numbers = file_text(old + "/status.json");
  rebuild_twin();

  EXPECT_THAT(must({"status", "runs/pair"}).out,
              ContainsRegex("stale +[^\n]*file of attention 'qzest'"));
  const Ended left = attnlab({"suite", "pair.yaml"});
  EXPECT_EQ(left.exit_code, 3) << left.story();
  EXPECT_THAT(left.out, AllOf(mentions("stale: ", "file of attention 'qzest'", "--rerun stale"),
                              Not(HasSubstr("starts"))));
  EXPECT_EQ(table().at("runs").size(), 1U) << "a stale run does not count";
  EXPECT_EQ(table().at("absent").at(0).at("kind"), "stale");
  EXPECT_THAT(must({"compare", "runs/pair"}).out, HasSubstr("stale"));

  must({"suite", "pair.yaml", "--rerun", "stale"});
  EXPECT_EQ(folders_of("qzest").size(), 2U);
  EXPECT_EQ(file_text(old + "/status.json"), numbers) << "the old run stays as it was";
  const json counts = status().at("counts");
  EXPECT_EQ(counts, json({{"done", 2}, {"superseded", 1}}));
  EXPECT_THAT(must({"status", "runs/pair"}).out, HasSubstr(fs::path(old).filename().string()));
  EXPECT_THAT(must({"suite", "pair.yaml"}).out, Not(HasSubstr("starts")));
}

TEST_F(SuiteCells, RunsAreFiledByTheIdentityThatRunsByHandHave) {
  write_suite("[quest]");
  must({"suite", "pair.yaml"});
  must({"run", "tiny.yaml", "attention=quest", "train.clip_norm=0.0"});
  const std::string suite = fs::path(folders_of("quest").at(0)).filename();
  EXPECT_EQ(fs::path(run_folder("tiny/quest")).filename(), suite);
  const json identity = json::parse(file_text(folders_of("quest").at(0) + "/identity.json"));
  const json environment = json::parse(file_text(folders_of("quest").at(0) + "/environment.json"));
  for (const char* part : {"model", "attention", "task", "dataset"}) {
    EXPECT_EQ(identity.at("plugins").at(part).at("hash"), environment.at(part).at("hash")) << part;
  }
  EXPECT_EQ(identity.at("data"), environment.at("data").at("fingerprint")) << "seed 0 itself";
}

TEST_F(SuiteCells, SkippedCellsHaveTheirReasonInTheTable) {
  write_suite("[standard, quest]",
              "skip: [{attention: quest, reason: known to be slow here}]\ncompare: {test: t}\n");
  EXPECT_THAT(must({"suite", "pair.yaml"}).out, HasSubstr("skipped: known to be slow here"));
  EXPECT_TRUE(folders_of("quest").empty());
  EXPECT_EQ(status().at("counts"), json({{"done", 1}, {"skipped", 1}}));
  EXPECT_THAT(must({"compare", "runs/pair"}).out, HasSubstr("known to be slow here"));
  EXPECT_EQ(table().at("complete"), true) << "what is skipped is not missing";
}

TEST_F(SuiteCells, AnAttentionThatDoesNotFitIsAnAbsenceNotAnError) {
  install_causal_model();
  write_suite("[standard, doubly_stochastic]", kCausal);
  EXPECT_THAT(must({"suite", "pair.yaml"}).out,
              mentions("incompatible: attention 'doubly_stochastic'", "'causal'", "model 'vjt'"));
  EXPECT_EQ(status().at("counts"), json({{"done", 1}, {"incompatible", 1}}));
  EXPECT_THAT(must({"suite", "pair.yaml", "--dry-run"}).out,
              HasSubstr("2 runs: 0 to run, 1 finished, 1 incompatible"));
  write_suite("[doubly_stochastic]", kCausal);
  EXPECT_EQ(attnlab({"suite", "pair.yaml"}).exit_code, 2) << "nothing is left to run";
}

TEST_F(SuiteCells, ASuiteKilledAtAnyMomentGoesOn) {
  write_suite("[standard, quest]", "set: {train: {epochs: 30, checkpoint_seconds: 0}}\n");
  std::string first;
  {
    Process suite(invocation({"suite", "pair.yaml"}));
    const auto trains = [&] {
      if (!suite.running()) return true;
      const auto logs = files_like("checkpoint.safetensors");
      return !logs.empty();
    };
    ASSERT_TRUE(wait_for(trains));
    suite.send(SIGKILL);
    EXPECT_EQ(suite.wait().signal, SIGKILL);
    first = folders_of("standard").at(0);
  }
  // Its run may still be there: the kernel tells nobody of the suite's end. It keeps others out.
  const auto ended = [&] {
    const json counts = status().at("counts");
    return !counts.contains("running");
  };
  ASSERT_TRUE(wait_for(ended)) << must({"status", "runs/pair"}).out;
  const std::string shown = must({"status", "runs/pair"}).out;
  EXPECT_THAT(shown, HasSubstr("pending"));
  must({"suite", "pair.yaml"});
  EXPECT_EQ(table().at("complete"), true);
  must({"run", "tiny.yaml", "attention=quest", "train.epochs=30", "train.checkpoint_seconds=0"});
  EXPECT_EQ(checkpoint_tensors(folders_of("quest").at(0)),
            checkpoint_tensors(run_folder("tiny/quest")));
}

TEST_F(SuiteCells, AKilledRunIsShownAsKilledAndGoesOn) {
  Process run(invocation({"run", "tiny.yaml", "train.epochs=400", "train.checkpoint_seconds=0"}));
  ASSERT_TRUE(
      wait_for([&] { return !run.running() || !files_like("checkpoint.safetensors").empty(); }));
  const json running = json::parse(must({"status", "runs", "--json"}).out);
  EXPECT_EQ(running.at("counts"), json({{"running", 1}}));
  EXPECT_EQ(running.at("runs").at(0).at("steps"), 1600);
  const Ended second = attnlab({"run", run_folder("tiny/standard"), "--resume"});
  EXPECT_EQ(second.exit_code, 2) << "two processes must not run one folder\n" << second.story();
  EXPECT_THAT(second.err, HasSubstr("is being run by process "));
  run.send(SIGKILL);
  run.wait();
  const json killed = json::parse(must({"status", "runs", "--json"}).out);
  EXPECT_EQ(killed.at("counts"), json({{"killed", 1}}));
}

TEST_F(SuiteCells, DryRunMeasuresAndWritesNothing) {
  folder_.write("pair.yaml",
                "schema: 1\nattentions: [standard, quest]\nexperiments: [tiny.yaml]\n"
                "seeds: [0, 1, 2]\ncompare: {test: wilcoxon}\n");
  EXPECT_THAT(must({"suite", "pair.yaml", "--dry-run", "-j", "2"}).out,
              AllOf(HasSubstr("6 runs: 6 to run"), HasSubstr("tiny        standard"),
                    mentions("3 paired seeds", "below p = 0.25", "6 runs to do: about ",
                             "with -j 2", "nothing was written")));
  EXPECT_FALSE(exists("runs"));
  must({"suite", "pair.yaml", "seeds=[0]", "attentions=[standard]"});
  const auto before = files_like("");
  EXPECT_THAT(must({"suite", "pair.yaml", "--dry-run"}).out,
              HasSubstr("6 runs: 5 to run, 1 finished"));
  EXPECT_EQ(files_like(""), before);
}

TEST_F(SuiteCells, DryRunNamesWhatCannotBeBuilt) {
  write_suite("[standard, factory_throws]");
  const Ended ended =
      attnlab({"suite", "pair.yaml", "--dry-run"}, {{"ATTNLAB_PLUGIN_PATH", broken_plugins()}});
  EXPECT_EQ(ended.exit_code, 2) << ended.story();
  EXPECT_THAT(ended.out,
              mentions("tiny, factory_throws cannot be built: ", "the kernel table is empty"));
}

TEST_F(SuiteCells, DryRunFindsATraceOfAModelThatHasNoAttention) {
  write_suite("[standard]");
  const Ended ended =
      attnlab({"suite", "pair.yaml", "--dry-run", "set.model=resnet", "set.trace.every=1"});
  EXPECT_EQ(ended.exit_code, 2) << ended.story();
  EXPECT_THAT(ended.out, mentions("tiny, standard cannot be built: ", "no attention layer"));
}

TEST_F(SuiteCells, LeaveAFolderAloneThatAnotherProcessIsBeginning) {
  write_suite("[standard]");
  must({"suite", "pair.yaml"});
  const std::string folder = folders_of("standard").at(0);
  fs::remove_all(folder);
  fs::create_directories(folder);
  const FileLock other(folder + "/lock");
  const Ended ended = attnlab({"suite", "pair.yaml"});
  EXPECT_EQ(ended.exit_code, 3) << ended.story();
  EXPECT_THAT(ended.out, HasSubstr("is being run by"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1) << "the lock alone";
}

}  // namespace
}  // namespace attnlab::testing::suite_cells_test
