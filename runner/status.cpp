// attnlab status DIR: where the runs below a folder stand.
#include <iostream>

#include "framework/runs/run_status.h"
#include "runner/commands.h"
#include "runner/launcher.h"

namespace attnlab {

int status_command(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab status DIR [--json]";
  usage.about =
      "Says how many runs below DIR (a suite's, a sweep's, a run's folder, or one above) are\n"
      "running, queued, killed, interrupted, failed, unreadable, pending, stale, skipped,\n"
      "incompatible, no data, no plugin, diverged, done or superseded, and lists each run that\n"
      "is not done. Reads files, and asks Slurm (squeue, sacct) about runs that were submitted\n"
      "to it.";
  usage.options.add_options()("json", "print JSON");
  usage.fewest_words = usage.most_words = 1;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const std::string& folder = arguments.words[0];
  const LauncherStates states = launcher_states(folder);
  StatusReport report = status_of(folder, Catalogue::of_this_program(), states.runs);
  report.notes.insert(report.notes.end(), states.notes.begin(), states.notes.end());
  std::cout << (arguments.has("json") ? status_json(report) : status_text(report));
  return kDone;
}

}  // namespace attnlab
