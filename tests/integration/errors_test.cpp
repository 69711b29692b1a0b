// Bad input: a clear error with its place, the right exit code, nothing half-written.
#include <csignal>
#include <filesystem>
#include <sstream>

#include "tests/integration/workspace.h"
#include "tests/support/data_files.h"

namespace attnlab::testing::errors_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class BadInput : public Workspace {
 protected:
  /// `run` refuses with exit code 2 and so many lines that say this, and leaves nothing behind.
  void expect_refused(const Words& words, std::vector<Words> lines) {
    lines.front().insert(lines.front().begin(), "attnlab run: ");
    lines.emplace_back();  // behind the last line's end
    EXPECT_THAT(refused(words).err, says_lines(lines));
  }
  Ended refused(Words words) {
    words.insert(words.begin(), "run");
    const Ended ended = attnlab(words, {{"ATTNLAB_DATA", at("nothing")}});
    EXPECT_EQ(ended.exit_code, 2) << ended.story();
    EXPECT_FALSE(exists("runs"));
    return ended;
  }
  /// An experiment on IDX files in the folder `data`, sound until a test breaks one.
  void write_idx_experiment() {
    std::string pixels;
    for (std::size_t k = 0; k < 32 * 64; ++k) {
      pixels += static_cast<char>(test_pixel(k / 64, k % 64));
    }
    std::string labels;
    for (int i = 0; i < 32; ++i) labels += static_cast<char>(i % 10);
    for (const char* split : {"train", "t10k"}) {
      folder_.write("data/" + std::string(split) + "-images-idx3-ubyte",
                    idx_file({32, 8, 8}, pixels));
      folder_.write("data/" + std::string(split) + "-labels-idx1-ubyte", idx_file({32}, labels));
    }
    folder_.write("idx.yaml",
                  "schema: 1\nextends: tiny.yaml\n"
                  "model: {patch_size: 4}\ndataset: {use: idx_images, root: data}\n");
  }
  void expect_corrupt(const std::string& file, const std::string& bytes, Words said) {
    write_idx_experiment();
    must({"run", "idx.yaml", "--dry-run"});
    folder_.write("data/" + file, bytes);
    said.push_back("data/" + file + ": ");
    expect_refused({"idx.yaml"}, {said});
  }
};

TEST_F(BadInput, ReportsEveryProblemAtOnceWithItsPlace) {
  folder_.write("bad.yaml",
                "schema: 1\nextends: tiny.yaml\n"
                "modle: {dim: 3}\n"
                "model: {dmi: 32, depth: deep}\n"
                "train:\n  bach_size: 8\n  epochs: 010\n  batch_size: 0\n"
                "  schedule: {shape: cosin}\n"
                "seeds: 3\n");
  expect_refused({"bad.yaml"},
                 {{"bad.yaml:10:8: seeds: ", "expected a list", "found 3", "[3]"},
                  {"bad.yaml:4:9: model: ", "'dmi'", "model 'vit'", "did you mean 'dim'?"},
                  {"bad.yaml:4:25: model.depth: ", "expected an integer", "found deep"},
                  {"bad.yaml:3:1: ", "'modle'", "did you mean 'model'?"},
                  {"bad.yaml:6:3: train: ", "'bach_size'", "did you mean 'batch_size'?"},
                  {"bad.yaml:7:11: train.epochs: ", "expected an integer", "found \"010\"",
                   "leading zeros", "did you mean '10'?"},
                  {"bad.yaml:8:15: train.batch_size: ", "0 is out of range", "int >= 1"},
                  {"bad.yaml:9:21: train.schedule.shape: ", "'cosin'", "inverse_root",
                   "did you mean 'cosine'?"}});
}

TEST_F(BadInput, NamesTheArgumentThatIsWrong) {
  expect_refused({"tiny.yaml", "train.optimizer.lr=fast"},
                 {{"argument 'train.optimizer.lr=fast': train.optimizer.lr: ", "expected a number",
                   "found fast"}});
}

TEST_F(BadInput, AsksForMandatoryValues) {
  folder_.write("open.yaml", "schema: 1\nextends: tiny.yaml\nmodel:\n  dim: ???\n");
  expect_refused({"open.yaml"},
                 {{"open.yaml:4:8: model.dim: ", "must be given", "int in [0, 16777216]"}});
  must({"run", "open.yaml", "model.dim=16", "--dry-run"});
}

TEST_F(BadInput, NamesAnUnknownPluginAndItsNeighbour) {
  folder_.write("bad.yaml", "schema: 1\nextends: tiny.yaml\nattention: {use: qwest}\n");
  expect_refused({"bad.yaml"}, {{"bad.yaml:3:18: attention: ", "'qwest'", "did you mean 'quest'?",
                                 "attnlab list --explain"}});
}

TEST_F(BadInput, NamesAnOptionThatOnlyThePluginKnowsToBeWrong) {
  folder_.write("bad.yaml", "schema: 1\nextends: tiny.yaml\nmodel: {heads: 3}\n");
  expect_refused({"bad.yaml"},
                 {{"bad.yaml:3:16: model 'vit': heads: ", "3 heads", "divide dim 16"}});
}

TEST_F(BadInput, RefusesAnEpochWithoutEndBeforeItTakesMemory) {
  const Ended ended = refused({"tiny.yaml", "train.batching.repeat=1000000000"});
  EXPECT_THAT(ended.err,
              mentions("argument 'train.batching.repeat=1000000000': train.batching.repeat: ",
                       "1000000000 times ", "less often"));
}

TEST_F(BadInput, RefusesPathsThatAreEmpty) {
  expect_refused({"tiny.yaml", "--out", ""}, {{"--out: is empty", "--out DIR"}});
  EXPECT_THAT(refusal({"eval", "some/run", "--examples", ""}),
              mentions("--examples: is empty", "--examples PATH"));
  EXPECT_THAT(refusal({"detect", "some/run", "--image", "one.png", ""}),
              mentions("--image: is empty", "--image FILE"));
}

TEST_F(BadInput, NamesFilesThatAreNotThere) {
  expect_refused({"nowhere.yaml"}, {{"nowhere.yaml: ", "no such file"}});
  folder_.write("bad.yaml", "schema: 1\nextends: [tiny.yaml, lost.yaml]\n");
  expect_refused({"bad.yaml"}, {{"bad.yaml:2:22: lost.yaml: ", "No such file"}});
  fs::create_directory(at("lost.yaml"));
  expect_refused({"bad.yaml"}, {{"bad.yaml:2:22: lost.yaml: ", "cannot read", "a folder"}});
}

TEST_F(BadInput, NamesTheCircleOfExtends) {
  folder_.write("a.yaml", "schema: 1\nextends: b.yaml\n");
  folder_.write("b.yaml", "extends: [tiny.yaml, a.yaml]\n");
  expect_refused({"a.yaml"}, {{"b.yaml:1:22: ", "extends itself", "a.yaml -> b.yaml -> a.yaml"}});
}

TEST_F(BadInput, NamesThePlaceWhereYamlEnds) {
  folder_.write("bad.yaml", "schema: 1\nmodel: {use: vit\n");
  EXPECT_THAT(refused({"bad.yaml"}).err, HasSubstr("bad.yaml:3:1: "));
}

TEST_F(BadInput, NamesEveryFolderWhereDataAreMissing) {
  folder_.write("lost.yaml",
                "schema: 1\nextends: tiny.yaml\nmodel: {patch_size: 4}\n"
                "dataset: {use: idx_images, name: no-such-images}\n");
  const Ended ended = refused({"lost.yaml"});
  EXPECT_THAT(ended.err, mentions("data of 'no-such-images'", "looked in\n",
                                  "  " + at("nothing/no-such-images") + ": no such folder\n",
                                  "option `root`"));
}

TEST_F(BadInput, NamesADataFileOfAnotherKind) {
  expect_corrupt("train-images-idx3-ubyte", "PK\3\4" + std::string(2060, 'x'),
                 {"0x504b0304", "an IDX file of images has 0x00000803", "another file"});
}

TEST_F(BadInput, NamesADataFileThatIsCutShort) {
  expect_corrupt("t10k-images-idx3-ubyte", idx_file({32, 8, 8}, std::string(2000, 'x')),
                 {"32 x 8 x 8 bytes", "2000 follow", "fetch the file again"});
}

TEST_F(BadInput, NamesALabelThatIsOutOfRange) {
  std::string labels(32, '\1');
  labels[20] = 10;
  write_idx_experiment();
  folder_.write("data/train-labels-idx1-ubyte", idx_file({32}, labels));
  const Ended ended = refused({"idx.yaml"});
  EXPECT_THAT(ended.err, AllOf(HasSubstr("data/train-labels-idx1-ubyte: "), HasSubstr("20"),
                               HasSubstr("28"), HasSubstr("10")));
}

TEST_F(BadInput, NeedsResumeForARunThatWasBegun) {
  const Words words = {"run", "tiny.yaml", "train.epochs=1"};
  must(words);
  const std::string run = run_folder("tiny/standard");
  nlohmann::json status = status_of(run);
  status["state"] = "running";  // as a kill would leave it
  status.erase("check");
  folder_.write(run.substr(folder_.path().size() + 1) + "/status.json", status.dump());
  EXPECT_THAT(refusal(words), mentions("running at step 4", "--resume", "remove the folder"));
  const Ended frozen = attnlab({"run", run, "train.epochs=2"});
  EXPECT_EQ(frozen.exit_code, 2);
  EXPECT_THAT(frozen.err, HasSubstr("configuration is frozen"));
}

/// What the `end` events say of a progress in JSON.
std::vector<std::string> ends_in(const std::string& progress) {
  std::vector<std::string> ends;
  std::istringstream lines(progress);
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json event = nlohmann::json::parse(line);
    if (event.at("event") == "end") ends.push_back(event.at("text").get<std::string>());
  }
  return ends;
}

class FullDisk : public Workspace {};

TEST_F(FullDisk, FailsTheRunAndLeavesTheEarlierCheckpointAsItWas) {
  const Words words = {"run", "tiny.yaml", "dataset.train=480", "train.epochs=1",
                       "train.checkpoint_seconds=0"};
  must(words);
  const std::string whole = run_folder("tiny/standard");
  const auto expected = checkpoint_tensors(whole);
  const auto size = static_cast<std::int64_t>(fs::file_size(whole + "/checkpoint.safetensors"));
  fs::rename(at("runs"), at("finished"));

  // No room for the first checkpoint.
  Invocation limited = invocation(words);
  limited.largest_file = size / 2;
  for (const char* word : {"--progress", "json"}) limited.words.emplace_back(word);
  const Ended first = run(limited);
  const std::string folder = run_folder("tiny/standard");
  const std::string reason = folder.substr(folder_.path().size() + 1) +
                             "/checkpoint.safetensors: cannot write: File too large";
  EXPECT_EQ(first.exit_code, 1) << first.story();
  EXPECT_THAT(first.err, HasSubstr("the run failed: " + reason));
  EXPECT_THAT(ends_in(first.out), ElementsAre("failed: " + reason));
  EXPECT_EQ(status_of(folder).at("state"), "failed");
  EXPECT_EQ(status_of(folder).at("reason"), reason);
  EXPECT_THAT(files_like(".tmp"), IsEmpty());
  EXPECT_FALSE(fs::exists(folder + "/checkpoint.safetensors"));

  // Some of the steps done, then no room again.
  {
    Process some(invocation({"run", folder, "--resume"}));
    ASSERT_TRUE(wait_for([&] { return fs::exists(folder + "/checkpoint.safetensors"); }));
    some.send(SIGTERM);
    EXPECT_EQ(some.wait().exit_code, 130);
  }
  const std::string earlier = file_text(folder + "/checkpoint.safetensors");
  limited.words.push_back("--resume");
  const Ended second = run(limited);
  EXPECT_EQ(second.exit_code, 1) << second.story();
  EXPECT_THAT(second.err, HasSubstr(reason));
  EXPECT_EQ(file_text(folder + "/checkpoint.safetensors"), earlier);
  EXPECT_EQ(status_of(folder).at("state"), "failed");
  EXPECT_THAT(files_like(".tmp"), IsEmpty());

  // With room it goes on to the same end.
  must({"run", folder, "--resume"});
  EXPECT_EQ(status_of(folder).at("state"), "done");
  EXPECT_EQ(checkpoint_tensors(folder), expected);
}

}  // namespace
}  // namespace attnlab::testing::errors_test
