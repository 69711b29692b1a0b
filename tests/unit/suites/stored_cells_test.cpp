// Stored results: a finished run as one file, and such files in the place of a suite's runs.
#include "framework/suites/stored_cells.h"

#include <filesystem>

#include "framework/base/text.h"
#include "framework/comparison/comparison.h"
#include "framework/runs/lock_file.h"
#include "framework/runs/missing_evaluations.h"
#include "framework/runs/run_records.h"
#include "tests/support/made_parts.h"
#include "tests/support/made_runs.h"
#include "tests/support/unprivileged.h"

namespace attnlab::stored_cells_test {
namespace {

using namespace testing;
using nlohmann::json;
using ::testing::Contains;
namespace fs = std::filesystem;

/// The made parts' plugins, and a task that only evaluations use.
Catalogue with_counting(const MadeParts& parts) {
  json task = made_manifest(Kind::task, "counting");
  task["takes"] = {"logits"};
  write_plugin(parts.folder(), "plugins/counting.so", task);
  return catalogue_of(parts.folder() / "plugins");
}

/// As `edit` leaves a file.
json without_check(const std::string& text) {
  json stored = json::parse(text);
  stored.erase("check");
  return stored;
}

class StoredCells : public ::testing::Test {
 protected:
  StoredCells() {
    temp_.write("small.yaml",
                "schema: 1\nmodel: {use: vit, dim: 8}\nattention: quest\ntask: sorting\n"
                "dataset: {use: pictures}\nevaluate:\n  fog: {set: {dataset: {use: pictures, root: "
                "foggy}}}\n");
  }

  /// A suite of two attentions, its cells identified below a folder. @param more  of the suite
  Suite suite(const std::string& runs = "runs", const std::string& more = "",
              const std::string& data = "d1") const {
    const std::string file = temp_.write(
        "s.yaml",
        "schema: 1\nattentions: [standard, quest]\nexperiments: [small.yaml]\nseeds: [0]\n"
        "stored: [kept]\n" +
            more);
    Suite suite = load_suite(file, {}, catalogue_, temp_ / runs);
    identify(suite.cells, suite.folder, [&](const Experiment&) { return data; });
    decide(suite.cells, {});
    return suite;
  }

  /// A finished run of a cell, with its evaluation.
  void finish(const Cell& cell, double accuracy, bool evaluated = true) const {
    cell.folder.freeze(cell.experiment, cell.seed, cell.identity);
    cell.folder.write_status({RunState::done, 5, 5, 1, 2.5, {{"accuracy", accuracy}}, ""});
    write_environment(cell.folder, {{"machine", {{"cpu", "a processor"}, {"host", "secret"}}},
                                    {"data", {{"fingerprint", "d1"}, {"source", "/home/me"}}},
                                    {"framework", {{"numbers", kNumbersVersion}}},
                                    {"model", {{"hash", "m"}}}});
    if (!evaluated) return;
    lock_entries(cell.folder.path(), evaluations_of(cell.experiment, catalogue_));
    EvaluationRecord fog;
    fog.entry = "fog";
    fog.hash = "0123456789abcdef";
    fog.split = "test";
    fog.done = true;
    fog.metrics = {{"accuracy", accuracy / 2}};
    fog.infos = {kMadeMetrics.front()};
    fog.set = R"({"dataset": {"root": "foggy", "use": "pictures"}})";  // JSON sorts its keys
    write_evaluation(cell.folder.path(), fog);
  }

  /// Runs the suite elsewhere and keeps what came of it.
  void keep_all(bool evaluated = true) const {
    double accuracy = 0.5;
    for (const Cell& cell : suite("elsewhere").cells) {
      finish(cell, accuracy += 0.1, evaluated);
      const StoredRun run = stored_of(cell.folder.path());
      temp_.write("kept/" + run.name(), stored_json(run));
    }
  }

  std::vector<std::string> kept_files() const {
    std::vector<std::string> unreadable;
    const std::vector<std::string> files = stored_files(temp_ / "kept", unreadable);
    EXPECT_THAT(unreadable, IsEmpty());
    return files;
  }

  std::string refusal(const Suite& suite, bool accept_revision = false) const {
    const StoredUse use = find_stored(suite, catalogue_, accept_revision);
    EXPECT_THAT(use.matches, IsEmpty());
    return use.refused.empty() ? "" : use.refused.front();
  }

  /// Changes every kept file.
  void edit(const std::function<void(json&)>& change) const {
    for (const std::string& file : kept_files()) {
      json in = json::parse(read_text(file));
      change(in);
      in.erase("check");  // as files of earlier versions have none
      write_file(file, in.dump(1));
    }
  }

  /// Changes what a suite restored here.
  void edit_restored(const Suite& here, const std::function<void(json&)>& change) const {
    for (const Cell& cell : here.cells) {
      const std::string file = cell.folder.file("stored.json");
      json in = json::parse(read_text(file));
      change(in);
      write_file(file, in.dump(1));
    }
  }

  /// The model as it is in another release, of the same version. @param options  its own, JSON
  void change_model(const std::string& options) {
    json model = made_manifest(Kind::model, "vit");
    model["takes"] = {"image"};
    model["gives"] = {"logits"};
    model["options"] = json::parse(options);
    write_plugin(parts_.folder(), "plugins/vit.so", model);
    catalogue_ = catalogue_of(parts_.folder() / "plugins");
  }

  const MadeParts parts_;
  Catalogue catalogue_ = with_counting(parts_);
  const TempFolder temp_;
};

TEST_F(StoredCells, AStoredRunReadsBackAsItWas) {
  keep_all();
  const std::vector<std::string> files = kept_files();
  ASSERT_EQ(files.size(), 2U);
  const StoredRun run = read_stored(files.front());
  EXPECT_EQ(run.experiment + "/" + run.attention, "small/quest");
  EXPECT_EQ(run.status.metrics.at("accuracy"), 0.7);
  ASSERT_EQ(run.evaluations.size(), 1U);
  EXPECT_EQ(run.evaluations.front().metrics.at("accuracy"), 0.35);
  EXPECT_THAT(run.config, HasSubstr("use: quest"));
  EXPECT_EQ(stored_json(run), read_text(files.front())) << "equal runs are equal files";
  EXPECT_LT(read_text(files.front()).size(), 10000U) << "small enough to keep";
}

TEST_F(StoredCells, AFolderThatCannotBeReadIsNamedAndHidesNoOther) {
  keep_all();
  fs::create_symlink("nowhere", temp_ / "kept/small/quest/dangling.json");
  EXPECT_EQ(kept_files().size(), 2U);
  const std::string closed = temp_ / "kept/small/quest";
  fs::permissions(closed, fs::perms::none);
  const Unprivileged user(temp_.path());
  if (!user.works()) GTEST_SKIP() << "needs another user than the superuser";
  std::vector<std::string> unreadable;
  EXPECT_THAT(stored_files(temp_ / "kept", unreadable), ElementsAre(HasSubstr("small/standard/")));
  EXPECT_THAT(unreadable, ElementsAre(mentions(closed, "Permission denied", "permissions")));
}

TEST_F(StoredCells, StoredFilesNameNoHostAndNoFolderOfAnybody) {
  keep_all();
  const std::string text = read_text(kept_files().front());
  EXPECT_THAT(text, AllOf(HasSubstr("a processor"), Not(HasSubstr("secret")),
                          Not(HasSubstr("/home/me")), Not(HasSubstr(temp_.path()))));
}

TEST_F(StoredCells, StandForRunsThatAgreeInEverything) {
  keep_all();
  Suite here = suite();
  use_stored(find_stored(here, catalogue_, false), here);
  for (const Cell& cell : here.cells) {
    EXPECT_EQ(cell.action, CellAction::finished);
    EXPECT_EQ(cell.folder.status().state, RunState::done);
  }
  const auto rows = summarise(here);
  EXPECT_EQ(rows.at(1).metrics.at("accuracy").mean, 0.7);
  EXPECT_EQ(rows.at(1).metrics.at("fog/accuracy").mean, 0.35);
  EXPECT_EQ(suite().cells.front().action, CellAction::finished) << "the next call finds them";
}

TEST_F(StoredCells, AreNotUsedOnceEdited) {
  keep_all();
  const std::string file = kept_files().front();
  std::string text = read_text(file);
  text.replace(text.find("0.7"), 3, "0.9");
  write_file(file, text);
  EXPECT_THAT(
      message_of<DataError>([&] { read_stored(file); }),
      AllOf(StartsWith(file + ": not a stored run: "), HasSubstr("does not fit its check")));
}

TEST_F(StoredCells, DoNotLeadOutOfTheFolderOfTheirRun) {
  keep_all();
  StoredRun run = read_stored(kept_files().front());
  run.evaluations.front().hash = "/../../../x";
  const std::string file = temp_ / "foreign.json";
  write_file(file, stored_json(run));  // its check fits
  EXPECT_THAT(message_of<DataError>([&] { read_stored(file); }),
              AllOf(StartsWith(file + ": not a stored run: "), mentions("hash", "hexadecimal")));
}

TEST_F(StoredCells, RestoredHereAreGuardedAsRunsOfThisMachineAre) {
  keep_all();
  Suite here = suite();
  use_stored(find_stored(here, catalogue_, false), here);
  const RunFolder& folder = here.cells.front().folder;
  std::string config = read_text(folder.file("config.yaml"));
  config.replace(config.find("epochs: "), 9, "epochs: 7");
  write_file(folder.file("config.yaml"), config);
  EXPECT_THAT(message_of<DataError>([&] { folder.status(); }),
              HasSubstr("config.yaml is missing or was changed"));
}

TEST_F(StoredCells, ComparisonsSayWhichRunsWereStored) {
  keep_all();
  Suite here = suite();
  use_stored(find_stored(here, catalogue_, false), here);
  const RunCollection runs = find_runs({here.folder});
  const Comparison comparison = compare_runs(runs, {}, "standard");
  EXPECT_THAT(comparison.notes, Contains(mentions("stored results", "quest, standard, each",
                                                  "small: 1 run, seed 0")));
  EXPECT_THAT(comparison.differences, IsEmpty());
}

TEST_F(StoredCells, CompareWithRunsOfAnotherBuildOfTheSamePlugins) {
  keep_all();
  Suite here = suite();
  StoredUse use = find_stored(here, catalogue_, false);
  use.matches.resize(1);
  use_stored(use, here);
  finish(here.cells.back(), 0.9);
  write_environment(here.cells.back().folder,
                    {{"data", {{"fingerprint", "d1"}}}, {"model", {{"hash", "of another build"}}}});
  const Comparison comparison = compare_runs(find_runs({here.folder}), {}, "standard");
  EXPECT_THAT(comparison.differences, IsEmpty()) << comparison.differences.front().text();
}

TEST_F(StoredCells, AreNotUsedForAnotherConfiguration) {
  keep_all();
  EXPECT_EQ(refusal(suite("runs", "set: {train: {epochs: 3}}\n")),
            "small/standard/0: the configuration changed");
}

TEST_F(StoredCells, AreNotUsedForOtherData) {
  keep_all();
  EXPECT_THAT(refusal(suite("runs", "", "d2")), says({"small/standard/0:", "'pictures' differ"}));
  EXPECT_THAT(refusal(suite("runs", "", "")),
              says({"small/standard/0:", "fingerprint", "not known"}));
}

TEST_F(StoredCells, AreNotUsedWhereAnEvaluationsSettingsCannotBeRead) {
  keep_all();
  edit([](json& in) {
    for (int i = 0; i <= 2000; ++i) in["evaluations"][0]["set"]["key" + std::to_string(i)] = i;
  });
  EXPECT_THAT(refusal(suite()), says({"small/standard/0:", "evaluation 'fog':", "cannot be read"}));
}

TEST_F(StoredCells, AreNotUsedWhereAMeanIsOfOtherPoints) {
  const auto over = [](const char* points) {
    return "set: {evaluate: {swap: {over: {dataset.root: " + std::string(points) + "}}}}\n";
  };
  for (const Cell& cell : suite("elsewhere", over("[a, b]")).cells) {
    finish(cell, 0.5);
    std::vector<EvaluationRecord> points;
    for (const std::string root : {"a", "b"}) {
      EvaluationRecord& point = points.emplace_back();
      point.entry = "swap/" + root;
      point.hash = root + "123456789abcdef";
      point.split = "test";
      point.set = json({{"dataset", {{"root", root}}}}).dump();
      point.done = true;
      point.metrics = {{"accuracy", 0.25}};
      point.infos = {kMadeMetrics.front()};
      write_evaluation(cell.folder.path(), point);
    }
    EvaluationRecord mean = points.front();
    mean.entry = "swap";
    mean.hash = mean_hash(points);
    mean.set = mean_set(points);
    write_evaluation(cell.folder.path(), mean);
    const StoredRun run = stored_of(cell.folder.path());
    temp_.write("kept/" + run.name(), stored_json(run));
  }
  EXPECT_EQ(find_stored(suite("runs", over("[a, b]")), catalogue_, false).matches.size(), 2U);
  EXPECT_THAT(refusal(suite("runs", over("[a]"))),
              says({"small/standard/0:", "evaluation 'swap':", "other points"}));
}

constexpr const char* kOldOptions = R"(
  {"name": "dim", "type": "int", "low": 1, "default": 64, "help": ""},
  {"name": "note", "type": "string", "default": "", "help": ""},
  {"name": "rates", "type": "float", "list": true, "default": [0.5], "help": ""})";

std::string first_file(const std::string& folder) {
  std::vector<std::string> unreadable;
  return stored_files(folder, unreadable).at(0);
}

// Every stored configuration has the defaults of its day filled in.
TEST_F(StoredCells, StandWhereAPluginHasGainedAnOptionWithADefault) {
  keep_all();
  change_model(std::string("[") + kOldOptions +
               R"(, {"name": "width", "type": "int", "low": 1, "default": 4, "help": ""}])");
  Suite here = suite();
  const StoredRun kept = read_stored(first_file(temp_ / "kept"));
  ASSERT_NE(here.cells.back().identity.configuration, kept.identity.configuration);
  use_stored(find_stored(here, catalogue_, false), here);
  for (const Cell& cell : here.cells) EXPECT_EQ(cell.action, CellAction::finished);
  EXPECT_EQ(suite().cells.back().action, CellAction::finished) << "the next call finds them";
  EXPECT_EQ(refusal(suite("others", "set: {model: {width: 5}}\n")),
            "small/standard/0: the configuration changed");
}

TEST_F(StoredCells, AreNotUsedWhereAnOptionHasAnotherDefaultByNowOrIsNoMore) {
  keep_all();
  change_model(R"([{"name": "dim", "type": "int", "low": 1, "default": 64, "help": ""},
                   {"name": "note", "type": "string", "default": "new", "help": ""},
                   {"name": "rates", "type": "float", "list": true, "default": [0.5],
                    "help": ""}])");
  EXPECT_EQ(refusal(suite()), "small/standard/0: the configuration changed");
  change_model(R"([{"name": "dim", "type": "int", "low": 1, "default": 64, "help": ""}])");
  EXPECT_EQ(refusal(suite("others")), "small/standard/0: the configuration changed");
}

// A comment or a moved file changes the revision, and no number.
TEST_F(StoredCells, StandUnderAnotherRevisionWithTheSameNumbers) {
  keep_all();
  edit([](json& in) { in["identity"]["framework"] = "0123456789abcdef"; });
  EXPECT_EQ(find_stored(suite(), catalogue_, false).matches.size(), 2U);
}

TEST_F(StoredCells, AreNotUsedUnderOtherNumbersOfTheFrameworkButByWord) {
  keep_all();
  edit([](json& in) { in["identity"]["numbers"] = kNumbersVersion + 1; });
  EXPECT_THAT(refusal(suite()),
              says({"small/standard/0: ", "of version " + std::to_string(kNumbersVersion) +
                                              ", were of " + std::to_string(kNumbersVersion + 1)}));
  EXPECT_EQ(find_stored(suite(), catalogue_, false).acceptable, 2U);
  EXPECT_EQ(find_stored(suite(), catalogue_, true).matches.size(), 2U);
}

TEST_F(StoredCells, SayWhatItCostsWhereMostAreRefused) {
  keep_all();
  EXPECT_EQ(refusal_warning(find_stored(suite(), catalogue_, false)), "") << "all are used";
  EXPECT_THAT(
      refusal_warning(find_stored(suite("runs", "set: {train: {epochs: 3}}\n"), catalogue_, false)),
      AllOf(HasSubstr("2 of 2 stored runs"), HasSubstr("that took " + duration(2 * 2.5)),
            HasSubstr("--accept-revision does not help")));
  edit([](json& in) { in["identity"].erase("numbers"); });
  EXPECT_THAT(refusal_warning(find_stored(suite(), catalogue_, false)),
              mentions("--accept-revision", "2 of them", "version"));
  EXPECT_EQ(refusal_warning(find_stored(suite(), catalogue_, true)), "");
}

TEST_F(StoredCells, OfAnEarlierAttnlabAreUsedByWordAlone) {
  keep_all();
  edit([](json& in) { in["identity"].erase("numbers"); });
  EXPECT_THAT(refusal(suite()), HasSubstr("of which version"));
  EXPECT_EQ(find_stored(suite(), catalogue_, true).matches.size(), 2U);
}

TEST_F(StoredCells, NoWordHelpsWhereMoreThanTheFrameworkDiffers) {
  keep_all();
  edit([](json& in) {
    in["identity"].erase("numbers");
    in["identity"]["plugins"]["model"]["version"] = "0.9";
  });
  EXPECT_THAT(refusal(suite(), /*accept_revision=*/true), HasSubstr("0.9"));
  EXPECT_EQ(find_stored(suite(), catalogue_, false).acceptable, 0U);
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
  Suite here = suite();
  use_stored(find_stored(here, catalogue_, false), here);
  for (const Cell& cell : here.cells) {  // as an attnlab of yet another revision left them
    const std::string file = cell.folder.file("identity.json");
    json in = json::parse(read_text(file));
    in["accepted"] = {"00000000000000ff"};
    write_file(file, in.dump());
  }
  Suite again = suite();
  ASSERT_EQ(again.cells.front().action, CellAction::stale);
  use_stored(find_stored(again, catalogue_, false), again);
  EXPECT_EQ(again.cells.front().action, CellAction::finished);
  EXPECT_EQ(again.cells.front().folder.path(), here.cells.front().folder.path());
  EXPECT_EQ(suite().cells.front().action, CellAction::finished) << "the next call finds it";
}

TEST_F(StoredCells, UnderAnotherRevisionKeepTheirOwnAndAreFoundAgain) {
  keep_all();
  edit([](json& in) { in["identity"]["framework"] = "0123456789abcdef"; });
  Suite here = suite();
  use_stored(find_stored(here, catalogue_, false), here);
  const Identity written = *read_identity(here.cells.front().folder.path());
  EXPECT_EQ(written.framework, "0123456789abcdef") << "the numbers are of that revision";
  EXPECT_THAT(written.accepted, ::testing::ElementsAre(here.cells.front().identity.framework));
  const Suite again = suite();
  EXPECT_EQ(again.cells.front().action, CellAction::finished);
  EXPECT_EQ(again.cells.front().folder.path(), here.cells.front().folder.path());
}

TEST_F(StoredCells, StoredAgainAreStillOfThePluginsThatMadeThem) {
  keep_all();
  edit([](json& in) { in["identity"]["plugins"]["model"]["hash"] = "0011223344556677"; });
  Suite here = suite();
  use_stored(find_stored(here, catalogue_, false), here);
  const StoredRun again = stored_of(here.cells.front().folder.path());
  EXPECT_EQ(again.identity.plugins.at("model").hash, "0011223344556677");
  EXPECT_EQ(without_check(stored_json(again)),
            json::parse(read_text(temp_ / ("kept/" + again.name()))));
}

TEST_F(StoredCells, HaveNoLockOfThisMachine) {
  keep_all();
  Suite here = suite();
  use_stored(find_stored(here, catalogue_, false), here);
  const RunFolder& folder = here.cells.front().folder;
  EXPECT_FALSE(std::filesystem::exists(folder.file("lock.json")));
  EXPECT_THAT(stored_source(folder.path()), HasSubstr("kept/small/standard"));
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
  temp_.write("kept/" + run.name(), stored_json(run));
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
  temp_.write("kept/" + run.name(), stored_json(run));
  edit([](json& in) { in["identity"]["judges"]["task lab/counting"] = "0.9"; });
  EXPECT_THAT(refusal(suite("runs", judged)),
              mentions("judges its epochs", "lab/counting is 1.2.3, was 0.9"));
}

TEST_F(StoredCells, AreStaleOnceWhatEvaluatesHasAnotherVersion) {
  keep_all();
  Suite here = suite();
  use_stored(find_stored(here, catalogue_, false), here);
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

TEST_F(StoredCells, AreNotUsedWhereAnEvaluationIsMissing) {
  keep_all(/*evaluated=*/false);
  EXPECT_THAT(refusal(suite()), says({"small/standard/0:", "no evaluation 'fog'"}));
}

TEST_F(StoredCells, AreUsedWithoutEvaluationsWhereTheRunDiverged) {
  keep_all(/*evaluated=*/false);
  edit([](json& in) { in["status"]["state"] = "diverged"; });
  Suite here = suite();
  use_stored(find_stored(here, catalogue_, false), here);
  for (const Cell& cell : here.cells) {
    EXPECT_EQ(cell.action, CellAction::finished);
    EXPECT_EQ(cell.folder.status().state, RunState::diverged);
  }
}

TEST_F(StoredCells, NeverReplaceARunThatIsThere) {
  keep_all();
  const Suite before = suite();
  finish(before.cells.front(), 0.1);
  const Suite here = suite();
  const StoredUse use = find_stored(here, catalogue_, false);
  ASSERT_EQ(use.matches.size(), 1U);
  EXPECT_EQ(here.cells[use.matches.front().cell].experiment.attention.label, "quest");
}

TEST_F(StoredCells, NeverReplaceARunOfAnotherRevisionThatWasMadeHere) {
  keep_all();
  edit([](json& in) { in["identity"]["framework"] = "0123456789abcdef"; });
  Suite here = suite();
  Cell made = here.cells.front();
  made.identity.framework = "0123456789abcdef";
  made.folder = RunFolder::of(here.folder, made.experiment, made.seed, made.identity);
  finish(made, 0.1);
  EXPECT_EQ(suite().cells.front().action, CellAction::stale);
  Rerun rerun;
  rerun.stale = true;
  decide(here.cells, rerun);
  ASSERT_EQ(here.cells.front().action, CellAction::run);
  const StoredUse use = find_stored(here, catalogue_, false);
  ASSERT_EQ(use.matches.size(), 1U);
  EXPECT_EQ(here.cells[use.matches.front().cell].experiment.attention.label, "quest");
  EXPECT_THAT(use.refused, IsEmpty()) << "it is run anew, as was asked for";
  use_stored(use, here);
  EXPECT_EQ(here.cells.front().action, CellAction::run);
  EXPECT_EQ(made.folder.status().metrics.at("accuracy"), 0.1);
  EXPECT_EQ(stored_source(made.folder.path()), "");
}

TEST_F(StoredCells, DoNotStandForAPointOfAGridThatAnotherBeginsWith) {
  temp_.write("tuned.yaml", read_text(temp_ / "small.yaml") +
                                "train: {epochs: 3}\ninit: {experiment: " + (temp_ / "small.yaml") +
                                "}\n");
  const auto grid = [&](const std::string& runs, const std::string& experiments) {
    const std::string file =
        temp_.write("grid.yaml", "schema: 1\nattentions: [quest]\nexperiments: [" + experiments +
                                     "]\nseeds: [0]\nstored: [kept]\ngrid: {dim: [16, 32]}\n");
    Suite suite = load_suite(file, {}, catalogue_, temp_ / runs);
    identify(suite.cells, suite.folder, [](const Experiment&) { return "d1"; });
    decide(suite.cells, {});
    return suite;
  };
  for (const Cell& cell : grid("elsewhere", "small.yaml").cells) {
    finish(cell, 0.5);
    const StoredRun run = stored_of(cell.folder.path());
    temp_.write("kept/" + run.name(), stored_json(run));
  }
  EXPECT_EQ(find_stored(grid("runs", "small.yaml"), catalogue_, false).matches.size(), 2U);
  EXPECT_THAT(find_stored(grid("runs", "small.yaml, tuned.yaml"), catalogue_, false).matches,
              IsEmpty());
}

TEST_F(StoredCells, AreNoRunsOfThisMachineWhereRestoringThemWasKilled) {
  keep_all();
  Suite here = suite();
  use_stored(find_stored(here, catalogue_, false), here);
  fs::remove(here.cells.front().folder.file("config.yaml"));  // it is written last
  const Suite again = suite();
  const Cell& cell = again.cells.front();
  ASSERT_EQ(cell.action, CellAction::run);
  ASSERT_EQ(cell.folder.path(), here.cells.front().folder.path());
  EXPECT_EQ(cell.folder.status().state, RunState::pending) << "also for attnlab run";
  cell.folder.freeze(cell.experiment, cell.seed, cell.identity);
  EXPECT_EQ(cell.folder.status().state, RunState::pending);
  EXPECT_THAT(names_in(cell.folder.path()),
              ElementsAre("config.yaml", "identity.json", "lock.json", "origins.txt"));
}

TEST_F(StoredCells, SayWhoseTheFilesAreBeforeTheyAreThere) {
  keep_all();
  Suite here = suite();
  const RunFolder folder = here.cells.front().folder;
  fs::create_directories(folder.path());
  write_file(folder.file("evaluations"), "");  // no folder: writing the first of them fails
  EXPECT_THROW(use_stored(find_stored(here, catalogue_, false), here), FileError);
  EXPECT_NE(stored_source(folder.path()), "");
  use_stored(find_stored(here, catalogue_, false), here);
  EXPECT_EQ(folder.status().state, RunState::done) << "what was left is not an obstacle";
}

TEST_F(StoredCells, TwoEvaluationsOfOneFileAreRefused) {
  keep_all();
  edit([](json& in) {
    json& all = in["evaluations"];
    all.push_back(all[0]);
    all[0]["entry"] = "swap/1";
    all[1]["entry"] = "swap~1";
  });
  const StoredUse use = find_stored(suite(), catalogue_, false);
  EXPECT_THAT(use.matches, IsEmpty());
  ASSERT_EQ(use.damaged.size(), 2U);
  EXPECT_THAT(use.damaged.front(), HasSubstr("two evaluations 'swap~1'"));
}

TEST_F(StoredCells, ADamagedFileIsNamedAndTheOthersAreUsed) {
  keep_all();
  const std::string first = kept_files().front();
  write_file(first, "{\"schema\": 1");
  const StoredUse use = find_stored(suite(), catalogue_, false);
  EXPECT_EQ(use.matches.size(), 1U);
  ASSERT_EQ(use.damaged.size(), 1U);
  EXPECT_THAT(use.damaged.front(), AllOf(StartsWith(first), HasSubstr("not a stored run")));
}

TEST_F(StoredCells, AFolderThatIsNotThereHoldsNone) {
  EXPECT_EQ(find_stored(suite(), catalogue_, false).files, 0U);
}

TEST_F(StoredCells, ARunThatIsNotFinishedIsNotStored) {
  const Cell cell = suite("elsewhere").cells.front();
  cell.folder.freeze(cell.experiment, cell.seed, cell.identity);
  const std::string said = message_of<ConfigError>([&] { stored_of(cell.folder.path()); });
  EXPECT_THAT(said, mentions("is pending", "only finished runs"));
}

}  // namespace
}  // namespace attnlab::stored_cells_test
