// Runs: what they record, divergence as a result, the same weights and data under every attention.
#include <filesystem>
#include <set>

#include "framework/base/files.h"
#include "framework/base/processor.h"
#include "tests/integration/workspace.h"

namespace attnlab::testing::run_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Run : public Workspace {
 protected:
  std::vector<double> losses(const std::string& below, int seed = 0) const {
    std::vector<double> all;
    for (const json& line : metric_lines(run_folder(below, seed), "train")) {
      all.push_back(line.at("loss"));
    }
    return all;
  }
};

/// Has a run's folder stand twice, the second as of other data and begun later.
void train_again(const std::string& folder) {
  namespace fs = std::filesystem;
  const std::string again = (fs::path(folder).parent_path() / "0-ffffffff").string();
  fs::copy(folder, again, fs::copy_options::recursive);
  json environment = json::parse(file_text(again + "/environment.json"));
  environment["started"] = "2100-01-01T00:00:00Z";
  write_file(again + "/environment.json", environment.dump());
  json status = status_of(again);  // which knows that file
  status.erase("check");
  status.erase("files");
  write_file(again + "/status.json", status.dump());
}

TEST_F(Run, SaysThatItBeganWithARunThatIsAnotherByNow) {
  folder_.write("tuned.yaml", "schema: 1\nextends: tiny.yaml\ninit: {experiment: tiny.yaml}\n");
  folder_.write("both.yaml",
                "schema: 1\nattentions: [standard]\nexperiments: [tiny.yaml, tuned.yaml]\n");
  for (const char* name : {"tiny.yaml", "tuned.yaml"}) must({"run", name});
  must({"suite", "both.yaml"});
  const std::string tuned = run_folder("tuned/standard");
  const auto note = HasSubstr("it began with tiny/standard/0-");
  for (const Words& words :
       {Words{"run", "tuned.yaml"}, Words{"run", tuned}, Words{"suite", "both.yaml"}}) {
    EXPECT_THAT(must(words).out, Not(note)) << words[1];
  }
  train_again(run_folder("tiny/standard"));
  train_again(run_folder("both/tiny/standard"));
  for (const Words& words : {Words{"run", "tuned.yaml"}, Words{"run", tuned}}) {
    EXPECT_THAT(must(words).out, AllOf(note, mentions("done before", "run of 'tiny.yaml'",
                                                      "tiny/standard/0-ffffffff", "remove")))
        << words[1];
  }
  EXPECT_THAT(must({"suite", "both.yaml"}).out,
              AllOf(mentions("tuned/standard/0: ", "other weights now: "), note));
}

TEST_F(Run, RecordsWhatItDidAndWithWhat) {
  must({"run", "tiny.yaml", "attention=quest", "seeds=[3]"});
  const std::string folder = run_folder("tiny/quest", 3);
  const json status = status_of(folder);
  EXPECT_EQ(status.at("state"), "done");
  EXPECT_EQ(status.at("step"), 8);
  EXPECT_EQ(status.at("steps"), 8);
  EXPECT_GT(status.at("seconds"), 0);
  EXPECT_GT(status.at("processor_seconds"), 0);
  EXPECT_FALSE(status.contains("device_seconds")) << "no GPU was used";
  EXPECT_THAT(must({"status", "runs"}).out, HasSubstr("of processor time"));
  for (const char* metric : {"accuracy", "top5", "nll", "train_loss", "examples_per_second"}) {
    EXPECT_TRUE(status.at("metrics").at(metric).is_number()) << metric;
  }
  const json environment = json::parse(file_text(folder + "/environment.json"));
  EXPECT_EQ(environment.at("attention").at("id"), "attnlab/quest");
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {  // OpenBLAS takes these where it does not know a processor
    EXPECT_THAT(environment.at("libtorch").at("blas_core").get<std::string>(),
                ::testing::Not(::testing::AnyOf("Prescott", "Nehalem")));
  }
#endif
  EXPECT_EQ(environment.at("attention").at("hash").get<std::string>().size(), 16U);
  EXPECT_THAT(file_text(folder + "/origins.txt"),
              HasSubstr("argument 'attention=quest': attention.use = quest\n"));
  EXPECT_THAT(file_text(folder + "/config.yaml"), HasSubstr("seeds: [3]"));
  const std::vector<json> lines = metric_lines(folder);
  ASSERT_EQ(lines.size(), 10U);  // eight steps, a test at the end of each epoch
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(lines[i].at("step"), i + 1);
  EXPECT_EQ(lines[4].at("split"), "test");
  EXPECT_EQ(lines[9].at("accuracy"), status.at("metrics").at("accuracy"));
}

TEST_F(Run, IsEvaluatedAgainToTheSameNumbers) {
  must({"run", "tiny.yaml"});
  const std::string folder = run_folder("tiny/standard");
  json recorded = timeless_metrics(folder);
  recorded.erase("train_loss");
  EXPECT_EQ(json::parse(must({"eval", folder, "--json"}).out), recorded);
  EXPECT_EQ(json::parse(file_text(folder + "/evaluation.json")), recorded);
  EXPECT_THAT(must({"eval", folder}).out, HasSubstr("accuracy"));
}

TEST_F(Run, CannotBeEvaluatedBeforeItsFirstCheckpoint) {
  must({"run", "tiny.yaml", "train.diverged_above=0.01"});
  EXPECT_THAT(refusal({"eval", run_folder("tiny/standard")}), HasSubstr("no checkpoint yet"));
}

TEST_F(Run, DivergesWhenItsLossIsNotFinite) {
  // The second step meets weights of 1e30 and more.
  EXPECT_THAT(must({"run", "tiny.yaml", "train.optimizer.lr=1e30"}).out, HasSubstr("diverged"));
  const json status = status_of(run_folder("tiny/standard"));
  EXPECT_EQ(status.at("state"), "diverged");
  EXPECT_THAT(status.at("reason").get<std::string>(), HasSubstr("nan at step "));
  EXPECT_EQ(status.at("metrics"), json::object());
  EXPECT_LT(status.at("step"), 8);
}

TEST_F(Run, DivergesAboveTheLossThatWasSetAndIsFinishedThen) {
  const Words words = {"run", "tiny.yaml", "train.diverged_above=0.01"};
  must(words);
  const json status = status_of(run_folder("tiny/standard"));
  EXPECT_EQ(status.at("state"), "diverged");
  EXPECT_THAT(status.at("reason").get<std::string>(), HasSubstr(" at step 1"));
  EXPECT_THAT(must(words).out, HasSubstr("diverged before"));
}

TEST_F(Run, StartsFromTheSameWeightsUnderEveryAttention) {
  for (const char* attention : {"standard", "quest"}) {
    must({"run", "tiny.yaml", "train.optimizer.lr=0", "train.epochs=1", "seeds=[0, 1]",
          std::string("attention=") + attention});
  }
  const auto standard = model_tensors(run_folder("tiny/standard"));
  EXPECT_GT(standard.size(), 10U);
  EXPECT_EQ(standard, model_tensors(run_folder("tiny/quest")));
  EXPECT_NE(standard, model_tensors(run_folder("tiny/standard", 1)));
}

TEST_F(Run, SeesTheSameDataInTheSameOrderUnderEveryAttention) {
  // Branches scaled by 1e-30 leave the residual stream as it is: the attention cannot matter, and
  // without learning each step's loss tells which examples it saw.
  for (const char* attention : {"standard", "quest"}) {
    must({"run", "tiny.yaml", "train.optimizer.lr=0", "model.layer_scale=1e-30", "seeds=[0, 1]",
          std::string("attention=") + attention});
  }
  const std::vector<double> standard = losses("tiny/standard");
  ASSERT_EQ(standard.size(), 8U);
  EXPECT_EQ(standard, losses("tiny/quest"));
  EXPECT_NE(standard[0], losses("tiny/standard", 1)[0]) << "seeds must differ";
  EXPECT_EQ(std::set<double>(standard.begin(), standard.end()).size(), 8U)
      << "every batch, and every epoch's order, must differ";
}

TEST_F(Run, DoesNotDependOnTheNumberOfLoaderThreads) {
  for (const char* workers : {"0", "3"}) {
    must({"run", "tiny.yaml", std::string("train.workers=") + workers,
          std::string("name=workers") + workers});
  }
  EXPECT_EQ(losses("workers0/standard"), losses("workers3/standard"));
}

TEST_F(Run, ComputesInFloat32WhereTheProcessorHasNoProductsOfBfloat16) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "the instruction set that lacks them is one of x86";
#endif
  const auto held = [&](const Words& words) {
    const Ended ended = run(invocation(words, {{"ATTNLAB_CPU", "sse4"}}));
    EXPECT_EQ(ended.exit_code, 0) << ended.story();
    return ended.out;
  };
  const std::string said = held({"run", "tiny.yaml", "name=asked", "train.precision=bfloat16"});
  EXPECT_THAT(said, mentions("train.precision: bfloat16: ", "computed in float32"));
  EXPECT_THAT(held({"run", "tiny.yaml", "name=gpu", "train.precision=tf32"}),
              mentions("train.precision: tf32: ", "computed in float32"));
  EXPECT_THAT(held({"run", "tiny.yaml", "train.deterministic=true"}),
              Not(HasSubstr("train.precision")));
  EXPECT_EQ(losses("asked/standard"), losses("tiny/standard"));
  EXPECT_EQ(losses("gpu/standard"), losses("tiny/standard"));
  const auto products = [&](const char* below) {
    return json::parse(file_text(run_folder(below) + "/environment.json")).at("products");
  };
  EXPECT_EQ(products("asked/standard"), "float32");
  // On this processor as it is: whatever it has, it says.
  must({"run", "tiny.yaml", "name=free", "train.precision=bfloat16"});
  EXPECT_EQ(products("free/standard") == "float32", !processor_has_bfloat16());
}

TEST_F(Run, OfBfloat16GoesOnWhereOneDnnIsHeldToASetWithoutIt) {
  // LibTorch 1.13 asks the processor what oneDNN can, and oneDNN refuses.
  const Words words = {"run", "tiny.yaml", "name=held", "train.precision=bfloat16"};
  must(words, {{"ONEDNN_MAX_CPU_ISA", "AVX2"}, {"DNNL_MAX_CPU_ISA", "AVX2"}});
  EXPECT_EQ(status_of(run_folder("held/standard")).at("state"), "done");
}

TEST_F(Run, SaysWhatItsDataWereReadWithout) {
  folder_.write("texts/one.txt", "one two\none two\none two\none two\n");
  folder_.write("words.yaml",
                "schema: 1\nmodel: {use: transformer_lm, style: gpt2, dim: 8, depth: 1, heads: 1, "
                "context: 4}\nattention: standard\ntask: {use: language_modelling, unit: "
                "character}\ndataset: {use: text_stream, root: texts, unit: character, window: 4, "
                "split: [0.5, 0.5]}\ntrain: {steps: 1, epochs: 1, batch_size: 2, threads: 1}\n");
  EXPECT_THAT(must({"run", "words.yaml", "name=whole"}).out, Not(HasSubstr("data from")));
  folder_.write("texts/more/two.txt", "nine ten\n");
  EXPECT_THAT(must({"run", "words.yaml"}).out,
              mentions("words/standard/0: data from texts", "without the folders", ": more"));
  EXPECT_THAT(must({"run", "words.yaml", "--dry-run"}).out,
              mentions("examples from texts", "without the folders", ": more,"));
}

TEST_F(Run, OfAPluginThatGoesAwayAndThrowsStaysWhereItBelongsAndSoDoesTheNext) {
  const Ended ended =
      attnlab({"run", "tiny.yaml", "attention=changes_folder_and_throws", "seeds=[0, 1]"},
              {{"ATTNLAB_PLUGIN_PATH", broken_plugins()}});
  EXPECT_EQ(ended.exit_code, 1) << ended.story();
  for (const int seed : {0, 1}) {
    const std::string folder = run_folder("tiny/changes_folder_and_throws", seed);
    EXPECT_THAT(ended.err, HasSubstr(folder.substr(at("").size()) + ": the run failed: lost its"));
    EXPECT_EQ(status_of(folder).at("state"), "failed");
    EXPECT_EQ(status_of(folder).at("reason"), "lost its way");
  }
}

TEST_F(Run, StopsBetweenSeedsAndGoesOnThere) {
  const Words words = {"run", "tiny.yaml", "train.epochs=1", "seeds=[0, 1]", "--resume"};
  must({"run", "tiny.yaml", "train.epochs=1", "seeds=[0]"});
  const Ended ended = must(words);
  EXPECT_THAT(ended.out, HasSubstr("tiny/standard/0: done before"));
  EXPECT_THAT(ended.out, HasSubstr("tiny/standard/1: starts"));
  EXPECT_EQ(status_of(run_folder("tiny/standard", 1)).at("state"), "done");
}

}  // namespace
}  // namespace attnlab::testing::run_test
