// A run's lock: which code and data its numbers are of.
#include "framework/runs/lock_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "framework/base/files.h"
#include "framework/experiment/identity.h"
#include "tests/support/made_parts.h"

namespace attnlab::testing {
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

TEST(LockFile, SaysWhichPluginCannotBeRead) {
  const MadeParts parts;
  const Experiment quest = parts.resolve(kImages);
  fs::remove(quest.attention.path);
  EXPECT_THROW(lock_text({&quest}, {}), Error);
}

}  // namespace
}  // namespace attnlab::testing
