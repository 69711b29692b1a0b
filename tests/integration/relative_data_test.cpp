// Relative paths of data lead where they led when a run was begun, from whatever folder it goes on,
// is rehearsed, is evaluated or is described. (One run: eval_test.cpp.)
#include <filesystem>

#include "tests/integration/workspace.h"

namespace attnlab::testing::relative_data_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// Runs whose data and whose evaluation's data are in folders beside the experiment.
class RelativeData : public Workspace {
 protected:
  /// Begins a run of one seed in a folder of its own, with data of its own.
  /// @returns the run's folder
  std::string begun_in(const std::string& folder, int seed) {
    for (const char* data : {"data", "other"}) {
      const std::string below = folder + "/" + data + "/Set/Set_";
      const int offset = 100 * ++sets_;
      folder_.write(below + "TRAIN.ts", series(20, offset));
      folder_.write(below + "TEST.ts", series(10, offset));
    }
    folder_.write(folder + "/files.yaml", R"(schema: 1
model: toy_transformer
attention: qknorm
task: sequence_classification
dataset: {use: uea, name: Set, root: data}
train: {epochs: 2, batch_size: 4, threads: 1, tensorboard: false, schedule: {shape: constant}}
evaluate: {other: {set: {dataset: {root: other}}}}
)");
    must_from(folder, {"run", "files.yaml", "seeds=[" + std::to_string(seed) + "]", "--out",
                       at("runs") + "/" + folder});
    return run_folder(folder + "/files/qknorm", seed);
  }
  Ended must_from(const std::string& folder, const Words& words) const {
    Invocation there = invocation(words);
    there.folder = at(folder);
    const Ended ended = testing::run(there);
    EXPECT_EQ(ended.exit_code, 0) << ended.story();
    return ended;
  }
  /// From a folder that has none of the data.
  Ended must_from_elsewhere(const Words& words) const {
    fs::create_directories(at("elsewhere"));
    return must_from("elsewhere", words);
  }
  static void forget_evaluations(const std::string& run) { fs::remove_all(run + "/evaluations"); }
  static std::string evaluation(const std::string& run) {
    std::error_code error;
    for (const auto& file : fs::directory_iterator(run + "/evaluations", error)) {
      return file_text(file.path().string());
    }
    return "";
  }

 private:
  /// Two classes, which differ in their first value.
  static std::string series(int count, int offset) {
    std::string text = "@dimensions 2\n@classLabel true a b\n@data\n";
    for (int i = 0; i < count; ++i) {
      text += std::to_string(i % 2) + "," + std::to_string(i + offset) + ",2,3:4,3,2,1:";
      text += i % 2 == 0 ? "a\n" : "b\n";
    }
    return text;
  }

  int sets_ = 0;  // written so far: each has other numbers
};

TEST_F(RelativeData, IsFoundWhereARunIsRehearsedOrDescribed) {
  const std::string run = begun_in("first", 0), source = "/first/data/Set";
  EXPECT_THAT(must_from_elsewhere({"describe", run, "--summary"}).out,
              HasSubstr("forward pass of"));
  EXPECT_THAT(must_from_elsewhere({"run", run, "--dry-run"}).out, HasSubstr(source));
  call_interrupted(run);
  EXPECT_THAT(must_from_elsewhere({"run", run, "--resume", "--dry-run"}).out, HasSubstr(source));
}

TEST_F(RelativeData, IsFoundForFinishedRunsOfAnEnsemble) {
  const std::string run = begun_in("first", 0), other = begun_in("second", 1);
  forget_evaluations(run);
  forget_evaluations(other);
  must_from_elsewhere({"run", run, other, "--ensemble"});
  EXPECT_THAT(evaluation(run), HasSubstr("\"done\""));
  EXPECT_THAT(evaluation(other), HasSubstr("\"done\""));
}

TEST_F(RelativeData, IsOfEachRunItselfWhereAnEnsembleGoesOn) {
  const std::string run = begun_in("first", 0), other = begun_in("second", 1);
  forget_evaluations(run);
  const std::string before = evaluation(other);
  fs::remove_all(at("second/other"));  // what is evaluated already needs no data
  call_interrupted(run);
  call_interrupted(other);
  const std::string shown =
      must_from_elsewhere({"run", run, other, "--ensemble", "--resume", "--dry-run"}).out;
  EXPECT_THAT(shown, mentions("/first/data/Set", "/second/data/Set"));
  must_from_elsewhere({"run", run, other, "--ensemble", "--resume"});
  EXPECT_EQ(status_of(run).at("state"), "done");
  EXPECT_EQ(status_of(other).at("state"), "done");
  EXPECT_THAT(evaluation(run), HasSubstr("\"done\""));
  EXPECT_EQ(evaluation(other), before);
}

}  // namespace
}  // namespace attnlab::testing::relative_data_test
