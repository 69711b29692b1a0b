// What launchers say to their processes.
#include "framework/base/launched.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "framework/base/error.h"
#include "tests/support/message_of.h"

namespace attnlab::launched_test {
namespace {

using attnlab::testing::mentions;
using ::testing::HasSubstr;
using Values = std::map<std::string, std::string>;

Variable variables(const Values& values) {
  return [&values](const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  };
}

std::optional<Launched> with(const Values& values) { return launched_as(variables(values)); }

std::string refusal(const Values& values) {
  try {
    with(values);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

const Values kTorchrun = {
    {"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "node01"}, {"MASTER_PORT", "29500"}};
const Values kSrun = {{"SLURM_PROCID", "1"},  {"SLURM_STEP_NUM_TASKS", "4"},
                      {"SLURM_JOB_ID", "71"}, {"SLURM_STEP_ID", "2"},
                      {"SLURM_NTASKS", "16"}, {"SLURM_STEP_NODELIST", "gpu[07-09,12],login"}};

Values changed(Values values, const std::string& name, const std::string& value) {
  values[name] = value;
  return values;
}

Values without(Values values, const std::string& name) {
  values.erase(name);
  return values;
}

TEST(Launched, IsNothingByItself) {
  EXPECT_FALSE(with({}));
  EXPECT_FALSE(with({{"MASTER_ADDR", "node01"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}))
      << "a batch script of Slurm, which no srun started";
  EXPECT_FALSE(with({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  EXPECT_FALSE(with({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}));
}

TEST(Launched, ReadsTorchrun) {
  const auto one = with(kTorchrun);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->by, "torchrun");
  EXPECT_EQ(one->rank, 3);
  EXPECT_EQ(one->size, 8);
  EXPECT_EQ(one->address, "node01");
  EXPECT_EQ(one->port, 29500);
  EXPECT_FALSE(one->listens);
  Values values = changed(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE", "True");
  values["TORCHELASTIC_RUN_ID"] = "none";
  values["TORCHELASTIC_RESTART_COUNT"] = "2";
  const auto elastic = with(values);
  ASSERT_TRUE(elastic);
  EXPECT_TRUE(elastic->listens);
  EXPECT_EQ(elastic->attempt, "none.2");
}

TEST(Launched, ReadsSrun) {
  const auto one = with(kSrun);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->by, "srun");
  EXPECT_EQ(one->rank, 1);
  EXPECT_EQ(one->size, 4);
  EXPECT_EQ(one->address, "gpu07");
  EXPECT_EQ(one->attempt, "71.2");
  EXPECT_EQ(one->port, with(changed(kSrun, "SLURM_PROCID", "3"))->port) << "all meet at one port";
  EXPECT_NE(one->port, with(changed(kSrun, "SLURM_STEP_ID", "3"))->port);
  EXPECT_NE(one->port, with(changed(kSrun, "SLURM_JOB_ID", "72"))->port);
  Values own = changed(kSrun, "MASTER_ADDR", "10.0.0.7");
  own["MASTER_PORT"] = "4321";
  EXPECT_EQ(with(own)->address, "10.0.0.7");
  EXPECT_EQ(with(own)->port, 4321);
}

TEST(Launched, KnowsWhichProcessOfItsMachineItIs) {
  EXPECT_EQ(with(kTorchrun)->local, 0) << "where nothing says it";
  EXPECT_EQ(with(changed(kTorchrun, "LOCAL_RANK", "1"))->local, 1);
  EXPECT_EQ(with(changed(kSrun, "SLURM_LOCALID", "3"))->local, 3);
  EXPECT_EQ(with(changed(changed(kSrun, "SLURM_LOCALID", "3"), "LOCAL_RANK", "2"))->local, 2);
  EXPECT_THAT(refusal(changed(kTorchrun, "LOCAL_RANK", "first")), HasSubstr("LOCAL_RANK: 'first'"));
}

TEST(Launched, TakesTheGpusOfItsMachineInTurn) {
  const auto gpu = [](const Values& values, std::int64_t count) {
    return gpu_of(variables(values), count);
  };
  const auto local = [](const char* rank) { return changed(kTorchrun, "LOCAL_RANK", rank); };
  EXPECT_EQ(gpu(local("0"), 2), 0);
  EXPECT_EQ(gpu(local("1"), 2), 1);
  EXPECT_EQ(gpu(local("3"), 2), 1) << "more processes than GPUs";
  EXPECT_EQ(gpu(local("3"), 1), 0) << "as where the launcher shows each its own alone";
  EXPECT_EQ(gpu(kTorchrun, 4), 0) << "by the number on its machine, not by its rank";
  EXPECT_EQ(gpu({}, 4), 0);
  EXPECT_EQ(gpu({{kRunPlace, "5"}}, 4), 1) << "runs side by side";
  EXPECT_EQ(gpu({{kRunPlace, "-1"}}, 4), 0);
  const Values second = {{kMeetingFile, "file"},
                         {"RANK", "1"},
                         {"WORLD_SIZE", "2"},
                         {"LOCAL_RANK", "1"},
                         {kRunPlace, "1"}};
  EXPECT_EQ(gpu(second, 4), 3) << "two processes of each of two runs";
}

TEST(Launched, ReadsItsOwn) {
  const auto one = with({{"ATTNLAB_MEETING", "/tmp/x/store"}, {"RANK", "0"}, {"WORLD_SIZE", "2"}});
  ASSERT_TRUE(one);
  EXPECT_EQ(one->by, "attnlab");
  EXPECT_EQ(one->file, "/tmp/x/store");
  EXPECT_EQ(one->size, 2);
}

TEST(Launched, NamesTheVariableThatIsMissingOrWrong) {
  for (const auto& [name, value] : kTorchrun) {
    EXPECT_THAT(refusal(without(kTorchrun, name)), mentions(name, "is not set", "torchrun"));
  }
  for (const char* name :
       {"SLURM_PROCID", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEP_NODELIST"}) {
    EXPECT_THAT(refusal(without(kSrun, name)), mentions(name, "is not set"));
  }
  EXPECT_THAT(refusal(changed(kTorchrun, "RANK", "8")), mentions("RANK:", "'8'", "0 to 7"));
  EXPECT_THAT(refusal(changed(kTorchrun, "RANK", "-1")), HasSubstr("RANK: '-1'"));
  EXPECT_THAT(refusal(changed(kTorchrun, "WORLD_SIZE", "many")), HasSubstr("WORLD_SIZE: 'many'"));
  EXPECT_THAT(refusal(changed(kTorchrun, "MASTER_PORT", "70000")),
              mentions("MASTER_PORT:", "'70000'", "1 to 65535"));
}

TEST(Launched, FindsTheFirstHostOfAList) {
  EXPECT_EQ(first_host("node1"), "node1");
  EXPECT_EQ(first_host("a,b,c"), "a");
  EXPECT_EQ(first_host("node[07-09,12],login"), "node07");
  EXPECT_EQ(first_host("node[3,5]"), "node3");
  EXPECT_EQ(first_host("rack[2-3]-node[10-11].cluster,b"), "rack2-node10.cluster");
}

}  // namespace
}  // namespace attnlab::launched_test
