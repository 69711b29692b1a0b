// attnlab sample: text of a trained language model.
#include <csignal>
#include <filesystem>

#include "tests/integration/workspace.h"

namespace attnlab::testing::sample_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class Sample : public Workspace {
 protected:
  /// A run of a few steps on a text of few characters.
  std::string trained(const std::string& model) const {
    std::string text;
    for (int i = 0; i < 200; ++i) text += "abc cab bca\nacb bac cba\n";
    folder_.write("text/train.txt", text);
    folder_.write("text/test.txt", text);
    folder_.write(model + ".yaml",
                  "schema: 1\nmodel: {use: " + model +
                      ", dim: 16, depth: 2, heads: 2}\nattention: {use: quest}\n"
                      "task: {use: language_modelling, unit: character}\n"
                      "dataset: {use: text_stream, root: text, unit: character, window: 8}\n"
                      "train: {steps: 40, epochs: 1, batch_size: 16, optimizer: {lr: 0.01}}\n");
    must({"run", model + ".yaml"});
    return run_folder(model + "/quest");
  }
  std::string written(const std::string& run, Words more) const {
    Words words = {"sample", run, "--tokens", "30"};
    words.insert(words.end(), more.begin(), more.end());
    return must(words).out;
  }
};

TEST_F(Sample, WritesThePromptAndWhatFollows) {
  for (const std::string& model : {std::string("transformer_lm"), std::string("transformer_xl")}) {
    const std::string run = trained(model);
    const std::string text = written(run, {"--prompt", "abc c"});
    EXPECT_THAT(text, StartsWith("abc c"));
    EXPECT_EQ(text.find_first_not_of("abc \n"), std::string::npos) << text;
    EXPECT_EQ(text.back(), '\n');
    EXPECT_GE(text.size(), 35U) << "five characters, and thirty";
    EXPECT_LE(text.size(), 36U);
    EXPECT_EQ(written(run, {"--prompt", "abc c"}), text) << "the same seed";
    EXPECT_NE(written(run, {"--prompt", "abc c", "--seed", "1"}), text);
    const std::string likeliest = written(run, {"--temperature", "0"});
    EXPECT_EQ(written(run, {"--temperature", "0", "--seed", "5"}), likeliest);
    EXPECT_EQ(written(run, {"--top-k", "1", "--seed", "5"}), likeliest);
    EXPECT_EQ(must({"sample", run, "--prompt", "ab", "--tokens", "0"}).out, "ab\n");
  }
}

TEST_F(Sample, WritesAsItGoesAndEndsCleanlyWhenItIsInterrupted) {
  const std::string run = trained("transformer_lm");
  Invocation call = invocation({"sample", run, "--tokens", "100000000", "--prompt", "abc"});
  const Words shell = {"bash", "-c", "exec \"$0\" \"$@\" > written.txt"};
  call.words.insert(call.words.begin(), shell.begin(), shell.end());
  Process process(call);
  ASSERT_TRUE(wait_for([&] { return file_text(at("written.txt")).size() > 50; }));
  EXPECT_TRUE(process.running());
  process.send(SIGINT);
  const Ended ended = process.wait();
  EXPECT_EQ(ended.exit_code, 130) << ended.story();
  EXPECT_EQ(ended.err, "");
  const std::string text = file_text(at("written.txt"));
  EXPECT_THAT(text, StartsWith("abc"));
  EXPECT_EQ(text.back(), '\n');
}

TEST_F(Sample, SaysWhatIsWrong) {
  must({"run", "tiny.yaml"});
  EXPECT_THAT(refusal({"sample", run_folder("tiny/standard")}),
              HasSubstr("dataset 'synthetic_images' has no text"));
  EXPECT_THAT(refusal({"sample", "no/such/run"}), HasSubstr("no/such/run"));
  const std::string run = trained("transformer_lm");
  EXPECT_THAT(refusal({"sample", run, "--tokens", "-1"}), HasSubstr("--tokens: -1 is less than 0"));
  EXPECT_THAT(refusal({"sample", run, "--temperature", "-0.5"}), HasSubstr("--temperature: -0.5"));
  EXPECT_THAT(refusal({"sample", run, "--prompt="}), HasSubstr("--prompt"));
  EXPECT_THAT(refusal({"sample", run, "--prompt", "abz"}), HasSubstr("z"));
}

TEST_F(Sample, RefusesARunWhoseDataChangedUnlessToldTo) {
  const std::string run = trained("transformer_lm");
  const std::string text = file_text(at("text/train.txt"));
  folder_.write("text/train.txt", "cba" + text.substr(3));
  for (const Words& words : {Words{"sample", run, "--tokens", "3"}, Words{"eval", run}}) {
    Words accepting = words;
    accepting.push_back("--accept-changes");
    const Ended ended = attnlab(words);
    EXPECT_EQ(ended.exit_code, 2) << ended.story();
    EXPECT_THAT(ended.err,
                mentions(run + ": since this run began", "data of dataset 'text_stream'"));
    must(accepting);
  }
  folder_.write("text/train.txt", text);
  must({"eval", run});
  // Data that an evaluation names are not the run's.
  folder_.write("other/train.txt", text);
  folder_.write("other/test.txt", "bca abc\n" + text);
  folder_.write("asked.yaml", "evaluate: {other: {set: {dataset: {root: other}}}}\n");
  must({"eval", run, "--with", "asked.yaml"});
}

TEST_F(Sample, ModelsAreRefusedUnderAttentionsThatCannotServeThem) {
  trained("transformer_lm");
  const auto refusal = [&](const std::string& model, const std::string& attention) {
    const Ended ended = attnlab({"validate", "transformer_lm.yaml", "model.use=" + model,
                                 "attention={use: " + attention + "}"});
    EXPECT_EQ(ended.exit_code, 2) << ended.story();
    return ended.err;
  };
  EXPECT_THAT(refusal("transformer_lm", "doubly_stochastic"), HasSubstr("causal"));
  EXPECT_THAT(refusal("transformer_xl", "linear"), HasSubstr("relative_positions"));
  EXPECT_THAT(refusal("transformer_xl", "cosine"), HasSubstr("relative_positions"));
  must({"validate", "transformer_lm.yaml", "attention={use: linear}"});
}

// The evaluations that it lacks wait; the other runs do not.
TEST_F(Sample, OneRunWhoseDataChangedKeepsNoOtherBack) {
  trained("transformer_lm");
  folder_.write("transformer_lm.yaml", file_text(at("transformer_lm.yaml")) +
                                           "evaluate: {short: {set: {dataset: {window: 4}}}}\n");
  must({"run", "transformer_lm.yaml", "seeds=[1,2]"});
  Words again = {"run", "--resume"};
  for (const int seed : {1, 2}) {
    again.push_back(run_folder("transformer_lm/quest", seed));
    ASSERT_GT(std::filesystem::remove_all(again.back() + "/evaluations"), 0U);
  }
  folder_.write("text/train.txt", "cba" + file_text(at("text/train.txt")).substr(3));
  const Ended ended = attnlab(again);
  EXPECT_EQ(ended.exit_code, 1) << ended.story();
  for (const int seed : {1, 2}) {
    EXPECT_THAT(ended.err, mentions("left out: " + run_folder("transformer_lm/quest", seed) +
                                        ": since this run began",
                                    "data of dataset"));
  }
}

}  // namespace
}  // namespace attnlab::testing::sample_test
