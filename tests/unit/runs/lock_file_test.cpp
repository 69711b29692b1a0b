// A run's lock: which code and data its numbers are of.
#include "framework/runs/lock_file.h"
#include "framework/base/json.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "framework/base/files.h"
#include "framework/experiment/identity.h"
#include "tests/support/made_parts.h"

namespace attnlab::testing::lock_file_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json part_of(const json& lock, const std::string& kind) {
  for (const json& part : lock.at("parts")) {
    if (part.at("kind") == kind) return part;
  }
  return nullptr;
}

TEST(LockFile, NamesEveryPartOnceWithHashAndStamp) {
  const MadeParts parts;
  const Experiment quest = parts.resolve(kImages), again = parts.resolve(kImages);
  const json lock = json::parse(lock_text({&quest, &again}, {"d1", ""}));
  EXPECT_EQ(lock.at("format"), 1);
  EXPECT_FALSE(lock.at("framework").at("revision").get<std::string>().empty());
  EXPECT_EQ(lock.at("data"), json::array({"d1"}));
  ASSERT_EQ(lock.at("parts").size(), 4U);
  const json attention = part_of(lock, "attention");
  EXPECT_EQ(attention.at("id"), quest.attention.id);
  EXPECT_EQ(attention.at("hash"), file_hash(quest.attention.path));
  EXPECT_FALSE(attention.at("stamp").empty());
  EXPECT_FALSE(attention.contains("bundle"));
}

TEST(LockFile, NamesTheBundleThatAPartCameIn) {
  const MadeParts parts;
  const Experiment quest = parts.resolve(kImages);
  const std::string folder = fs::path(quest.attention.path).parent_path().string();
  write_file(folder + "/bundle.attnlab", "");
  write_file(folder + "/record.json", json({{"id", "acme/quest"},
                                            {"version", "1.2.0"},
                                            {"bundle", "abc"},
                                            {"key", "K"},
                                            {"library_hash", "h"}})
                                          .dump());
  const json lock = json::parse(lock_text({&quest}, {}));
  EXPECT_EQ(part_of(lock, "attention").at("bundle"),
            json({{"sha256", "abc"}, {"version", "1.2.0"}, {"key", "K"}}));
}

/// Parts with a second task, and a run's folder with a lock.
class EvaluationLock : public ::testing::Test {
 protected:
  EvaluationLock() {
    json task = made_manifest(Kind::task, "counting");
    task["takes"] = {"logits"};
    write_plugin(parts_.folder(), "plugins/counting.so", task);
    catalogue_ = catalogue_of(parts_.folder() / "plugins");
    fs::create_directories(folder());
    write_file(folder() + "/lock.json", lock_text({&run_}, {"d1"}));
  }
  std::string folder() const { return parts_.folder() / "run"; }
  json lock() const { return json::parse(read_text(folder() + "/lock.json")); }
  /// "kind id" of the plugins that only an entry uses.
  std::vector<std::string> parts_of_entry(const std::string& entry) const {
    std::vector<std::string> names;
    const json all = lock();
    for (const json& part : all.at("evaluations").at(entry).at("parts")) {
      names.push_back(part.at("kind").get<std::string>() + " " + part.at("id").get<std::string>());
    }
    return names;
  }
  std::vector<EvaluationEntry> entries(const std::string& evaluate) const {
    Node composed = parse_yaml(kImages + "evaluate: {" + evaluate + "}\n", "f.yaml");
    interpolate(composed);
    return evaluations_of(resolve_experiment(composed, *catalogue_, "made"), *catalogue_);
  }

  const MadeParts parts_;
  const Experiment run_ = parts_.resolve(kImages);
  std::optional<Catalogue> catalogue_;
};

const std::string kCount = "count: {set: {task: counting}}";
const std::string kFog = "fog: {set: {dataset: {root: fog}}}";

TEST_F(EvaluationLock, NamesPluginsThatOnlyEvaluationsUse) {
  const json before = lock();
  lock_entries(folder(), entries(kCount + ", " + kFog));
  EXPECT_THAT(parts_of_entry("count"), ElementsAre("task lab/counting"));
  EXPECT_THAT(parts_of_entry("fog"), IsEmpty()) << "the run's own plugins stand in its parts";
  for (const char* member : {"parts", "data", "framework"}) {
    EXPECT_EQ(lock().at(member), before.at(member)) << member;
  }
  EXPECT_FALSE(lock().at("evaluations").at("fog").contains("data")) << "nothing was evaluated yet";
}

TEST_F(EvaluationLock, SaysOnWhichDataAnEntryWasEvaluated) {
  const auto both = entries(kCount + ", " + kFog);
  lock_entries(folder(), both);
  lock_evaluation(folder(), both[1], "d2");
  EXPECT_EQ(lock().at("evaluations").at("fog").at("data"), "d2");
  EXPECT_EQ(lock().at("data"), json::array({"d1"})) << "the run's own";
  EXPECT_EQ(evaluation_data(folder()), std::set<std::string>{"d2"});
  lock_entries(folder(), both);  // as when the run is called again
  EXPECT_EQ(lock().at("evaluations").at("fog").at("data"), "d2");
}

TEST_F(EvaluationLock, HasThePluginAsAnEntryWasEvaluatedWithIt) {
  const auto both = entries(kCount + ", " + kFog);
  lock_evaluation(folder(), both[0], "d");
  const std::string path = both[0].experiment.task.path;
  const json before = lock().at("evaluations").at("count").at("parts").at(0);
  write_file(path, read_text(path) + '\0');
  lock_evaluation(folder(), both[0], "d");
  const json now = lock().at("evaluations").at("count").at("parts");
  ASSERT_EQ(now.size(), 1U) << "the newer one in place of the older one";
  EXPECT_NE(now.at(0).at("hash"), before.at("hash"));
  // The run's own dataset, too, where it is another file by now.
  const std::string dataset = both[1].experiment.dataset.path;
  write_file(dataset, read_text(dataset) + '\0');
  lock_evaluation(folder(), both[1], "d2");
  EXPECT_EQ(parts_of_entry("fog").size(), 1U);
}

TEST_F(EvaluationLock, IsNotMadeForARunWithoutOne) {
  fs::remove(folder() + "/lock.json");
  lock_entries(folder(), entries(kCount));
  lock_evaluation(folder(), entries(kCount)[0], "d");
  EXPECT_FALSE(fs::exists(folder() + "/lock.json"));
  EXPECT_TRUE(evaluation_data(folder()).empty());
}

TEST_F(EvaluationLock, ThatIsDamagedIsNamed) {
  for (const char* text : {"{", "[]", "{\"parts\": 3}"}) {
    write_file(folder() + "/lock.json", text);
    EXPECT_THAT(message_of<DataError>([&] { lock_entries(folder(), entries(kCount)); }),
                HasSubstr("lock.json: damaged"))
        << text;
    EXPECT_TRUE(evaluation_data(folder()).empty());
  }
}

TEST(LockFile, SaysWhichPluginCannotBeRead) {
  const MadeParts parts;
  const Experiment quest = parts.resolve(kImages);
  fs::remove(quest.attention.path);
  EXPECT_THROW(lock_text({&quest}, {}), Error);
}

}  // namespace
}  // namespace attnlab::testing::lock_file_test
