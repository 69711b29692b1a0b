// Fuzzes the reader of stored results, which labs send each other: a finished run that is stored
// again as the same, or a DataError that names the file. What is read is held against a suite's
// cell and restored in its place: below the run's folder alone, from where it is stored as it was,
// and where it stood for the cell it does so still.
//
// Code: framework/runs/stored_run.cpp framework/runs/metric_infos.cpp
// Code: framework/runs/evaluations.cpp framework/suites/stored_cells.cpp
#include "framework/suites/stored_cells.h"

#include <algorithm>

#include "tests/fuzz/files_in_memory.h"
#include "tests/support/made_parts.h"

namespace attnlab::fuzz {
namespace {

const testing::MadeParts& parts() {
  static const testing::MadeParts made;
  return made;
}

const MemoryFolder& folder() {
  static const MemoryFolder made;
  return made;
}

/// So deep that some "../" are still noticed.
std::string runs() { return folder().path() + "/a/b/c/runs"; }

/// Of one cell, which asks for an evaluation.
const Suite& suite() {
  static const Suite made = [] {
    Suite out;
    out.folder = runs();
    const Experiment experiment = parts().resolve(
        testing::kImages +
        "seeds: [0]\nevaluate:\n  fog: {set: {dataset: {use: pictures, root: x}}}\n");
    out.cells = {make_cell(experiment, 0, out.folder, "f")};
    return out;
  }();
  return made;
}

StoredRun made() {
  const Cell& cell = suite().cells.front();
  StoredRun run;
  run.experiment = cell.experiment.name;
  run.attention = "quest";
  run.identity = cell.identity;
  run.numbers = kNumbersVersion;
  for (const auto& [kind, file] : cell.identity.plugins) {
    run.plugins[kind] = {"lab/" + file.name, "1.2.3"};
  }
  run.judges = {{"task lab/t", "1.0.0"}};
  run.entries = {{"fog", {{"task lab/u", "1.0.0"}}}};
  run.config = to_yaml(cell.experiment.resolved);
  run.status.state = RunState::done;
  run.status.step = run.status.steps = 4;
  run.status.metrics = {{"accuracy", 0.5}, {"nll", 1e308}};
  run.environment = R"({"machine":{"cpu":"x"},"resumed":[{"step":2}]})";
  EvaluationRecord fog;
  fog.entry = "fog";
  fog.hash = "0123456789abcdef";
  fog.split = "test";
  fog.done = true;
  fog.metrics = {{"accuracy", 0.25}};
  fog.infos = {{"accuracy", Better::higher, "share"}};
  fog.set = R"({"dataset":{"use":"pictures","root":"x"}})";
  run.evaluations = {fog};
  return run;
}

/// Without its check, as earlier versions wrote it: changes reach what comes after that.
std::string unchecked(std::string text) {
  const std::size_t begin = text.find(R"("check")");
  return text.erase(begin, text.find('\n', begin) + 1 - begin);
}

/// As one that is stored by another machine, whose configuration has to be resolved again.
StoredRun of_elsewhere() {
  StoredRun run = made();
  run.identity.configuration = "a";
  run.identity.framework = "b";
  return run;
}

void check_stands_for_cell(const StoredRun& run) {
  if (run.identity.data != "f") fail("other data stand for a cell's");
  for (const char* kind : {"model", "attention", "task", "dataset"}) {
    if (run.plugins.at(kind).version != "1.2.3") fail("another version stands for a cell's");
  }
  if (run.status.state == RunState::done && run.evaluations.empty()) {
    fail("a run without its evaluation stands for a cell");
  }
}

void check_where(const std::string& run_folder) {
  for (const std::string& file : files_below(folder().path())) {
    const bool own = file == folder().path() + "/in.json" ||
                     file == folder().path() + "/again.json" ||
                     file.rfind(run_folder + "/", 0) == 0;
    if (!own) fail("a file outside of the run's folder: " + file);
  }
}

/// What was restored is stored as it was; what the run's new place decides aside.
void check_stored_again(StoredRun run, const std::string& run_folder) {
  StoredRun again = stored_of(run_folder);
  again.experiment = run.experiment;
  again.attention = run.attention;
  again.config = run.config;
  again.environment = run.environment;      // what comparisons do not read is left out
  again.status.reason = run.status.reason;  // in one line
  std::sort(run.evaluations.begin(), run.evaluations.end(),
            [](const auto& a, const auto& b) { return a.entry < b.entry; });
  if (stored_json(again) != stored_json(run)) {
    fail("a restored run that is stored otherwise: " + stored_json(again));
  }
}

/// @returns whether it was restored to a run that can be read.
bool is_restored(const StoredRun& run) {
  Suite into = suite();
  bool other_numbers = false;
  const bool stands =
      differences_to(run, into.cells.front(), parts().catalogue(), other_numbers).empty();
  if (stands) check_stands_for_cell(run);
  std::filesystem::remove_all(folder().path() + "/a");
  StoredUse use;
  use.matches = {{0, run, other_numbers}};
  try {
    use_stored(use, into);
    const std::string run_folder = into.cells.front().folder.path();
    check_where(run_folder);
    check_stored_again(run, run_folder);
    check_restored(into, parts().catalogue(), /*again=*/false, /*dry_run=*/true);
    if (stands && into.cells.front().action != CellAction::finished) {
      fail("a stored result is stale once it is restored: " + into.cells.front().reason);
    }
    return true;
  } catch (const Error& error) {  // a name that is too long, or an environment that is none
    check_where(runs());
    if (std::string(error.what()).find(runs()) != std::string::npos) return false;
    fail(std::string("an error that does not name the file: ") + error.what());
  }
}

}  // namespace

Target target() {
  Target target;
  const std::string whole = stored_json(made());
  StoredRun diverged = made();
  diverged.status.state = RunState::diverged;
  diverged.evaluations = {};
  target.seeds = {unchecked(whole),
                  whole,
                  unchecked(stored_json(of_elsewhere())),
                  unchecked(stored_json(diverged)),
                  whole.substr(0, whole.size() / 2),
                  "{}",
                  "[",
                  ""};
  target.words = {"\"schema\": 1",
                  "\"plugins\": {",
                  "\"evaluations\": {",
                  "\"metrics\": {",
                  "\"infos\": [",
                  "\"judges\": {",
                  "\"version\": \"\"",
                  "\"numbers\": ",
                  "\"state\": \"done\"",
                  "\"entry\": \"fog\"",
                  "\"hash\": \"0\"",
                  "\"set\": {",
                  "\"changes\": [",
                  "null",
                  "1e999",
                  "-1",
                  "[]",
                  "{}",
                  "\\u001b",
                  "${",
                  "../x"};
  return target;
}

}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  const fuzz::MemoryFolder& folder = fuzz::folder();
  const std::string path = folder.write("in.json", {reinterpret_cast<const char*>(data), size});
  try {
    const StoredRun run = read_stored(path);
    const std::string text = stored_json(run);
    if (stored_json(read_stored(folder.write("again.json", text))) != text) {
      fuzz::fail("a stored run that is read otherwise: " + text);
    }
    if (!run.status.finished()) fuzz::fail("a stored run that is not finished");
    return fuzz::is_restored(run) ? 0 : -1;
  } catch (const DataError& error) {
    fuzz::check_names(path, error);
    return -1;
  }
}
