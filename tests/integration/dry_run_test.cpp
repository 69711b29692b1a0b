// `run --dry-run` finds whatever a run finds before its first step, in the same words.
#include "framework/base/files.h"
#include "tests/integration/workspace.h"

namespace attnlab::testing::dry_run_test {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

class DryRun : public Workspace {
 protected:
  /// Both end with this code and this text; the dry run writes nothing.
  void expect_both(Words words, int exit_code, const std::string& message) {
    words.insert(words.begin(), "run");
    Words dry_words = words;
    dry_words.emplace_back("--dry-run");
    const std::vector<std::string> before = files_like("");
    const Ended dry = attnlab(dry_words);
    EXPECT_EQ(dry.exit_code, exit_code) << dry.story();
    EXPECT_THAT(dry.err, HasSubstr(message)) << dry.story();
    EXPECT_THAT(files_like(""), UnorderedElementsAreArray(before)) << "a dry run writes nothing";
    const Ended whole = attnlab(words);
    EXPECT_EQ(whole.exit_code, dry.exit_code) << whole.story();
    EXPECT_EQ(whole.err, dry.err);
  }
};

TEST_F(DryRun, FindsWhatIsWrongWithTheTrainingBeforeAFolderIsMade) {
  const std::vector<std::pair<Words, std::string>> wrong = {
      {{"tiny.yaml", "train.schedule.warmup_epochs=3"},
       "attnlab run: argument 'train.schedule.warmup_epochs=3': train.schedule.warmup_epochs: 12 "
       "steps of warm-up do not fit into 8 steps; train longer or shorten the warm-up\n"},
      {{"tiny.yaml", "train.steps=2", "train.schedule.warmup_steps=3"},
       "train.schedule.warmup_steps: 3 steps of warm-up do not fit into 2 steps"},
      {{"timeseries_synthetic", "train.optimizer.layer_decay=0.5"},
       "argument 'train.optimizer.layer_decay=0.5': train.optimizer.layer_decay: the model does "
       "not say how deep its layers are"},
      {{"tiny.yaml", "train.optimizer.groups={head: {match: [haed.*]}}"},
       "train.optimizer.groups.head.match: 'haed.*' is the name of no trained parameter; did you"},
      {{"tiny.yaml", "dataset.validation=16", "train.protocol=sound",
        "train.early_stop.metric=acuracy"},
       "argument 'train.early_stop.metric=acuracy': train.early_stop.metric: the task gives no "
       "'acuracy'; did you mean 'accuracy'?"},
      {{"tiny.yaml", "init.from=lost.safetensors"}, "lost.safetensors"},
      {{"tiny.yaml", "--ensemble"},
       "--ensemble: model 'vit' does not hold several members; leave it out"},
  };
  for (const auto& [words, message] : wrong) expect_both(words, 2, message);
  EXPECT_FALSE(exists("runs"));
}

TEST_F(DryRun, FindsWhatTheFirstBatchShows) {
  expect_both({"tiny.yaml", "model=resnet", "trace.every=1"}, 1,
              "the run failed: trace: no attention layer of the model recorded anything");
}

TEST_F(DryRun, FindsWhatIsWrongWithTheRunsFolder) {
  must({"run", "tiny.yaml"});
  const std::string folder = run_folder("tiny/standard");
  const std::string shown = folder.substr(at("").size());  // as seen from where it is called
  EXPECT_THAT(must({"run", "tiny.yaml", "--dry-run"}).out, HasSubstr("would go to " + shown));
  call_interrupted(folder);
  expect_both({"tiny.yaml"}, 2, "this run was begun and is interrupted at step 8; add --resume");
  const std::string checkpoint = folder + "/checkpoint.safetensors";
  write_file(checkpoint, file_text(checkpoint).substr(0, 1000));
  expect_both({"tiny.yaml", "--resume"}, 1,
              shown + ": the run failed: " + shown + "/checkpoint.safetensors: ");
  folder_.write("file", "");
  expect_both({"tiny.yaml", "--out", "file"}, 2,
              "cannot create the run's folder: Not a directory; look at the folder above it");
}

}  // namespace
}  // namespace attnlab::testing::dry_run_test
