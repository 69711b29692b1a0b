// What another process does to a run between the look at its status and the lock: the library below
// the program (tests/faulty_io) holds it there.
#include <filesystem>

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
    Environment environment = with_fault(folder_.path(), "fsync:0");
    environment["ATTNLAB_FAULT_HOLD"] = "lock";
    const std::string held = environment.at("ATTNLAB_FAULT_CALLS") + ".held";
    Process process(invocation(words, environment));
    EXPECT_TRUE(wait_for([&] { return fs::exists(held) || !process.running(); }));
    EXPECT_TRUE(process.running());
    for (const auto& [path, text] : statuses) write_text(path, text);
    fs::remove(held);
    return process.wait();
  }

  static std::string status_text(const std::string& folder) {
    return file_text(folder + "/status.json");
  }

 private:
  void write_text(const std::string& path, const std::string& text) {
    folder_.write(fs::relative(path, folder_.path()).string(), text);
  }
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

}  // namespace
}  // namespace attnlab::testing::meanwhile_test
