// Results of evaluations, a file each.
#include "framework/runs/evaluations.h"
#include "framework/base/json.h"

#include <chrono>
#include <cmath>

#include "framework/base/files.h"
#include "framework/runs/evaluation_setting.h"
#include "tests/support/compositions.h"
#include "tests/support/made_runs.h"

namespace attnlab::evaluations_test {
namespace {

using namespace testing;
namespace fs = std::filesystem;

constexpr const char* kHash = "0123456789abcdef";

EvaluationRecord record(const std::string& entry, double accuracy,
                        const std::string& hash = kHash) {
  EvaluationRecord out{entry, hash, "test", true, "", {{"accuracy", accuracy}}, kMadeMetrics};
  out.set = R"({"dataset.corruption":"fog"})";
  out.seconds = 1.5;
  return out;
}

TEST(Evaluations, ComeBackAsTheyWere) {
  const TempFolder temp;
  EvaluationRecord fog = record("fog", 0.5);
  fog.metrics["nll"] = std::nan("");
  fog.changes = {"the framework changed"};
  fog.weights = "average";
  write_evaluation(temp.path(), fog);
  EXPECT_TRUE(fs::exists(temp / "evaluations/fog-0123456789abcdef.json"));
  const Evaluations read = read_evaluations(temp.path());
  ASSERT_EQ(read.records.size(), 1U);
  const EvaluationRecord& one = read.records[0];
  EXPECT_EQ(one.entry, "fog");
  EXPECT_EQ(one.hash, kHash);
  EXPECT_EQ(one.split, "test");
  EXPECT_TRUE(one.done);
  EXPECT_EQ(one.metrics.at("accuracy"), 0.5);
  EXPECT_TRUE(std::isnan(one.metrics.at("nll")));
  EXPECT_EQ(one.infos, kMadeMetrics);
  EXPECT_EQ(one.set, fog.set);
  EXPECT_EQ(one.seconds, 1.5);
  EXPECT_EQ(one.changes, fog.changes);
  EXPECT_EQ(one.weights, "average");
}

TEST(Evaluations, OfAnEarlierVersionDoNotSayOfWhichWeightsTheyAre) {
  const TempFolder temp;
  write_evaluation(temp.path(), record("fog", 0.5));
  EXPECT_FALSE(nlohmann::json::parse(read_text(temp / "evaluations/fog-0123456789abcdef.json"))
                   .contains("weights"));
  EXPECT_EQ(read_evaluations(temp.path()).records.at(0).weights, "");
}

TEST(Evaluations, SayWhatTheyRanWith) {
  const TempFolder temp;
  write_evaluation(temp.path(), record("pgd", 0.5), {R"({"eps":0.03,"use":"image_attack"})", 3});
  const auto file =
      nlohmann::json::parse(read_text(temp / "evaluations/pgd-0123456789abcdef.json"));
  EXPECT_EQ(file.at("task").at("eps"), 0.03);
  EXPECT_EQ(file.at("seed"), 3);
  EXPECT_EQ(read_evaluations(temp.path()).records.at(0).metrics.at("accuracy"), 0.5);
}

TEST(Evaluations, OfOneEntryTheNewestCounts) {
  const TempFolder temp;
  write_evaluation(temp.path(), record("fog", 0.1));
  write_evaluation(temp.path(), record("fog", 0.2));
  EXPECT_THAT(read_evaluations(temp.path()).replaced, IsEmpty()) << "one hash: one file";
  EXPECT_EQ(read_evaluations(temp.path()).records[0].metrics.at("accuracy"), 0.2);
  write_evaluation(temp.path(), record("fog", 0.3, "fedcba9876543210"));
  write_evaluation(temp.path(), record("snow", 0.4));
  // A copy of the folder has other times.
  const std::string newest = temp / "evaluations/fog-fedcba9876543210.json";
  fs::last_write_time(newest, fs::file_time_type::clock::now() - std::chrono::hours(1));
  const Evaluations read = read_evaluations(temp.path());
  ASSERT_EQ(read.records.size(), 2U);
  EXPECT_EQ(read.records[0].metrics.at("accuracy"), 0.3);
  EXPECT_THAT(read.replaced, ElementsAre("fog"));
  EvaluationRecord behind = record("fog", 0.4, "0000000000000000");
  behind.written = written_after(read.records[0].written + 1'000'000'000);  // the clock went back
  write_evaluation(temp.path(), behind);
  write_evaluation(temp.path(), record("fog", 0.2));
  EXPECT_EQ(read_evaluations(temp.path()).records[0].metrics.at("accuracy"), 0.4);
}

TEST(Evaluations, OfAnEarlierVersionAreAsOldAsTheirFiles) {
  const TempFolder temp;
  for (const char* hash : {"0123456789abcdef", "fedcba9876543210"}) {
    write_evaluation(temp.path(), record("fog", hash[0] == '0' ? 0.1 : 0.2, hash));
    const std::string path = temp / (std::string("evaluations/fog-") + hash + ".json");
    nlohmann::json file = nlohmann::json::parse(read_text(path));
    file.erase("written");
    file.erase("check");
    write_file(path, file.dump());
    const auto hours = std::chrono::hours(hash[0] == '0' ? 1 : 2);
    fs::last_write_time(path, fs::file_time_type::clock::now() - hours);
  }
  EXPECT_EQ(read_evaluations(temp.path()).records[0].metrics.at("accuracy"), 0.1);
}

TEST(Evaluations, SayWhenTheyWereWrittenAndElseTheirFilesDo) {
  const TempFolder temp;
  EvaluationRecord fog = record("fog", 0.5);
  fog.written = 1'700'000'000'000'000;
  write_evaluation(temp.path(), fog);
  EXPECT_EQ(written_of(temp / "evaluations/fog-0123456789abcdef.json"), fog.written);
  const std::string damaged = temp.write("evaluations/fog-1.json", "{");
  fs::last_write_time(damaged, fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_NEAR(double(written_after(0) - written_of(damaged)), 3600e6, 60e6);
  EXPECT_EQ(written_of(temp / "evaluations/none.json"), 0);
}

TEST(Evaluations, NoticeAnotherHandThanThePrograms) {
  const TempFolder temp;
  write_evaluation(temp.path(), record("fog", 0.25));
  const std::string path = temp / "evaluations/fog-0123456789abcdef.json";
  std::string text = read_text(path);
  text.replace(text.find("0.25"), 4, "0.75");
  write_file(path, text);
  const Evaluations edited = read_evaluations(temp.path());
  EXPECT_THAT(edited.records, IsEmpty());
  EXPECT_THAT(edited.damaged, ElementsAre(AllOf(StartsWith(path + ": damaged: "),
                                                mentions("its check", "edited"))));
  // One of an earlier version has no check.
  nlohmann::json without = nlohmann::json::parse(text);
  without.erase("check");
  write_file(path, without.dump());
  EXPECT_EQ(read_evaluations(temp.path()).records.at(0).metrics.at("accuracy"), 0.75);
}

TEST(Evaluations, NameDamagedFilesAndReadTheOthers) {
  const TempFolder temp;
  write_evaluation(temp.path(), record("fog", 0.5));
  temp.write("evaluations/a-1.json", "{");
  temp.write("evaluations/b-1.json", R"({"entry": "b"})");
  temp.write("evaluations/c-1.json.tmp-17", "half");
  constexpr std::size_t kLevels = 500'000;  // more than the stack has room for
  temp.write("evaluations/d-1.json",
             "{\"set\": " + std::string(kLevels, '[') + std::string(kLevels, ']') + "}");
  const Evaluations read = read_evaluations(temp.path());
  EXPECT_EQ(read.records.size(), 1U);
  EXPECT_THAT(read.damaged, ElementsAre(HasSubstr("evaluations/a-1.json: damaged"),
                                        HasSubstr("evaluations/b-1.json: damaged"),
                                        HasSubstr("evaluations/d-1.json: damaged")));
  EXPECT_THAT(read_evaluations(temp / "none").records, IsEmpty());
}

TEST(Evaluations, HaveNamesThatStayInTheirFolder) {
  EXPECT_EQ(evaluation_file("fog,severity=3", kHash),
            "evaluations/fog,severity=3-0123456789abcdef.json");
  EXPECT_EQ(evaluation_file("swap/0.01", kHash), "evaluations/swap~0.01-0123456789abcdef.json");
  for (const char* hash : {"", "/../../../x", "0g", "A"}) {
    EXPECT_THAT(message_of<ConfigError>([&] { evaluation_file("fog", hash); }),
                mentions("hash", "hexadecimal"))
        << hash;
  }
  for (const char* name : {"", "..", "../up", ".hidden", "line\nbreak"}) {
    EXPECT_THAT(message_of<ConfigError>([&] { evaluation_file(name, kHash); }),
                HasSubstr("a file's name"))
        << name;
  }
}

}  // namespace
}  // namespace attnlab::evaluations_test
