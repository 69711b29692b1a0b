// A run that is killed, stopped and resumed ends with exactly the numbers of one never disturbed.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>
#include <sstream>
#include <thread>

#include "framework/base/files.h"
#include "framework/base/random.h"
#include "tests/integration/workspace.h"

namespace attnlab::testing::resume_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Everything on that draws random numbers or keeps state: dropout of three kinds, crops and flips,
/// held-out validation images, accumulation, clipping, warm-up, two loader threads.
class Resume : public Workspace {
 protected:
  Resume() {
    write_records("data/data_batch_1.bin", 120, 1);
    write_records("data/test_batch.bin", 40, 2);
    folder_.write("whole.yaml", R"(schema: 1
name: NAME
model:
  {use: vit, patch_size: 8, dim: 24, depth: 2, heads: 2, dropout: 0.1, attention_dropout: 0.1,
   drop_path: 0.1}
attention: quest
task: {use: image_classification, label_smoothing: 0.1}
dataset:
  {use: cifar, root: data, batches: [1], partial: true, validation: 24,
   augmentation: {crop_padding: 4, flip: true}}
train:
  {epochs: 3, batch_size: 8, accumulate: 2, clip_norm: 0.5, log_every: 1, workers: 2, threads: 2,
   checkpoint_seconds: 0, schedule: {warmup_epochs: 0.5}}
seeds: [5]
)");
  }

  void write_records(const std::string& name, int count, std::uint64_t seed) const {
    Random random(seed);
    std::string bytes;
    for (int i = 0; i < count; ++i) {
      bytes += static_cast<char>(random.below(10));
      for (int k = 0; k < 3072; ++k) bytes += static_cast<char>(random.below(256));
    }
    folder_.write(name, bytes);
  }

  /// The command that begins a run called `name`, and goes on with it.
  static Words command(const std::string& name) {
    return {"run", "whole.yaml", "name=" + name, "--resume"};
  }
  std::string run_of(const std::string& name) const { return run_folder(name + "/quest", 5); }
  /// Has the run `undisturbed` be one that was interrupted, and that began in another environment.
  /// @returns how it refuses to go on.
  Ended refused_as_begun_with(const nlohmann::json& environment) const {
    const std::string folder = run_of("undisturbed");
    write_file(folder + "/environment.json", environment.dump());
    call_interrupted(folder);
    const Ended refused = attnlab({"run", folder, "--resume"});
    EXPECT_EQ(refused.exit_code, 2) << refused.story();
    return refused;
  }
  /// What the run has recorded; empty before it begins.
  std::string metrics_of(const std::string& name, const std::string& attention = "quest") const {
    std::error_code error;
    for (const auto& folder : fs::directory_iterator(at("runs/" + name + "/" + attention), error)) {
      return file_text(folder.path().string() + "/metrics.jsonl");
    }
    return "";
  }

  /// The run that nothing disturbs, made once for all tests of this file. @returns its folder.
  std::string undisturbed() {
    const auto everything = fs::copy_options::recursive;
    if (kept_ == nullptr) {
      must(command("undisturbed"));
      kept_ = std::make_unique<TempFolder>();
      fs::copy(at("runs"), *kept_ / "runs", everything);
    } else {
      fs::copy(*kept_ / "runs", at("runs"), everything);
    }
    return run_of("undisturbed");
  }
  static void TearDownTestSuite() { kept_ = nullptr; }

  void expect_same(const std::string& name) {
    const std::string expected = run_of("undisturbed"), folder = run_of(name);
    EXPECT_EQ(status_of(folder).at("state"), "done");
    EXPECT_EQ(status_of(folder).at("step"), 36);
    EXPECT_EQ(timeless_metrics(folder), timeless_metrics(expected));
    EXPECT_EQ(metrics_of(name), metrics_of("undisturbed"));
    EXPECT_EQ(checkpoint_tensors(folder), checkpoint_tensors(expected));
    EXPECT_THAT(files_like(".tmp"), IsEmpty());
  }

  /// Sends a signal at a random moment in the next third of what is still to come.
  Ended disturb(const std::string& name, int signal, std::mt19937_64& random) {
    const std::size_t all = metrics_of("undisturbed").size();
    const std::size_t begun = std::min(metrics_of(name).size(), all - 1);
    const std::size_t aim =
        std::uniform_int_distribution<std::size_t>(begun, begun + (all - begun) / 3)(random);
    Process process(invocation(command(name)));
    EXPECT_TRUE(wait_for([&] { return !process.running() || metrics_of(name).size() > aim; }));
    // Anywhere in the step, the checkpoint or the evaluation that follows.
    std::this_thread::sleep_for(
        std::chrono::microseconds(std::uniform_int_distribution<int>(0, 20'000)(random)));
    process.send(signal);
    return process.wait();
  }

  inline static std::unique_ptr<TempFolder> kept_;
};

TEST_F(Resume, EndsWithTheSameNumbersAfterKillsAtRandomMoments) {
  const std::string expected = undisturbed();
  EXPECT_EQ(metric_lines(expected, "train").size(), 36U);
  EXPECT_EQ(metric_lines(expected, "validation").size(), 3U);
  EXPECT_EQ(metric_lines(expected, "test").size(), 1U);
  std::mt19937_64 random(17);
  int kills = 0;
  for (int attempt = 0; attempt < 6; ++attempt) {
    const Ended ended = disturb("killed", SIGKILL, random);
    kills += ended.signal == SIGKILL ? 1 : 0;
    const std::string metrics = metrics_of("killed");
    std::cout << "attempt " << attempt << " ended after "
              << std::count(metrics.begin(), metrics.end(), '\n') << " lines\n";
    if (ended.signal != SIGKILL) {  // it was at its end already
      EXPECT_EQ(ended.exit_code, 0) << ended.story();
    }
  }
  EXPECT_GE(kills, 1) << "no kill came in time";
  must(command("killed"));
  expect_same("killed");
}

TEST_F(Resume, EndsWithTheSameNumbersAfterSigtermAndSigint) {
  undisturbed();
  std::mt19937_64 random(18);
  for (const int signal : {SIGTERM, SIGINT}) {
    const std::string name = signal == SIGTERM ? "terminated" : "interrupted";
    const Ended ended = disturb(name, signal, random);
    if (ended.exit_code != 0) {  // it was not at its end already
      EXPECT_EQ(ended.exit_code, 130) << ended.story();
      EXPECT_EQ(status_of(run_of(name)).at("state"), "interrupted");
      EXPECT_EQ(status_of(run_of(name)).at("step"), metric_lines(run_of(name), "train").size());
      EXPECT_TRUE(fs::exists(run_of(name) + "/checkpoint.safetensors"));
    }
    must(command(name));
    expect_same(name);
  }
}

/// Whether a thread of this machine, below /proc, handles a signal.
bool handles(const fs::path& thread, int signal) {
  std::istringstream lines(read_text((thread / "status").string()));
  const std::string name = "SigBlk:";
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name)) continue;
    return (std::stoull(line.substr(name.size()), nullptr, 16) >> (signal - 1) & 1) == 0;
  }
  return false;
}

TEST_F(Resume, HandlesSignalsOnAThreadThatComputesNothing) {
  // A product of matrices may use the stack pointer as a register: see engine.cpp.
  Process process(invocation(command("handled")));
  ASSERT_TRUE(wait_for([&] { return !metrics_of("handled").empty(); }));
  const fs::path own = "/proc/" + std::to_string(process.id());
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGALRM}) {
    int handling = 0;
    for (const auto& thread : fs::directory_iterator(own / "task")) {
      handling += handles(thread.path(), signal);
    }
    EXPECT_EQ(handling, 1) << "signal " << signal;
    EXPECT_FALSE(handles(own, signal)) << "signal " << signal;
  }
  process.send(SIGINT);
  EXPECT_EQ(process.wait().exit_code, 130);
}

TEST_F(Resume, GoesOnIgnoringASignalThatItWasStartedToIgnore) {
  Invocation background = invocation(command("background"));
  // As a shell without job control starts what it runs in the background.
  const Words shell = {"bash", "-c", "trap '' INT; exec \"$@\"", "shell"};
  background.words.insert(background.words.begin(), shell.begin(), shell.end());
  Process process(background);
  ASSERT_TRUE(wait_for([&] { return !metrics_of("background").empty(); }));
  EXPECT_FALSE(process.handles(SIGINT));
  EXPECT_TRUE(process.handles(SIGTERM));
  process.send(SIGINT);
  const Ended ended = process.wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.story();
  EXPECT_EQ(status_of(run_of("background")).at("state"), "done");
}

TEST_F(Resume, GoesOnInTheMiddleOfAnEpochWithCheckpointsFarApart) {
  undisturbed();
  // Interrupted right after its first steps: the checkpoint that it leaves with is the only one.
  Words words = command("seldom");
  words.push_back("train.checkpoint_seconds=3600");
  {
    Process process(invocation(words));
    ASSERT_TRUE(
        wait_for([&] { return fs::exists(at("runs/seldom")) && !metrics_of("seldom").empty(); }));
    process.send(SIGINT);
    EXPECT_EQ(process.wait().exit_code, 130);
  }
  EXPECT_THAT(must(words).out, HasSubstr("resumes at step"));
  expect_same("seldom");
}

TEST_F(Resume, RecordsAnEvaluationThatWasInterruptedOnce) {
  const Words words = {
      "run",     "tiny.yaml", "train.epochs=1", "dataset.validation=8", "dataset.test=20000",
      "--resume"};
  {
    Process process(invocation(words));
    ASSERT_TRUE(wait_for([&] {
      const std::string metrics = metrics_of("tiny", "standard");
      return std::count(metrics.begin(), metrics.end(), '\n') == 4;
    }));
    // The eight validation images take no time, the test images more than this.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    process.send(SIGINT);
    const Ended ended = process.wait();
    ASSERT_EQ(ended.exit_code, 130) << ended.story();
  }
  must(words);
  const std::string folder = run_folder("tiny/standard");
  EXPECT_EQ(metric_lines(folder, "train").size(), 4U);
  EXPECT_EQ(metric_lines(folder, "validation").size(), 1U);
  EXPECT_EQ(metric_lines(folder, "test").size(), 1U);
  EXPECT_EQ(status_of(folder).at("state"), "done");
}

TEST_F(Resume, LosesNoStepInAnEvaluationOfOneLongBatch) {
  const Words words = {"run",
                       "tiny.yaml",
                       "dataset.test=40000",
                       "train.eval_batch_size=40000",
                       "train.checkpoint_seconds=3600",
                       "--resume"};
  Process process(invocation(words));
  ASSERT_TRUE(wait_for([&] {
    const std::string metrics = metrics_of("tiny", "standard");
    return std::count(metrics.begin(), metrics.end(), '\n') == 4;
  }));
  process.send(SIGTERM);
  const Ended ended = process.wait();
  EXPECT_EQ(ended.exit_code, 130) << ended.story();
  EXPECT_TRUE(fs::exists(run_folder("tiny/standard") + "/checkpoint.safetensors"));
  EXPECT_EQ(metric_lines(run_folder("tiny/standard"), "train").size(), 4U);
  must(words);
  EXPECT_EQ(metric_lines(run_folder("tiny/standard"), "train").size(), 8U);
}

// The library below the program (tests/faulty_io) holds it where it begins the checkpoint.
TEST_F(Resume, LosesNoStepWhereTheCheckpointAtAnEpochsEndTakesLong) {
  const TempFolder outside;
  const std::string calls = outside / "calls", held = calls + ".held";
  Invocation call = invocation({"run", "tiny.yaml", "train.checkpoint_seconds=3600"},
                               {{"LD_PRELOAD", build_tree() + "/faulty_io/faulty_io.so"},
                                {"ATTNLAB_FAULT", "fsync:0"},
                                {"ATTNLAB_FAULT_BELOW", folder_.path()},
                                {"ATTNLAB_FAULT_CALLS", calls}});
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  // The file's temporary name ends with the process's number, which the program keeps.
  const std::string hold = std::string("checkpoint.safetensors.tmp-") + host + "-$$";
  const Words shell = {"bash", "-c", "ATTNLAB_FAULT_HOLD=" + hold + " exec \"$@\"", "shell"};
  call.words.insert(call.words.begin(), shell.begin(), shell.end());
  Process process(call);
  ASSERT_TRUE(wait_for([&] { return fs::exists(held) || !process.running(); }));
  ASSERT_TRUE(process.running());
  process.send(SIGTERM);
  std::this_thread::sleep_for(std::chrono::seconds(2));  // longer than a signal's patience
  fs::remove(held);
  const Ended ended = process.wait();
  EXPECT_EQ(ended.exit_code, 130) << ended.story();
  const std::string folder = run_folder("tiny/standard");
  EXPECT_TRUE(fs::exists(folder + "/checkpoint.safetensors"));
  EXPECT_NE(status_of(folder).at("state"), "done");
  EXPECT_EQ(status_of(folder).at("step"), 4);
}

TEST_F(Resume, DoesNothingToARunThatIsDone) {
  const std::string folder = undisturbed();
  const std::string status = file_text(folder + "/status.json");
  const auto written = fs::last_write_time(folder + "/checkpoint.safetensors");
  EXPECT_THAT(must(command("undisturbed")).out, HasSubstr("done before"));
  EXPECT_THAT(must({"run", folder}).out, HasSubstr("done before"));
  EXPECT_EQ(file_text(folder + "/status.json"), status);
  EXPECT_EQ(fs::last_write_time(folder + "/checkpoint.safetensors"), written);
}

TEST_F(Resume, RefusesOtherPluginsUnlessToldTo) {
  undisturbed();
  const std::string folder = run_of("undisturbed"), path = folder + "/environment.json";
  nlohmann::json environment = nlohmann::json::parse(file_text(path));
  const std::string now = environment.at("attention").at("hash");
  environment["attention"]["hash"] = std::string(now.size(), '0');
  const Ended refused = refused_as_begun_with(environment);
  EXPECT_THAT(refused.err, mentions("since this run began", "file of attention 'quest'"));
  must({"run", folder, "--resume", "--accept-changes"});
  environment = nlohmann::json::parse(file_text(path));
  EXPECT_EQ(environment.at("attention").at("hash"), std::string(now.size(), '0'))
      << "what it began with stays";
  EXPECT_THAT(environment.at("resumed").at(0).at("accepted").at(0),
              HasSubstr("file of attention 'quest'"));
}

// It has no numbers yet, and would file those that come under what it no longer is.
TEST_F(Resume, RefusesARunWithoutACheckpointThatWasFiledByAnother) {
  const std::string folder = undisturbed();
  for (const char* name : {"checkpoint.safetensors", "status.json", "metrics.jsonl"}) {
    fs::remove(folder + "/" + name);
  }
  const std::string config = file_text(folder + "/config.yaml");
  std::string shorter = config;
  shorter.replace(shorter.find("epochs: 3"), 9, "epochs: 1");
  write_file(folder + "/config.yaml", shorter);
  EXPECT_THAT(refusal({"run", folder, "--resume"}),
              mentions("config.yaml: ", "not the configuration"));
  write_file(folder + "/config.yaml", config);
  nlohmann::json identity = nlohmann::json::parse(file_text(folder + "/identity.json"));
  identity["plugins"]["attention"]["hash"] = "0";
  write_file(folder + "/identity.json", identity.dump());
  EXPECT_THAT(refusal({"run", folder, "--resume"}), HasSubstr("file of attention 'quest'"));
  must({"run", folder, "--resume", "--accept-changes"});
  EXPECT_THAT(must({"compare", folder}).out,
              mentions("begun although", "--accept-changes", "file of attention 'quest'"));
}

TEST_F(Resume, RefusesProductsOfAnotherPrecisionUnlessToldTo) {
  undisturbed();
  const std::string folder = run_of("undisturbed"), path = folder + "/environment.json";
  nlohmann::json environment = nlohmann::json::parse(file_text(path));
  EXPECT_EQ(environment.at("products"), "float32");
  environment["products"] = "bfloat16";  // as if begun on another machine
  const Ended refused = refused_as_begun_with(environment);
  EXPECT_THAT(refused.err, mentions("precision of products", "now float32"));
  must({"run", folder, "--resume", "--accept-changes"});
}

TEST_F(Resume, GoesOnWithTheKernelsThatARunBeganWith) {
  undisturbed();
  const std::string folder = run_of("undisturbed"), path = folder + "/environment.json";
  nlohmann::json environment = nlohmann::json::parse(file_text(path));
  EXPECT_EQ(environment.at("kernels").at("attention"), "automatic");
  environment["kernels"] = {{"attention", "explicit"}, {"instructions", "another set"}};
  const Ended refused = refused_as_begun_with(environment);
  EXPECT_THAT(refused.err,
              mentions("kernel of attention", "ATTNLAB_ATTENTION_KERNEL", "now automatic"));
  const Ended same =
      attnlab({"run", folder, "--resume"}, {{"ATTNLAB_ATTENTION_KERNEL", "explicit"}});
  EXPECT_EQ(same.exit_code, 0) << same.story();
  EXPECT_THAT(must({"compare", folder}).out,
              mentions("instructions of another set", "went on at step "));
}

TEST_F(Resume, RefusesADamagedCheckpoint) {
  const std::string folder = undisturbed();
  nlohmann::json status = status_of(folder);
  status["state"] = "running";
  status.erase("check");
  const std::string local = folder.substr(folder_.path().size() + 1);
  folder_.write(local + "/status.json", status.dump());
  const std::string checkpoint = file_text(folder + "/checkpoint.safetensors");
  folder_.write(local + "/checkpoint.safetensors", checkpoint.substr(0, checkpoint.size() / 2));
  const Ended ended = attnlab(command("undisturbed"));
  EXPECT_EQ(ended.exit_code, 1) << ended.story();
  EXPECT_THAT(ended.err, HasSubstr(local + "/checkpoint.safetensors: "));
  EXPECT_EQ(status_of(folder).at("state"), "failed");
}

}  // namespace
}  // namespace attnlab::testing::resume_test
