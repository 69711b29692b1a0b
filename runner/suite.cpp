// attnlab suite: every cell of a comparison as a process of its own, then the table.
#include "framework/core/suite.h"

#include <filesystem>
#include <iostream>
#include <map>
#include <set>

#include "framework/core/comparison.h"
#include "framework/core/files.h"
#include "framework/core/text.h"
#include "runner/commands.h"
#include "runner/process.h"

namespace attnlab {
namespace {

namespace po = boost::program_options;
namespace fs = std::filesystem;

/// Opens each experiment's data once, before anything is trained.
/// @returns what is missing; empty when all data are there.
/// @throws ConfigError for any other problem that building a run shows.
std::string missing_data(const Suite& suite) {
  std::set<std::string> asked;
  for (const Cell& cell : suite.cells) {
    if (!asked.insert(cell.experiment.name).second) continue;
    cell.folder.freeze(cell.experiment, cell.seed);
    const std::string log = cell.folder.file("dry-run.txt");
    const ProcessResult result =
        run_self({"run", cell.folder.path(), "--dry-run", "--progress", "none"}, log,
                 [](const std::string&) {});
    const std::string said = log_tail(log, 20);
    fs::remove(log);
    if (result.exit_code == kDataMissing || !result.ok()) {
      if (cell.folder.status().state == RunState::pending) fs::remove_all(cell.folder.path());
    }
    if (result.exit_code == kDataMissing) return said;
    if (interrupted()) return "";
    if (!result.ok()) throw ConfigError(said.empty() ? "the experiment cannot be built" : said);
  }
  return "";
}

void warn_loudly(const std::string& missing, const Node& fallback) {
  std::cerr << "\n*** WARNING: the data of this suite are not on this machine ***\n"
            << missing << "\n*** Falling back to: " << to_flow(fallback)
            << "\n*** The numbers below say nothing about the real data. ***\n\n"
            << std::flush;
}

void run_cell(const Cell& cell, ProgressSink& progress) {
  const std::string log = cell.folder.file("log.txt");
  bool ended = false;
  const auto on_line = [&](const std::string& line) {
    try {
      const ProgressEvent event = progress_event(line);
      ended |= event.kind == ProgressEvent::Kind::end;
      if (event.kind != ProgressEvent::Kind::note) progress.report(event);
    } catch (const Error&) {
      progress.say(line);  // a plugin that prints
    }
  };
  const ProcessResult result =
      run_self({"run", cell.folder.path(), "--resume", "--progress", "json"}, log, on_line);
  if (ended && result.ok()) return;
  if (interrupted()) return;
  RunStatus status = cell.folder.status();
  if (result.signal != 0) {
    status.reason = signal_text(result.signal);
  } else if (status.state != RunState::failed) {
    status.reason = log_tail(log, 1);
  }
  status.state = RunState::failed;
  cell.folder.write_status(status);
  ProgressEvent event;
  event.kind = ProgressEvent::Kind::end;
  event.run = RunFolder::label(cell.experiment, cell.seed);
  event.text = "failed: " + status.reason + "\n  log: " + log + "\n" + log_tail(log, 8);
  progress.report(event);
}

void report_finished(const Cell& cell, const RunStatus& status, ProgressSink& progress) {
  ProgressEvent event;
  event.kind = ProgressEvent::Kind::end;
  event.run = RunFolder::label(cell.experiment, cell.seed);
  event.text = std::string(name_of(status.state)) + " before";
  event.metrics = status.metrics;
  progress.report(event);
}

std::string quoted(const std::string& word) {
  if (word.find_first_of(" []{}$*?'\"&|;<>()") == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string command_of(const Words& words) {
  std::string command = "attnlab suite";
  for (const std::string& word : words) command += " " + quoted(word);
  return command;
}

/// What the seeds cannot show, before hours are spent on them; empty without a `compare:` section.
std::string reach_of(const Suite& suite) {
  if (!suite.compare || suite.cells.empty()) return "";
  std::map<std::string, std::set<std::int64_t>> seeds;
  for (const Cell& cell : suite.cells) seeds[cell.experiment.name].insert(cell.seed);
  std::size_t most = 0;
  for (const auto& [experiment, list] : seeds) most = std::max(most, list.size());
  const std::size_t tests = (suite.attentions.size() - 1) * seeds.size();
  return tests == 0 ? ""
                    : reach_note(*suite.compare, static_cast<std::int64_t>(most),
                                 static_cast<std::int64_t>(tests));
}

void write_comparison(const Suite& suite, const std::string& folder, const Catalogue& catalogue) {
  if (!suite.compare) return;
  const Comparison comparison =
      compare_runs(find_runs({folder}), *suite.compare, suite.baseline, &catalogue);
  write_file(folder + "/comparison.md", comparison_text(comparison, TableStyle::markdown));
  write_file(folder + "/comparison.json", comparison_json(comparison));
  std::cout << "\n"
            << comparison_text(comparison, TableStyle::text) << "\nwritten to " << folder
            << "/comparison.md and comparison.json\n"
            << std::flush;
}

void write_table(const Suite& suite, const std::string& folder, const std::string& command) {
  const std::vector<SuiteRow> rows = summarise(suite);
  const std::string markdown = suite_markdown(suite, rows, command);
  fs::create_directories(folder);
  write_file(folder + "/table.md", markdown);
  write_file(folder + "/table.json", suite_json(suite, rows, command));
  std::cout << "\n"
            << markdown << "\nwritten to " << folder << "/table.md and table.json\n"
            << std::flush;
}

}  // namespace

int suite_command(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab suite SUITE [key=value ...] [--out DIR] [--progress MODE]";
  usage.about =
      "Runs every experiment of a suite with every attention and seed, each in a process of its\n"
      "own, and prints a table. Finished runs are not run again; interrupted and failed ones go\n"
      "on. SUITE is a file or the name of one below configs/suites; key=value changes the\n"
      "suite's own keys. Examples: seeds=[0]  set.train.epochs=1";
  usage.options.add_options()("out", po::value<std::string>()->value_name("DIR"),
                              "folder under which the suite is filed; default: runs")(
      "progress", po::value<std::string>()->value_name("MODE"),
      "auto (default), bar, plain, json or none");
  usage.fewest_words = usage.most_words = 1;
  usage.takes_overrides = true;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const std::string root = arguments.text("out", "runs");
  const ProgressMode mode = parse_progress_mode(arguments.text("progress", "auto"));
  const std::string file = find_composition(arguments.words[0], "suites");
  const Catalogue catalogue = Catalogue::of_this_program();
  Suite suite = load_suite(file, arguments.overrides, catalogue, root);
  const std::string missing = missing_data(suite);
  if (!missing.empty()) {
    if (suite.fallback.is_null()) throw ConfigError(missing);
    warn_loudly(missing, suite.fallback);
    suite = load_suite(file, arguments.overrides, catalogue, root, true);
    suite.notes.push_back("WARNING: the real data were missing; this ran on " +
                          to_flow(suite.fallback));
  }
  for (const Cell& cell : suite.cells) cell.folder.freeze(cell.experiment, cell.seed);
  const auto progress = make_progress(mode, static_cast<std::int64_t>(suite.cells.size()));
  const std::string reach = reach_of(suite);
  if (!reach.empty()) progress->say("compare: " + reach);
  for (const Cell& cell : suite.cells) {
    if (interrupted()) break;
    const RunStatus status = cell.folder.status();
    if (status.finished()) {
      report_finished(cell, status, *progress);
    } else {
      run_cell(cell, *progress);
    }
  }
  const std::string command = command_of(words);
  if (interrupted()) {
    progress->say("interrupted; go on with: " + command);
    return kInterrupted;
  }
  write_table(suite, root + "/" + suite.name, command);
  write_comparison(suite, root + "/" + suite.name, catalogue);
  return complete(suite) ? kDone : kIncomplete;
}

}  // namespace attnlab
