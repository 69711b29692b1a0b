// attnlab status DIR: where the runs below a folder stand.
#include <filesystem>
#include <iostream>

#include "framework/runs/run_status.h"
#include "runner/commands.h"
#include "runner/launcher.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

/// What launchers know of a suite's runs, or of those of each suite in a folder.
std::map<std::string, std::string> states_below(const std::string& folder) {
  std::map<std::string, std::string> states = launcher_states(folder);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (!fs::exists(entry.path() / "suite.json", error)) continue;
    states.merge(launcher_states(entry.path().string()));
  }
  return states;
}

}  // namespace

int status_command(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab status DIR [--json]";
  usage.about =
      "Says how many runs below DIR (a suite's, a sweep's, a run's folder, or one above) are "
      "done,\n"
      "running, queued, killed, interrupted, failed, diverged, pending, stale, skipped,\n"
      "incompatible or superseded, and where each that is not done stands. Reads files only.";
  usage.options.add_options()("json", "print JSON");
  usage.fewest_words = usage.most_words = 1;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const std::string& folder = arguments.words[0];
  const StatusReport report = status_of(folder, Catalogue::of_this_program(), states_below(folder));
  std::cout << (arguments.has("json") ? status_json(report) : status_text(report));
  return kDone;
}

}  // namespace attnlab
