// Evaluations that are left of a suite's finished runs: see the header.
#include "runner/suite_evaluations.h"

#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <map>

#include "framework/base/files.h"
#include "framework/base/links.h"
#include "framework/base/text.h"
#include "framework/experiment/evaluations.h"
#include "framework/runs/missing_evaluations.h"
#include "framework/runs/source_run.h"
#include "runner/process.h"
#include "runner/suite_runner.h"

namespace attnlab {
namespace {

/// Whether a cell's run can be evaluated. One that cannot be read is told of elsewhere.
bool is_done(const Cell& cell) {
  try {
    return cell.action != CellAction::stale && cell.folder.status().state == RunState::done;
  } catch (const Error&) {
    return false;
  }
}

/// @param failed_again  those that failed before are among them
std::vector<LeftEntries> left_entries(const Suite& suite, const Catalogue& catalogue,
                                      bool failed_again) {
  std::vector<LeftEntries> left;
  for (const Cell& cell : suite.cells) {
    if (!is_done(cell)) continue;
    std::vector<std::string> names =
        entries_left(cell.experiment, cell.folder, catalogue, failed_again);
    if (!names.empty()) left.push_back({&cell, std::move(names)});
  }
  return left;
}

/// Whether a run's model is there: nothing else can be evaluated.
bool has_model(const Cell& cell) {
  std::error_code error;
  return std::filesystem::exists(weights_file(cell.experiment, cell.folder), error);
}

/// Evaluations that are asked for and are not there are for everybody to know who reads the table:
/// what it shows of them is of what was asked before.
/// @param remedy  of the first run of several with the same ones
void note_not_evaluated(Suite& suite, const std::vector<LeftEntries>& left,
                        const std::function<std::string(const LeftEntries&)>& remedy) {
  std::map<std::string, std::vector<const LeftEntries*>> by_names;
  for (const LeftEntries& one : left) by_names[join(one.names, ", ")].push_back(&one);
  for (const auto& [names, some] : by_names) {
    std::vector<std::string> labels;
    for (const LeftEntries* one : some) {
      labels.push_back(RunFolder::label(one->cell->experiment, one->cell->seed));
    }
    suite.notes.push_back(
        fmt::format("{}: not evaluated: {}; an older result, of other settings or points, counts "
                    "if there is one. {}",
                    first_of(labels), names, remedy(*some.front())));
  }
}

std::string entries_file(const LeftEntries& left) {
  return left.cell->folder.file("evaluate.yaml");
}

/// The entries that a run's experiment has now, which its configuration need not have.
void write_entries(const LeftEntries& left) {
  refuse_links(left.cell->folder.path());
  Node entries = Node::map();
  entries.set("evaluate", left.cell->experiment.resolved.at("evaluate"));
  write_file(entries_file(left), to_yaml(entries));
}

/// The words behind `eval` that evaluate a run by `write_entries`' file.
Words eval_words(const LeftEntries& left) {
  Words words = {left.cell->folder.path(), "--with", entries_file(left)};
  words.insert(words.end(), left.names.begin(), left.names.end());
  return words;
}

/// Evaluates one run in a process of its own.
void evaluate_run(const LeftEntries& left, ProgressSink& progress) {
  const std::string label = RunFolder::label(left.cell->experiment, left.cell->seed);
  const std::string log = left.cell->folder.file("log.txt");
  progress.say(fmt::format("evaluating {}: {}", label, join(left.names, ", ")));
  write_entries(left);
  Words words = eval_words(left);
  const std::string command = command_text("eval", words);
  words.insert(words.begin(), "eval");
  const ProcessResult result = run_self(words, log, [](const std::string&) {});
  if (result.ok() || interrupted()) return;
  progress.say(fmt::format("  {}: some failed; {} tries them again and says why", label, command));
}

}  // namespace

void note_lost_models(Suite& suite, const Catalogue& catalogue, bool failed_again) {
  std::vector<LeftEntries> lost;
  for (const Cell& cell : suite.cells) {
    if (!is_done(cell) || has_model(cell)) continue;
    auto names = entries_left(cell.experiment, cell.folder, catalogue, failed_again);
    if (!names.empty()) lost.push_back({&cell, std::move(names)});
  }
  note_not_evaluated(suite, lost, [](const LeftEntries& first) {
    const RunFolder& folder = first.cell->folder;
    return fmt::format("The model is not there: put {} back, or remove {} and run the suite again",
                       weights_file(first.cell->experiment, folder), folder.path());
  });
}

std::vector<LeftEntries> evaluate_left(const Suite& suite, const Catalogue& catalogue,
                                       bool failed_again, bool waits, ProgressSink& progress) {
  std::vector<LeftEntries> all = left_entries(suite, catalogue, failed_again);
  std::erase_if(all, [](const LeftEntries& left) { return !has_model(*left.cell); });  // noted
  for (const LeftEntries& left : all) {
    if (interrupted()) break;
    try {
      if (waits) {
        evaluate_run(left, progress);
      } else {
        write_entries(left);
        progress.say("left to evaluate: " + command_text("eval", eval_words(left)));
      }
    } catch (const FileError& error) {  // of this run alone; what is left is noted
      progress.say(fmt::format("  {}: not evaluated: {}",
                               RunFolder::label(left.cell->experiment, left.cell->seed),
                               error.what()));
    }
  }
  return all;
}

void note_still_left(Suite& suite, const std::vector<LeftEntries>& before,
                     const Catalogue& catalogue) {
  std::vector<LeftEntries> still;
  for (const LeftEntries& left : before) {
    const Cell& cell = *left.cell;
    auto names = entries_left(cell.experiment, cell.folder, catalogue, /*failed_again=*/false);
    if (!names.empty()) still.push_back({&cell, std::move(names)});
  }
  note_not_evaluated(suite, still, [](const LeftEntries& first) {
    return command_text("eval", eval_words(first)) + " does it, or says what is in its way";
  });
}

std::string entries_text(const Suite& suite, const Catalogue& catalogue) {
  std::string text;
  for (const LeftEntries& left : left_entries(suite, catalogue, false)) {
    text += fmt::format(
        "{} {}: {}\n",
        has_model(*left.cell) ? "would evaluate" : "cannot evaluate, as its model is not there,",
        RunFolder::label(left.cell->experiment, left.cell->seed), join(left.names, ", "));
  }
  return text;
}

}  // namespace attnlab
