// Folders that go, cannot be written or know no locks, a process that is held, a terminal that
// goes, and readers beside a running suite.
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <set>
#include <thread>

#include "framework/base/files.h"
#include "tests/integration/workspace.h"

namespace attnlab::testing::hostile_places_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

constexpr const char* kNobody = "65534";

class HostilePlaces : public Workspace {
 protected:
  HostilePlaces() {
    folder_.write("long.yaml",
                  "schema: 1\nextends: tiny.yaml\nname: tiny\n"
                  "train: {epochs: 100, checkpoint_seconds: 0}\n");
    folder_.write("pair.yaml",
                  "schema: 1\nattentions: [standard, quest]\nbaseline: standard\n"
                  "experiments: [tiny.yaml]\nseeds: [0]\n"
                  "set: {train: {epochs: 100, checkpoint_seconds: 0}}\n");
  }

  /// The command as a user who may not write everywhere: where the superuser tests, as nobody.
  Invocation as_anyone(Words words) const {
    Invocation call = invocation(std::move(words));
    if (::geteuid() == 0) {
      call.words.insert(call.words.begin(),
                        {"setpriv", "--reuid", kNobody, "--regid", kNobody, "--clear-groups"});
    }
    return call;
  }

  /// A run of long.yaml that has begun to train.
  std::unique_ptr<Process> begun() const {
    return begun(invocation({"run", "long.yaml", "--resume"}));
  }
  std::unique_ptr<Process> begun(const Invocation& call) const {
    auto process = std::make_unique<Process>(call);
    EXPECT_TRUE(wait_for([&] {
      return !process->running() || (!files_like("metrics.jsonl").empty() &&
                                     metric_lines(run_folder("tiny/standard")).size() > 2);
    }));
    EXPECT_TRUE(process->running()) << process->wait().story();
    return process;
  }

  /// A suite of pair.yaml whose first run has begun to train.
  std::unique_ptr<Process> suite_begun() const {
    auto process = std::make_unique<Process>(invocation({"suite", "pair.yaml"}));
    EXPECT_TRUE(wait_for([&] {
      return !process->running() ||
             (!files_like("metrics.jsonl").empty() &&
              metric_lines(run_folder("pair/tiny/standard"), "train").size() > 2);
    }));
    EXPECT_TRUE(process->running()) << process->wait().story();
    return process;
  }

  /// Removes a folder into which others may be writing.
  static void take_away(const std::string& folder) {
    EXPECT_TRUE(wait_for([&] {
      std::error_code busy;
      fs::remove_all(folder, busy);
      return !fs::exists(folder);
    }));
  }

  /// The command, which is held where it opens the first file of this name; a folder goes then.
  Ended without_folder(const Words& words, const std::string& held, const std::string& folder) {
    Environment environment = {{"LD_PRELOAD", build_tree() + "/faulty_io/faulty_io.so"},
                               {"ATTNLAB_FAULT", "fsync:0"},
                               {"ATTNLAB_FAULT_BELOW", folder_.path()},
                               {"ATTNLAB_FAULT_CALLS", at("calls")},
                               {"ATTNLAB_FAULT_HOLD", held}};
    Process process(invocation(words, environment));
    EXPECT_TRUE(wait_for([&] { return exists("calls.held") || !process.running(); }));
    EXPECT_TRUE(process.running()) << "it never opened " << held;
    fs::remove_all(folder);
    fs::remove(at("calls.held"));
    return process.wait();
  }

  /// A disk on which something fails always. @param calls  the file of its count
  Environment disk_without(const std::string& kind, const std::string& calls = "calls") const {
    return {{"LD_PRELOAD", build_tree() + "/faulty_io/faulty_io.so"},
            {"ATTNLAB_FAULT", kind + ":1+"},
            {"ATTNLAB_FAULT_BELOW", folder_.path()},
            {"ATTNLAB_FAULT_CALLS", at(calls)}};
  }

  Ended on_disk_without(const std::string& kind, const Words& words) const {
    return attnlab(words, disk_without(kind));
  }
};

TEST_F(HostilePlaces, AnOutputFolderThatGoesEndsTheRunAndTheNextOneBeginsAnew) {
  const auto process = begun();
  take_away(at("runs"));
  const Ended ended = process->wait();
  EXPECT_EQ(ended.exit_code, 1) << ended.story();
  EXPECT_THAT(ended.err, HasSubstr("No such file"));
  must({"run", "tiny.yaml", "train.epochs=1"});
  EXPECT_EQ(status_of(run_folder("tiny/standard")).at("state"), "done");
}

TEST_F(HostilePlaces, AnOutputFolderThatGoesEndsTheSuiteAndTheNextOneBeginsAnew) {
  const auto suite = suite_begun();
  take_away(at("runs"));
  const Ended ended = suite->wait();
  EXPECT_THAT(ended.exit_code, AnyOf(1, 2)) << ended.story();
  EXPECT_THAT(ended.err, HasSubstr("No such file"));
  must({"suite", "pair.yaml", "set.train.epochs=1"});
  for (const char* attention : {"standard", "quest"}) {
    EXPECT_EQ(status_of(run_folder(std::string("pair/tiny/") + attention)).at("state"), "done");
  }
}

TEST_F(HostilePlaces, ARunsFolderThatGoesEndsItsEvaluation) {
  folder_.write("asked.yaml",
                "schema: 1\nextends: tiny.yaml\nname: tiny\ntrain: {epochs: 1}\n"
                "evaluate:\n  noisy: {set: {dataset: {noise: 3}}}\n");
  for (const char* held : {"checkpoint.safetensors", "lock"}) {
    must({"run", "asked.yaml"});
    const std::string folder = run_folder("tiny/standard");
    const Ended ended = without_folder({"eval", folder, "--again"}, held, folder);
    EXPECT_EQ(ended.exit_code, 2) << ended.story();
    EXPECT_THAT(ended.err, HasSubstr("No such file")) << held;
    EXPECT_FALSE(fs::exists(folder)) << "half of a run was made anew";
  }
}

TEST_F(HostilePlaces, AFolderThatMayNotBeWrittenIsNamed) {
  must({"run", "tiny.yaml", "train.epochs=1"});
  const std::string folder = run_folder("tiny/standard"),
                    before = file_text(folder + "/status.json");
  // The superuser may write everywhere, and becomes another user; who is one gives up the right.
  const bool superuser = ::geteuid() == 0;
  std::vector<std::string> closed;
  if (!superuser) {
    closed.push_back(folder_.path());
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (entry.is_directory()) closed.push_back(entry.path().string());
    }
  }
  for (const std::string& one : closed) ASSERT_EQ(::chmod(one.c_str(), 0555), 0) << one;
  if (superuser) {
    ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  }
  const auto unable = [&](Words words) { return testing::run(as_anyone(std::move(words))); };
  if (unable({"--version"}).exit_code != 0) GTEST_SKIP() << "others may not read this build";
  for (const Words& words : {Words{"run", "tiny.yaml", "seeds=[1]"}, Words{"eval", folder},
                             Words{"report", "runs", "--output", "page.html"}}) {
    const Ended ended = unable(words);
    EXPECT_THAT(ended.exit_code, AnyOf(1, 2)) << ended.story();
    EXPECT_THAT(ended.err, HasSubstr("Permission denied")) << words.front();
  }
  EXPECT_EQ(unable({"compare", "runs"}).exit_code, 0) << "reading needs no more";
  EXPECT_EQ(file_text(folder + "/status.json"), before);
}

TEST_F(HostilePlaces, AFolderThatIsClosedMeanwhileEndsTheRunWhichGoesOnOnceItIsOpen) {
  if (testing::run(as_anyone({"--version"})).exit_code != 0) {
    GTEST_SKIP() << "others may not read this build";
  }
  if (::geteuid() == 0) {  // the folder is the user's own
    const auto nobody = static_cast<::uid_t>(std::stoi(kNobody));
    ASSERT_EQ(::chown(folder_.path().c_str(), nobody, nobody), 0);
  }
  const Words words = {"run", "long.yaml", "train.epochs=25", "--resume"};
  const auto process = begun(as_anyone(words));
  const std::string folder = run_folder("tiny/standard");
  ASSERT_EQ(::chmod(folder.c_str(), 0555), 0);
  const Ended ended = process->wait();
  EXPECT_EQ(ended.exit_code, 1) << ended.story();
  EXPECT_THAT(ended.err, HasSubstr("Permission denied"));
  EXPECT_EQ(ended.out.find(": done"), std::string::npos) << ended.out;

  const Ended still = testing::run(as_anyone(words));
  EXPECT_THAT(still.exit_code, AnyOf(1, 2)) << still.story();
  EXPECT_THAT(still.err, HasSubstr("Permission denied"));

  ASSERT_EQ(::chmod(folder.c_str(), 0755), 0);
  const Ended on = testing::run(as_anyone(words));
  EXPECT_EQ(on.exit_code, 0) << on.story();
  EXPECT_THAT(on.out, HasSubstr("resumes at step"));
  EXPECT_EQ(status_of(folder).at("state"), "done");
  EXPECT_TRUE(files_like(".tmp-").empty());
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

TEST_F(HostilePlaces, ADiskWithoutLocksLetsOneGoOnOfTwoThatBeginAtOnce) {
  std::vector<std::unique_ptr<Process>> both;
  for (const std::string calls : {"first", "second"}) {
    Environment environment = disk_without("lock", calls);
    environment["ATTNLAB_FAULT_HOLD"] = "lock";  // each has seen that nobody runs it by then
    both.push_back(
        std::make_unique<Process>(invocation({"run", "tiny.yaml", "--resume"}, environment)));
    EXPECT_TRUE(wait_for([&] { return exists(calls + ".held") || !both.back()->running(); }));
    EXPECT_TRUE(both.back()->running());
  }
  for (const char* held : {"first.held", "second.held"}) fs::remove(at(held));
  std::vector<int> codes;
  for (const auto& process : both) {
    const Ended ended = process->wait();
    codes.push_back(ended.exit_code);
    EXPECT_EQ(ended.err.find("is being run by") == std::string::npos, ended.exit_code == 0)
        << ended.story();
  }
  EXPECT_THAT(codes, UnorderedElementsAre(0, 2));
  EXPECT_EQ(status_of(run_folder("tiny/standard")).at("state"), "done");
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

TEST_F(HostilePlaces, ATerminalThatGoesLeavesASuiteThatGoesOn) {
  const auto suite = suite_begun();
  suite->send(SIGHUP);
  const Ended ended = suite->wait();
  EXPECT_EQ(ended.exit_code, 130) << ended.story();
  EXPECT_THAT(ended.out, mentions("go on", "attnlab suite pair.yaml"));
  const std::string folder = run_folder("pair/tiny/standard");
  EXPECT_EQ(status_of(folder).at("state"), "interrupted");
  EXPECT_EQ(status_of(folder).at("step"), metric_lines(folder, "train").size());
  must({"suite", "pair.yaml"});
  EXPECT_EQ(status_of(folder).at("state"), "done");
}

TEST_F(HostilePlaces, ASuiteThatIsAskedToEndEndsThoughItsRunIsHeld) {
  const auto suite = suite_begun();
  const std::string folder = run_folder("pair/tiny/standard");
  const pid_t run = nlohmann::json::parse(read_text(folder + "/lock")).at("pid");
  ASSERT_EQ(::kill(run, SIGSTOP), 0);
  suite->send(SIGTERM);
  const bool ends = wait_for([&] { return !suite->running(); });
  if (!ends) ::kill(run, SIGKILL);
  ASSERT_TRUE(ends);
  const Ended ended = suite->wait();
  EXPECT_EQ(ended.exit_code, 130) << ended.story();
  EXPECT_EQ(status_of(folder).at("state"), "interrupted");
}

TEST_F(HostilePlaces, ReadersBesideARunningSuiteSeeNoDamage) {
  Process suite(invocation({"suite", "pair.yaml", "set.train.epochs=60"}));
  ASSERT_TRUE(wait_for([&] { return !suite.running() || !files_like("status.json").empty(); }));
  int rounds = 0;
  std::set<std::string> answered;  // commands
  for (; suite.running(); ++rounds) {
    for (const Words& words : {Words{"status", "runs/pair"}, Words{"compare", "runs/pair"},
                               Words{"report", "runs/pair", "--output", "page.html"}}) {
      const Ended ended = attnlab(words);
      EXPECT_EQ(ended.signal, 0) << ended.story();
      // At first there may be nothing to tell; what could be told once can be told again.
      const bool too_early = answered.count(words.front()) == 0 && ended.exit_code == 2 &&
                             ended.err.find("no run") != std::string::npos;
      EXPECT_TRUE(ended.exit_code == 0 || too_early) << words.front() << ": " << ended.story();
      if (ended.exit_code == 0) answered.insert(words.front());
      EXPECT_THAT(ended.out + ended.err, Not(HasSubstr("damaged"))) << words.front();
      EXPECT_THAT(ended.out + ended.err, Not(HasSubstr("cannot be read"))) << words.front();
    }
    if (exists("page.html")) {
      EXPECT_THAT(file_text(at("page.html")), HasSubstr("</html>"));
    }
  }
  EXPECT_GT(rounds, 0);
  EXPECT_EQ(answered.size(), 3U);
  const Ended ended = suite.wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.story();
}

}  // namespace
}  // namespace attnlab::testing::hostile_places_test
