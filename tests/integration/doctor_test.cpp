// attnlab doctor: one page of what is here, and what is wrong with it.
#include <unistd.h>

#include "framework/runs/run_lock.h"
#include "tests/integration/workspace.h"

namespace attnlab::testing::doctor_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Doctor : public Workspace {
 protected:
  json page(int exit_code, Environment environment = {}, Words more = {}) const {
    Words words = {"doctor", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Ended ended = attnlab(words, std::move(environment));
    EXPECT_EQ(ended.exit_code, exit_code) << ended.story();
    return json::parse(ended.out);
  }
  /// The problem whose text has these words; null without one.
  static json problem(const json& page, const std::string& words) {
    for (const json& one : page.at("problems")) {
      if (one.at("what").get<std::string>().find(words) != std::string::npos) return one;
    }
    return nullptr;
  }
};

TEST_F(Doctor, SaysWhatIsHereAndThatNothingIsWrong) {
  const json sound = page(0);
  EXPECT_EQ(sound.at("problems"), json::array());
  EXPECT_THAT(sound.at("LibTorch").at("file").get<std::string>(), HasSubstr("libtorch_cpu"));
  EXPECT_EQ(sound.at("attnlab").at("folder"), build_tree());
  EXPECT_GE(sound.at("threads").at("threads_of_a_run").get<int>(), 1);
  EXPECT_NE(sound.at("processor").at("kernels").get<std::string>(), "");
  EXPECT_THAT(must({"doctor"}).out,
              AllOf(HasSubstr("LibTorch\n"), HasSubstr("usable cores"),
                    HasSubstr("waiting threads"), HasSubstr("Nothing is wrong.")));
}

TEST_F(Doctor, NamesEachPluginFileThatIsRefused) {
  const std::string broken = folder_.write("broken/attention/bad.so", "no library");
  const json sick = page(1, {{"ATTNLAB_PLUGIN_PATH", at("broken")}});
  const json found = problem(sick, broken);
  ASSERT_FALSE(found.is_null()) << sick;
  EXPECT_THAT(sick.at("plugins").at("refused").at(0).get<std::string>(), HasSubstr("bad.so"));
  const Ended text = attnlab({"doctor"}, {{"ATTNLAB_PLUGIN_PATH", at("broken")}});
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_THAT(text.out, AllOf(HasSubstr("Wrong:\n1. "), HasSubstr("Remedy: ")));
}

TEST_F(Doctor, NamesAFolderOfDataThatIsNotThere) {
  const json sick = page(1, {{"ATTNLAB_DATA", at("nowhere")}});
  EXPECT_THAT(problem(sick, at("nowhere")).at("remedy").get<std::string>(),
              HasSubstr("ATTNLAB_DATA"));
}

TEST_F(Doctor, SaysWhichDataAreHereAndWhereToGetTheOthers) {
  for (const char* file : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                           "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    folder_.write(std::string("data/mnist/") + file, "");  // they are not read
  }
  const json data = page(0, {{"ATTNLAB_DATA", at("data")}}).at("data");
  EXPECT_EQ(data.at("found").at("mnist"), at("data/mnist"));
  EXPECT_THAT(data.at("missing").at("cifar10").get<std::string>(), HasSubstr("https://"));
}

TEST_F(Doctor, NamesTheHolderOfARunAndCallsItNoFault) {
  must({"run", "tiny.yaml"});
  const std::string folder = run_folder("tiny/standard");
  const RunLock held(folder);
  const json sound = page(0);
  ASSERT_TRUE(sound.at("runs").contains("held")) << sound;
  const json& runs = sound.at("runs").at("held");
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_THAT(runs.begin().value().get<std::string>(),
              AllOf(HasSubstr("process " + std::to_string(::getpid())), HasSubstr("--resume")));
  EXPECT_EQ(page(0, {}, {"runs"}).at("runs"), sound.at("runs"));
  EXPECT_EQ(attnlab({"doctor", "elsewhere"}).exit_code, 2) << "a folder that was named";
}

TEST_F(Doctor, NamesSettingsThatSlowEveryRun) {
  const json sick = page(1, {{"OMP_WAIT_POLICY", "active"}, {"OMP_NUM_THREADS", "two"}});
  EXPECT_FALSE(problem(sick, "OMP_WAIT_POLICY=active").is_null());
  EXPECT_FALSE(problem(sick, "OMP_NUM_THREADS=two").is_null());
}

TEST_F(Doctor, AnswersWhereTheEngineCannotStart) {
  const json sick = page(1, {{"ATTNLAB_CPU", "none"}});
  EXPECT_FALSE(problem(sick, "ATTNLAB_CPU").is_null()) << sick;
  EXPECT_TRUE(sick.contains("memory"));
}

TEST_F(Doctor, CallsAPluginThatCrashesTheFaultAndNotLibTorch) {
  folder_.write("configs/datasets/aaa.yaml", "use: dataset_crashes_when_built\n");
  const json sick = page(1, {{"ATTNLAB_PLUGIN_PATH", broken_plugins()}});
  const json found = problem(sick, "a plugin fails");
  ASSERT_FALSE(found.is_null()) << sick;
  EXPECT_THAT(found.at("what").get<std::string>(),
              AllOf(HasSubstr("\"aaa\""), HasSubstr("index out of bounds"), HasSubstr("signal")));
  EXPECT_TRUE(problem(sick, "cannot start").is_null()) << sick;
  EXPECT_THAT(sick.at("LibTorch").at("file").get<std::string>(), HasSubstr("libtorch_cpu"));
  EXPECT_FALSE(sick.at("data").contains("found"));
}

TEST_F(Doctor, RunsNoPythonOfTheWorkingFolder) {
  folder_.write("platform.py", "open('executed', 'w').close()\n");
  EXPECT_EQ(page(0).at("Python").contains("package_torch"),
            run({.words = {"sh", "-c", "command -v python3"}}).exit_code == 0);
  EXPECT_FALSE(exists("executed"));
}

TEST_F(Doctor, PrintsNamesOfFoldersAsTheyAre) {
  must({"run", "tiny.yaml", "--out", "my_runs"});
  EXPECT_THAT(must({"doctor", "my_runs"}).out, HasSubstr("disk\n  my_runs  "));
}

}  // namespace
}  // namespace attnlab::testing::doctor_test
