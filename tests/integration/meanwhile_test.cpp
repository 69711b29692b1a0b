// What comes between two steps of a program: another process that goes on with a run after the look
// at its status, or a signal. The library below the program (tests/faulty_io) holds it there.
#include <csignal>
#include <filesystem>

#include "framework/base/file_lock.h"
#include "tests/integration/sequences.h"

namespace attnlab::testing::meanwhile_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Meanwhile : public Sequences {
 protected:
  /// The command, which is held where it takes the first lock; by then it has seen that no run is
  /// finished. Another process finishes the runs of these folders then.
  Ended finished_under(const Words& words, const std::vector<std::string>& folders) {
    std::map<std::string, std::string> statuses;
    for (const std::string& folder : folders) {
      const std::string path = folder + "/status.json";
      statuses[path] = file_text(path);
      fs::remove(path);
    }
    const Environment environment = held_at("lock");
    Process process(invocation(words, environment));
    EXPECT_TRUE(wait_until_held(process));
    for (const auto& [path, text] : statuses) write_text(path, text);
    go_on();
    return process.wait();
  }

  /// What a program needs in its environment to wait where it opens a file of this name first.
  Environment held_at(const std::string& name, const Environment& more = {}) {
    Environment environment = with_fault(folder_.path(), "fsync:0");
    environment["ATTNLAB_FAULT_HOLD"] = name;
    environment.insert(more.begin(), more.end());
    held_ = environment.at("ATTNLAB_FAULT_CALLS") + ".held";
    return environment;
  }
  /// @returns whether the program, or a child of it, waits there
  bool wait_until_held(Process& process) const {
    return wait_for([&] { return fs::exists(held_) || !process.running(); }) && process.running();
  }
  void go_on() const { fs::remove(held_); }

  static std::string status_text(const std::string& folder) {
    return file_text(folder + "/status.json");
  }

  void write_text(const std::string& path, const std::string& text) {
    folder_.write(fs::relative(path, folder_.path()).string(), text);
  }

 private:
  std::string held_;  ///< is there while a program waits
};

TEST_F(Meanwhile, ARunThatAnotherProcessFinishedStaysAsItIs) {
  must({"run", "tiny.yaml"});
  const std::string folder = run_folder("tiny/standard"), before = status_text(folder);
  const Ended ended = finished_under({"run", folder, "--resume"}, {folder});
  EXPECT_EQ(ended.exit_code, 0) << ended.story();
  EXPECT_THAT(ended.out, HasSubstr("done before"));
  EXPECT_EQ(status_text(folder), before);
}

TEST_F(Meanwhile, AMemberOfAnEnsembleThatAnotherProcessFinishedIsLeftOut) {
  must({"run", "toy.yaml", "--ensemble"});
  const std::string first = run_folder("toy/qknorm", 0), second = run_folder("toy/qknorm", 1);
  const std::string before = status_text(first);
  const Words words = {"run", first, second, "--ensemble", "--resume"};
  fs::remove(second + "/status.json");
  const Ended ended = finished_under(words, {first});
  EXPECT_EQ(ended.exit_code, 0) << ended.story();
  EXPECT_EQ(status_text(first), before);
  EXPECT_EQ(status_of(second).at("state"), "done");
  const std::string both[] = {status_text(first), status_text(second)};
  const Ended again = finished_under(words, {first, second});
  EXPECT_EQ(again.exit_code, 0) << again.story();
  EXPECT_EQ(status_text(first), both[0]);
  EXPECT_EQ(status_text(second), both[1]);
}

// Its own process died before it took the folder's lock, and the suite is about to say so.
TEST_F(Meanwhile, ASuiteLeavesTheStatusOfARunThatAnotherProcessHasBegun) {
  folder_.write("two.yaml",
                "schema: 1\nattentions: [standard, constructor_throws]\nbaseline: standard\n"
                "experiments: [tiny.yaml]\nseeds: [0]\n");
  Process process(invocation({"suite", "two.yaml"},
                             held_at("lock", {{"ATTNLAB_PLUGIN_PATH", broken_plugins()}})));
  ASSERT_TRUE(wait_until_held(process)) << "the process of the run that is sound";
  go_on();
  ASSERT_TRUE(wait_until_held(process)) << "it writes without the lock";
  const std::string folder = run_folder("two/tiny/constructor_throws");
  const FileLock other(folder + "/lock");
  ASSERT_EQ(other.state(), FileLock::State::held);
  const std::string begun =
      R"({"state": "running", "step": 0, "steps": 4, "epoch": 0, "seconds": 0, "metrics": {}})";
  write_text(folder + "/status.json", begun);
  go_on();
  const Ended ended = process.wait();
  EXPECT_EQ(ended.exit_code, 3) << ended.story();
  EXPECT_THAT(ended.out, HasSubstr("is being run by"));
  EXPECT_EQ(status_text(folder), begun);
}

TEST_F(Meanwhile, ASuiteWritesNothingIntoTheFolderOfARunThatBeganSinceItLooked) {
  folder_.write("asking.yaml",
                "schema: 1\nattentions: [standard, quest]\nexperiments: [asked.yaml]\n"
                "seeds: [0]\n");
  must({"suite", "asking.yaml"});
  // Of a run without its model, it reads what was evaluated once it has looked at all runs.
  const std::string kept = run_folder("asking/tiny/standard"),
                    folder = run_folder("asking/tiny/quest");
  for (const char* model : {"checkpoint.safetensors", "best.safetensors"}) {
    fs::remove(kept + "/" + model);
  }
  fs::remove_all(folder);
  const auto evaluation = fs::directory_iterator(kept + "/evaluations");
  const std::string name = evaluation->path().filename();
  Process process(invocation({"suite", "asking.yaml"}, held_at(name)));
  ASSERT_TRUE(wait_until_held(process));
  fs::create_directories(folder);
  const FileLock other(folder + "/lock");
  go_on();
  const Ended ended = process.wait();
  EXPECT_EQ(ended.exit_code, 3) << ended.story();
  EXPECT_THAT(ended.out, HasSubstr("is being run by"));
  EXPECT_FALSE(fs::exists(folder + "/config.yaml"));
  EXPECT_FALSE(fs::exists(folder + "/status.json"));
  EXPECT_TRUE(fs::exists(folder + "/log.txt")) << "it was launched";
}

TEST_F(Meanwhile, ASignalEndsASuiteWhoseRunsAreDone) {
  folder_.write("compared.yaml",
                "schema: 1\nattentions: [standard, quest]\nexperiments: [tiny.yaml]\n"
                "seeds: [0]\ncompare: {test: t}\n");
  for (const int signal : {SIGTERM, SIGINT}) {
    Process process(invocation({"suite", "compared.yaml"}, held_at("suite.json")));
    ASSERT_TRUE(wait_until_held(process));
    process.send(signal);
    go_on();
    const Ended ended = process.wait();
    EXPECT_EQ(ended.signal, signal) << ended.story();
    EXPECT_TRUE(exists("runs/compared/table.md"));
    EXPECT_FALSE(exists("runs/compared/comparison.json"));
  }
  must({"suite", "compared.yaml"});
  EXPECT_TRUE(exists("runs/compared/comparison.json"));
}

}  // namespace
}  // namespace attnlab::testing::meanwhile_test
