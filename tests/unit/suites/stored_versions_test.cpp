// Stored runs of other revisions of the framework, and of other versions of plugins.
#include <filesystem>
#include <string>

#include "framework/base/text.h"
#include "framework/suites/stored_cells.h"
#include "tests/unit/suites/made_stored_cells.h"

namespace attnlab::stored_versions_test {
namespace {

using namespace testing;
using nlohmann::json;

/// As `edit` leaves a file.
json without_check(const std::string& text) {
  json stored = json::parse(text);
  stored.erase("check");
  return stored;
}

// A comment or a moved file changes the revision, and no number.
TEST_F(StoredCells, StandUnderAnotherRevisionWithTheSameNumbers) {
  keep_all();
  edit([](json& in) { in["identity"]["framework"] = "0123456789abcdef"; });
  EXPECT_EQ(found().matches.size(), 2U);
}

TEST_F(StoredCells, AreNotUsedUnderOtherNumbersOfTheFrameworkButByWord) {
  keep_all();
  edit([](json& in) { in["identity"]["numbers"] = kNumbersVersion + 1; });
  EXPECT_THAT(refusal(suite()),
              says({"small/standard/0: ", "of version " + std::to_string(kNumbersVersion) +
                                              ", were of " + std::to_string(kNumbersVersion + 1)}));
  EXPECT_EQ(found().acceptable, 2U);
  EXPECT_EQ(found(suite(), /*accept_revision=*/true).matches.size(), 2U);
}

TEST_F(StoredCells, SayWhatItCostsWhereMostAreRefused) {
  keep_all();
  EXPECT_EQ(refusal_warning(found()), "") << "all are used";
  EXPECT_THAT(refusal_warning(found(suite("runs", "set: {train: {epochs: 3}}\n"))),
              AllOf(HasSubstr("2 of 2 stored runs"), HasSubstr("that took " + duration(2 * 2.5)),
                    HasSubstr("--accept-revision does not help")));
  edit([](json& in) { in["identity"].erase("numbers"); });
  EXPECT_THAT(refusal_warning(found()), mentions("--accept-revision", "2 of them", "version"));
  EXPECT_EQ(refusal_warning(found(suite(), /*accept_revision=*/true)), "");
}

TEST_F(StoredCells, OfAnEarlierAttnlabAreUsedByWordAlone) {
  keep_all();
  edit([](json& in) { in["identity"].erase("numbers"); });
  EXPECT_THAT(refusal(suite()), HasSubstr("of which version"));
  EXPECT_EQ(found(suite(), /*accept_revision=*/true).matches.size(), 2U);
}

TEST_F(StoredCells, NoWordHelpsWhereMoreThanTheFrameworkDiffers) {
  keep_all();
  edit([](json& in) {
    in["identity"].erase("numbers");
    in["identity"]["plugins"]["model"]["version"] = "0.9";
  });
  EXPECT_THAT(refusal(suite(), /*accept_revision=*/true), HasSubstr("0.9"));
  EXPECT_EQ(found().acceptable, 0U);
}

TEST_F(StoredCells, KnowNoNumbersOfARunThatWentOnUnderOthers) {
  const Cell cell = suite("elsewhere").cells.front();
  finish(cell, 0.5);
  EXPECT_EQ(stored_of(cell.folder.path()).numbers, kNumbersVersion);
  const auto resumed = [&](std::int64_t numbers) {
    json in = json::parse(read_text(cell.folder.file("environment.json")));
    in["resumed"] = json::array();
    in["resumed"].push_back({{"step", 3}, {"framework", {{"numbers", numbers}}}});
    write_file(cell.folder.file("environment.json"), in.dump());
    return stored_of(cell.folder.path()).numbers;
  };
  EXPECT_EQ(resumed(kNumbersVersion), kNumbersVersion);
  EXPECT_EQ(resumed(kNumbersVersion + 1), kUnknownNumbers);
}

// What was restored here before the framework's sources changed once more.
TEST_F(StoredCells, AreRestoredAnewUnderTheNextRevision) {
  keep_all();
  edit([](json& in) { in["identity"]["framework"] = "0123456789abcdef"; });
  Suite here = restored();
  for (const Cell& cell : here.cells) {  // as an attnlab of yet another revision left them
    const std::string file = cell.folder.file("identity.json");
    json in = json::parse(read_text(file));
    in["accepted"] = {"00000000000000ff"};
    write_file(file, in.dump());
  }
  Suite again = suite();
  ASSERT_EQ(again.cells.front().action, CellAction::stale);
  use_found(again);
  EXPECT_EQ(again.cells.front().action, CellAction::finished);
  EXPECT_EQ(again.cells.front().folder.path(), here.cells.front().folder.path());
  EXPECT_EQ(suite().cells.front().action, CellAction::finished) << "the next call finds it";
}

TEST_F(StoredCells, UnderAnotherRevisionKeepTheirOwnAndAreFoundAgain) {
  keep_all();
  edit([](json& in) { in["identity"]["framework"] = "0123456789abcdef"; });
  Suite here = restored();
  const Identity written = *read_identity(here.cells.front().folder.path());
  EXPECT_EQ(written.framework, "0123456789abcdef") << "the numbers are of that revision";
  EXPECT_THAT(written.accepted, ::testing::ElementsAre(here.cells.front().identity.framework));
  const Suite again = suite();
  EXPECT_EQ(again.cells.front().action, CellAction::finished);
  EXPECT_EQ(again.cells.front().folder.path(), here.cells.front().folder.path());
}

// ---- plugins

TEST_F(StoredCells, StoredAgainAreStillOfThePluginsThatMadeThem) {
  keep_all();
  edit([](json& in) { in["identity"]["plugins"]["model"]["hash"] = "0011223344556677"; });
  Suite here = restored();
  const StoredRun again = stored_of(here.cells.front().folder.path());
  EXPECT_EQ(again.identity.plugins.at("model").hash, "0011223344556677");
  EXPECT_EQ(without_check(stored_json(again)),
            json::parse(read_text(temp_ / ("kept/" + again.name()))));
}

TEST_F(StoredCells, AreNotUsedForAnotherVersionOfAPlugin) {
  keep_all();
  edit([](json& in) { in["identity"]["plugins"]["model"]["version"] = "0.9"; });
  EXPECT_THAT(refusal(suite()), AllOf(HasSubstr("model is "), HasSubstr("0.9")));
}

TEST_F(StoredCells, HaveTheVersionsThatMadeThemAndNotThoseOfNow) {
  const Cell cell = suite("elsewhere").cells.front();
  finish(cell, 0.5);
  json lock = json::parse(read_text(cell.folder.file("lock.json")));
  for (json& part : lock["parts"]) part["version"] = "0.9";
  const json other = {
      {"kind", "dataset"}, {"id", "lab/pictures"}, {"version", "0.8"}, {"hash", "h"}};
  lock["evaluations"]["fog"]["parts"] = json::array({other});
  write_file(cell.folder.file("lock.json"), lock.dump());
  const StoredRun run = stored_of(cell.folder.path());
  for (const auto& [kind, plugin] : run.plugins) EXPECT_EQ(plugin.version, "0.9") << kind;
  EXPECT_EQ(run.plugins.size(), 4U);
  EXPECT_EQ(run.entries.at("fog"), (PluginVersions{{"dataset lab/pictures", "0.8"}}));
  keep(run);
  EXPECT_THAT(refusal(suite()), mentions("lab/vit 1.2.3", "was lab/vit 0.9"));
}

TEST_F(StoredCells, AreRefusedWhereTheirVersionsAreNotKnown) {
  const Cell cell = suite("elsewhere").cells.front();
  finish(cell, 0.5);
  const auto said = [&] { return message_of<ConfigError>([&] { stored_of(cell.folder.path()); }); };
  const std::string file = cell.folder.file("lock.json");
  const json lock = json::parse(read_text(file));
  json changed = lock;
  changed["evaluations"] = json::object();
  write_file(file, changed.dump());
  EXPECT_THAT(said(),
              mentions("the plugins", "evaluation 'fog'", "attnlab eval " + cell.folder.path()));
  changed = lock;
  for (json& part : changed["parts"]) part["hash"] = "of another file";
  write_file(file, changed.dump());
  EXPECT_THAT(said(), mentions("lock.json", "the model"));
  std::filesystem::remove(file);
  EXPECT_THAT(said(), HasSubstr("has no lock.json"));
}

TEST_F(StoredCells, AreNotUsedForAnotherVersionOfWhatEvaluates) {
  keep_all();
  edit([](json& in) { in["identity"]["evaluations"]["fog"]["dataset lab/pictures"] = "0.9"; });
  EXPECT_THAT(refusal(suite()),
              says({"small/standard/0:", "evaluation 'fog':", "lab/pictures is 1.2.3, was 0.9"}));
  edit([](json& in) { in["identity"].erase("evaluations"); });  // as earlier files are
  EXPECT_THAT(refusal(suite()), mentions("version", "lab/pictures is not known"));
}

TEST_F(StoredCells, AreNotUsedForAnotherVersionOfWhatJudgesTheEpochs) {
  const std::string judged =
      "set: {train: {protocol: sound, early_stop: {metric: fog/accuracy, patience: 2}}, evaluate: "
      "{fog: {set: {task: {use: counting}}, when: each, split: validation}}}\n";
  const Cell cell = suite("elsewhere", judged).cells.front();
  finish(cell, 0.5, /*evaluated=*/false);
  const StoredRun run = stored_of(cell.folder.path());
  EXPECT_EQ(run.judges, (PluginVersions{{"task lab/counting", "1.2.3"}}));
  EXPECT_EQ(run.plugins.at("task").id, "lab/sorting");
  keep(run);
  edit([](json& in) { in["identity"]["judges"]["task lab/counting"] = "0.9"; });
  EXPECT_THAT(refusal(suite("runs", judged)),
              mentions("judges its epochs", "lab/counting is 1.2.3, was 0.9"));
}

TEST_F(StoredCells, AreStaleOnceWhatEvaluatesHasAnotherVersion) {
  keep_all();
  Suite here = restored();
  Suite again = suite();
  check_restored(again, catalogue_, false, false);
  EXPECT_EQ(again.cells.front().action, CellAction::finished) << "nothing changed";
  edit_restored(
      here, [](json& in) { in["identity"]["evaluations"]["fog"]["dataset lab/pictures"] = "0.9"; });
  check_restored(again, catalogue_, false, false);
  EXPECT_EQ(again.cells.front().action, CellAction::stale);
  EXPECT_THAT(again.cells.front().reason,
              says({"a stored result", "evaluation 'fog':", "lab/pictures is 1.2.3, was 0.9"}));
  again = suite();
  check_restored(again, catalogue_, true, /*dry_run=*/true);
  EXPECT_EQ(again.cells.front().action, CellAction::run);
  EXPECT_TRUE(again.cells.front().folder.exists()) << "a dry run removes nothing";
  again = suite();
  check_restored(again, catalogue_, true, false);
  EXPECT_FALSE(again.cells.front().folder.exists()) << "or it would count as finished";
}

}  // namespace
}  // namespace attnlab::stored_versions_test
