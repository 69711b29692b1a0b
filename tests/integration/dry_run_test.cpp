// `run --dry-run` finds whatever a run finds before its first step, in the same words.
#include "framework/base/files.h"
#include "tests/integration/workspace.h"

namespace attnlab::testing::dry_run_test {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

class DryRun : public Workspace {
 protected:
  /// Both end with this code and say this; the dry run writes nothing.
  void expect_both(Words words, int exit_code, const Words& said) {
    words.insert(words.begin(), "run");
    Words dry_words = words;
    dry_words.emplace_back("--dry-run");
    const std::vector<std::string> before = files_like("");
    const Ended dry = attnlab(dry_words);
    EXPECT_EQ(dry.exit_code, exit_code) << dry.story();
    EXPECT_THAT(dry.err, mentions(said)) << dry.story();
    EXPECT_THAT(files_like(""), UnorderedElementsAreArray(before)) << "a dry run writes nothing";
    const Ended whole = attnlab(words);
    EXPECT_EQ(whole.exit_code, dry.exit_code) << whole.story();
    EXPECT_EQ(whole.err, dry.err);
  }
};

TEST_F(DryRun, FindsWhatIsWrongWithTheTrainingBeforeAFolderIsMade) {
  const std::vector<std::pair<Words, Words>> wrong = {
      {{"tiny.yaml", "train.schedule.warmup_epochs=3"},
       {"attnlab run: argument 'train.schedule.warmup_epochs=3': train.schedule.warmup_epochs: ",
        "12 steps", "8 steps", "shorten the warm-up"}},
      {{"tiny.yaml", "train.steps=2", "train.schedule.warmup_steps=3"},
       {"train.schedule.warmup_steps: ", "3 steps", "2 steps"}},
      {{"timeseries_synthetic", "train.optimizer.layer_decay=0.5"},
       {"argument 'train.optimizer.layer_decay=0.5': train.optimizer.layer_decay: ",
        "how deep its layers are"}},
      {{"tiny.yaml", "train.optimizer.groups={head: {match: [haed.*]}}"},
       {"train.optimizer.groups.head.match: ", "'haed.*'", "did you mean"}},
      {{"tiny.yaml", "dataset.validation=16", "train.protocol=sound",
        "train.early_stop.metric=acuracy"},
       {"argument 'train.early_stop.metric=acuracy': train.early_stop.metric: ", "'acuracy'",
        "did you mean 'accuracy'?"}},
      {{"tiny.yaml", "init.from=lost.safetensors"}, {"lost.safetensors"}},
      {{"tiny.yaml", "--ensemble"}, {"--ensemble: ", "model 'vit'", "leave it out"}},
  };
  for (const auto& [words, said] : wrong) expect_both(words, 2, said);
  EXPECT_FALSE(exists("runs"));
}

TEST_F(DryRun, FindsWhatTheFirstBatchShows) {
  expect_both({"tiny.yaml", "model=resnet", "trace.every=1"}, 1,
              {"the run failed: trace: ", "no attention layer"});
}

TEST_F(DryRun, FindsWhatIsWrongWithTheRunsFolder) {
  must({"run", "tiny.yaml"});
  const std::string folder = run_folder("tiny/standard");
  const std::string shown = folder.substr(at("").size());  // as seen from where it is called
  EXPECT_THAT(must({"run", "tiny.yaml", "--dry-run"}).out, HasSubstr("would go to " + shown));
  call_interrupted(folder);
  expect_both({"tiny.yaml"}, 2, {"interrupted at step 8", "--resume"});
  const std::string checkpoint = folder + "/checkpoint.safetensors";
  write_file(checkpoint, file_text(checkpoint).substr(0, 1000));
  expect_both({"tiny.yaml", "--resume"}, 1,
              {shown + ": the run failed: " + shown + "/checkpoint.safetensors: "});
  folder_.write("file", "");
  expect_both({"tiny.yaml", "--out", "file"}, 2,
              {"run's folder", "Not a directory", "the folder above"});
}

}  // namespace
}  // namespace attnlab::testing::dry_run_test
