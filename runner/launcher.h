// Launchers: where the runs of a suite or sweep are carried out.
//
//   local   processes side by side on this machine, the cores divided among them
//   slurm   one array job of a cluster; submitting returns at once
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "framework/runs/progress.h"
#include "framework/runs/run_folder.h"
#include "runner/arguments.h"
#include "runner/process.h"

namespace attnlab {

/// A run to carry out. Its folder is frozen, and nothing else runs it.
struct LaunchedCell {
  RunFolder folder;
  std::string label;  ///< what progress calls it
  /// Cells with equal keys can be trained together (framework/experiment/ensembles.h); empty:
  /// alone.
  std::string ensemble;
};

struct LaunchOptions {
  /// Runs at once, 1 to 256. 0: the launcher's own choice, which is one after the other here and as
  /// many as Slurm lets.
  std::int64_t jobs = 0;
  /// No run starts after one has failed; those that run end with a checkpoint, the others stay
  /// pending.
  bool fail_fast = false;
  std::int64_t ensemble = 32;  ///< most runs that are trained together, where they can be; local
  std::string suite_folder;    ///< "runs/quickstart"; a launcher files its own below it
  Words slurm;                 ///< "partition=gpu", "time=4:00:00": options of sbatch
  Starter starter;             ///< of each run; local
};

class Launcher {
 public:
  virtual ~Launcher() = default;

  /// Carries the cells out, or submits them. A cell that fails is a state in its folder and an
  /// event of its progress; it is not an exception. (A cell of a suite whose folder cannot be
  /// written to is an event alone.)
  /// @throws ConfigError for options that cannot be; Error where nothing can be started.
  virtual void launch(const std::vector<LaunchedCell>& cells, const LaunchOptions& options,
                      ProgressSink& progress) = 0;

  /// Whether the cells have ended when `launch` returns.
  virtual bool waits() const = 0;
};

/// @param name  "local" or "slurm". @throws ConfigError with the candidates for another.
std::unique_ptr<Launcher> make_launcher(const std::string& name);

/// What launchers know of submitted cells.
struct LauncherStates {
  /// Of those that have not come to a result: "queued as job 12_3 (Priority)", "running as job 12_3
  /// on node5", "job 12_3 ended: out of memory", by the path of the run's folder. Empty where
  /// nothing was submitted. Where Slurm cannot be asked, the text says so.
  std::map<std::string, std::string> runs;
  std::vector<std::string> notes;  ///< on records of what was submitted that cannot be read
};

/// Asks Slurm once for each suite that has jobs.
/// @param folder  a suite's; one below it; or the one that suites are filed in
LauncherStates launcher_states(const std::string& folder);

/// Adds `--jobs` (`-j`), `--ensemble`, `--keep-going`, `--fail-fast`, `--launcher` and `--slurm` to
/// a command.
void add_launch_options(Usage& usage);

/// What the command line says. @throws ConfigError for values that cannot be, and for options that
/// the launcher does not have.
LaunchOptions launch_options(const Arguments& arguments, const std::string& suite_folder);
std::unique_ptr<Launcher> launcher_of(const Arguments& arguments);

}  // namespace attnlab
