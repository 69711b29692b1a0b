// Folders that go, cannot be written or know no locks, a process that is held, a terminal that
// goes, and readers beside a running suite.
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "framework/base/files.h"
#include "tests/integration/workspace.h"

namespace attnlab::testing::hostile_places_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class HostilePlaces : public Workspace {
 protected:
  HostilePlaces() {
    folder_.write("long.yaml",
                  "schema: 1\nextends: tiny.yaml\nname: tiny\n"
                  "train: {epochs: 100, checkpoint_seconds: 0}\n");
  }

  /// A run of long.yaml that has begun to train.
  std::unique_ptr<Process> begun() const {
    auto process = std::make_unique<Process>(invocation({"run", "long.yaml", "--resume"}));
    EXPECT_TRUE(wait_for([&] {
      return !process->running() || (!files_like("metrics.jsonl").empty() &&
                                     metric_lines(run_folder("tiny/standard")).size() > 2);
    }));
    EXPECT_TRUE(process->running()) << process->wait().story();
    return process;
  }

  /// What a disk that fails always does to a command.
  Ended on_disk_without(const std::string& kind, const Words& words) const {
    return attnlab(words, {{"LD_PRELOAD", build_tree() + "/faulty_io/faulty_io.so"},
                           {"ATTNLAB_FAULT", kind + ":1+"},
                           {"ATTNLAB_FAULT_BELOW", folder_.path()},
                           {"ATTNLAB_FAULT_CALLS", at("calls")}});
  }
};

TEST_F(HostilePlaces, AnOutputFolderThatGoesEndsTheRunAndTheNextOneBeginsAnew) {
  const auto process = begun();
  fs::remove_all(at("runs"));
  const Ended ended = process->wait();
  EXPECT_EQ(ended.exit_code, 1) << ended.story();
  EXPECT_THAT(ended.err, HasSubstr("No such file or directory"));
  must({"run", "tiny.yaml", "train.epochs=1"});
  EXPECT_EQ(status_of(run_folder("tiny/standard")).at("state"), "done");
}

TEST_F(HostilePlaces, AFolderThatMayNotBeWrittenIsNamed) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs the superuser, to become another user";
  must({"run", "tiny.yaml", "train.epochs=1"});
  const std::string folder = run_folder("tiny/standard"),
                    before = file_text(folder + "/status.json");
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  const auto as_nobody = [&](Words words) {
    Invocation call = invocation(std::move(words));
    call.words.insert(call.words.begin(),
                      {"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"});
    return testing::run(call);
  };
  if (as_nobody({"--version"}).exit_code != 0) GTEST_SKIP() << "others may not read this build";
  for (const Words& words : {Words{"run", "tiny.yaml", "seeds=[1]"}, Words{"eval", folder},
                             Words{"report", "runs", "--output", "page.html"}}) {
    const Ended ended = as_nobody(words);
    EXPECT_THAT(ended.exit_code, AnyOf(1, 2)) << ended.story();
    EXPECT_THAT(ended.err, HasSubstr("Permission denied")) << words.front();
  }
  EXPECT_EQ(as_nobody({"compare", "runs"}).exit_code, 0) << "reading needs no more";
  EXPECT_EQ(file_text(folder + "/status.json"), before);
}

TEST_F(HostilePlaces, ADiskWithoutRenameIsNamedAndLeavesNothingHalf) {
  const Ended ended = on_disk_without("rename", {"run", "tiny.yaml"});
  EXPECT_THAT(ended.exit_code, AnyOf(1, 2)) << ended.story();
  EXPECT_THAT(ended.err, HasSubstr("cannot replace: "));
  EXPECT_TRUE(files_like(".tmp-").empty());
  must({"run", "tiny.yaml", "--resume"});
}

TEST_F(HostilePlaces, ADiskWithoutLocksRunsAndKeepsASecondProcessOut) {
  const Ended ended = on_disk_without("lock", {"run", "tiny.yaml"});
  EXPECT_EQ(ended.exit_code, 0) << ended.story();
  EXPECT_EQ(status_of(run_folder("tiny/standard")).at("state"), "done");
  fs::remove_all(at("runs"));
  const auto process = begun();
  const Ended second = on_disk_without("lock", {"run", "long.yaml", "--resume"});
  EXPECT_EQ(second.exit_code, 2) << second.story();
  EXPECT_THAT(second.err, HasSubstr("is being run by process"));
  process->send(SIGTERM);
  EXPECT_EQ(process->wait().exit_code, 130);
}

TEST_F(HostilePlaces, AProcessThatIsHeldForAWhileGoesOn) {
  const Words words = {"run", "tiny.yaml", "train.epochs=20"};
  must(words);
  const std::string folder = run_folder("tiny/standard");
  const auto expected = model_tensors(folder);
  fs::remove_all(at("runs"));
  Process process(invocation(words));
  ASSERT_TRUE(wait_for([&] { return !files_like("metrics.jsonl").empty(); }));
  process.send(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_THAT(must({"status", "runs"}).out, Not(HasSubstr("damaged")));
  process.send(SIGCONT);
  const Ended ended = process.wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.story();
  EXPECT_EQ(model_tensors(folder), expected);
}

TEST_F(HostilePlaces, ATerminalThatGoesLeavesACheckpoint) {
  const auto process = begun();
  process->send(SIGHUP);
  const Ended ended = process->wait();
  EXPECT_EQ(ended.exit_code, 130) << ended.story();
  const nlohmann::json status = status_of(run_folder("tiny/standard"));
  EXPECT_EQ(status.at("state"), "interrupted");
  EXPECT_EQ(status.at("step"), metric_lines(run_folder("tiny/standard"), "train").size());
}

TEST_F(HostilePlaces, ReadersBesideARunningSuiteSeeNoDamage) {
  folder_.write("pair.yaml",
                "schema: 1\nattentions: [standard, quest]\nbaseline: standard\n"
                "experiments: [tiny.yaml]\nseeds: [0]\nset: {train: {epochs: 60}}\n");
  Process suite(invocation({"suite", "pair.yaml"}));
  ASSERT_TRUE(wait_for([&] { return !suite.running() || !files_like("status.json").empty(); }));
  int rounds = 0;
  for (; suite.running(); ++rounds) {
    for (const Words& words : {Words{"status", "runs/pair"}, Words{"compare", "runs/pair"},
                               Words{"report", "runs/pair", "--output", "page.html"}}) {
      const Ended ended = attnlab(words);
      EXPECT_EQ(ended.signal, 0) << ended.story();
      EXPECT_THAT(ended.out + ended.err, Not(HasSubstr("damaged"))) << words.front();
      EXPECT_THAT(ended.out + ended.err, Not(HasSubstr("cannot be read"))) << words.front();
    }
    if (exists("page.html")) {
      EXPECT_THAT(file_text(at("page.html")), HasSubstr("</html>"));
    }
  }
  EXPECT_GT(rounds, 0);
  const Ended ended = suite.wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.story();
}

}  // namespace
}  // namespace attnlab::testing::hostile_places_test
