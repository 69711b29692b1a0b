// What a run makes durable, and in which order: nothing durable speaks of what a power loss may
// take. The library below the program (tests/faulty_io) writes down what it is asked.
#include <filesystem>
#include <sstream>

#include "tests/integration/workspace.h"

namespace attnlab::testing::durability_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// "rename /tmp/.../status.json".
struct Call {
  std::string what, path;
  std::string name() const { return fs::path(path).filename().string(); }
};

class Durability : public Workspace {
 protected:
  /// The program with the library below it. @param fault  "fsync:3", as tests/faulty_io says
  Ended watched(const Words& words, const std::string& fault) {
    fs::remove(at("calls"));
    fs::remove(log_);
    return attnlab(words, {{"LD_PRELOAD", build_tree() + "/faulty_io/faulty_io.so"},
                           {"ATTNLAB_FAULT", fault},
                           {"ATTNLAB_FAULT_BELOW", folder_.path()},
                           {"ATTNLAB_FAULT_CALLS", at("calls")},
                           {"ATTNLAB_FAULT_LOG", log_}});
  }

  std::vector<Call> calls() const {
    std::vector<Call> all;
    std::istringstream in(file_text(log_));
    for (std::string line; std::getline(in, line);) {
      const std::size_t blank = line.find(' ');
      all.push_back({line.substr(0, blank), line.substr(blank + 1)});
    }
    return all;
  }

  const std::string log_ = at("log");
};

TEST_F(Durability, OfLinesComesBeforeWhatSpeaksOfThem) {
  const Ended ended =
      watched({"run", "tiny.yaml", "train.log_every=1", "train.checkpoint_seconds=0"}, "fsync:0");
  ASSERT_EQ(ended.exit_code, 0) << ended.story();
  bool durable = true;  // whether all lines that were written are
  std::string last;     // of those that were renamed
  std::size_t written = 0, checkpoints = 0;
  for (const Call& call : calls()) {
    if (call.name() == "metrics.jsonl") {
      durable = call.what == "fsync";
      if (call.what == "write") ++written;
    }
    if (call.what != "rename") continue;
    last = call.name();
    if (last != "checkpoint.safetensors") continue;
    ++checkpoints;
    EXPECT_TRUE(durable) << "checkpoint " << checkpoints << " was there before its lines";
  }
  EXPECT_GT(written, 2U);
  EXPECT_GT(checkpoints, 1U);
  EXPECT_TRUE(durable) << "the run ended before its lines were durable";
  EXPECT_EQ(last, "status.json");
}

TEST_F(Durability, OfACheckpointTakesFewCallsHoweverManyTensorsItHas) {
  const Ended ended = watched({"run", "tiny.yaml", "train.checkpoint_seconds=0"}, "fsync:0");
  ASSERT_EQ(ended.exit_code, 0) << ended.story();
  std::ptrdiff_t written = 0, checkpoints = 0;
  for (const Call& call : calls()) {
    if (call.path.find("checkpoint.safetensors") == std::string::npos) continue;
    written += call.what == "write";
    checkpoints += call.what == "rename";
  }
  EXPECT_GT(checkpoints, 1);
  EXPECT_LE(written, 4 * checkpoints);  // 32 KiB or more each, but for the last
  EXPECT_GT(checkpoint_tensors(run_folder("tiny/standard")).size(), 50U);
}

TEST_F(Durability, OfAFinishedStatusComesAfterThatOfItsLines) {
  // No checkpoint between the last line and the status: the loss is too large, and that is the end.
  const Ended ended =
      watched({"run", "tiny.yaml", "train.log_every=1", "train.diverged_above=1e-9"}, "fsync:0");
  ASSERT_EQ(ended.exit_code, 0) << ended.story();
  ASSERT_EQ(status_of(run_folder("tiny/standard")).at("state"), "diverged");
  const std::vector<Call> all = calls();
  std::size_t status = all.size(), lines = all.size();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].what == "rename" && all[i].name() == "status.json") status = i;
    if (all[i].what == "fsync" && all[i].name() == "metrics.jsonl") lines = i;
  }
  ASSERT_LT(status, all.size());
  EXPECT_LT(lines, status);
}

TEST_F(Durability, OfANameFollowsTheRenaming) {
  const Ended ended = watched({"run", "tiny.yaml"}, "fsync:0");
  ASSERT_EQ(ended.exit_code, 0) << ended.story();
  const std::vector<Call> all = calls();
  std::size_t renamed = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].what != "rename") continue;
    ++renamed;
    const std::string folder = fs::path(all[i].path).parent_path().string();
    ASSERT_LT(i + 1, all.size()) << all[i].path;
    EXPECT_EQ(all[i + 1].what, "fsync") << all[i].path;
    EXPECT_TRUE(fs::equivalent(all[i + 1].path, folder)) << all[i + 1].path << ", " << folder;
  }
  EXPECT_GT(renamed, 4U);
}

TEST_F(Durability, ThatFailsIsTold) {
  const Ended all = watched({"run", "tiny.yaml"}, "fsync:0");
  ASSERT_EQ(all.exit_code, 0) << all.story();
  std::size_t number = 0, of_lines = 0, of_folder = 0;  // which call of fsync
  for (const Call& call : calls()) {
    if (call.what != "fsync") continue;
    ++number;
    if (call.name() == "metrics.jsonl" && of_lines == 0) of_lines = number;
    if (of_folder == 0 && fs::is_directory(call.path)) of_folder = number;
  }
  ASSERT_GT(of_lines, 0U);
  ASSERT_GT(of_folder, 0U);
  const std::pair<std::size_t, std::string> faults[] = {
      {of_lines, "metrics.jsonl: cannot write: "}, {of_folder, ": cannot make its name durable: "}};
  for (const auto& [which, message] : faults) {
    fs::remove_all(at("runs"));
    const Ended ended = watched({"run", "tiny.yaml"}, "fsync:" + std::to_string(which));
    EXPECT_NE(ended.exit_code, 0) << ended.story();
    EXPECT_THAT(ended.err, HasSubstr(message));
    must({"run", "tiny.yaml", "--resume"});
  }
}

}  // namespace
}  // namespace attnlab::testing::durability_test
