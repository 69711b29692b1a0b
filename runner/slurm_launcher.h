// Runs as an array job of Slurm.
//
//   <suite>/slurm/<n>/cells.txt   the folders of the n-th job's runs, a line for each array task
//   <suite>/slurm/<n>/job.sh      the batch script
//   <suite>/slurm/<n>/task-<i>.txt  what the i-th task wrote
//   <suite>/slurm/<n>/vain-<i>.txt  how often in a row it was stopped without a step
//   <suite>/slurm/jobs.json       what was submitted; replaced atomically
#pragma once

#include "runner/launcher.h"

namespace attnlab {

class SlurmLauncher final : public Launcher {
 public:
  /// Submits the cells that are not in Slurm's queue already.
  /// @throws ConfigError where there is no Slurm, or it refuses; Error where it is not known
  ///         whether it took a job. Where the cells need several arrays, those before that one stay
  ///         submitted; the error says how many runs they hold.
  void launch(const std::vector<LaunchedCell>& cells, const LaunchOptions& options,
              ProgressSink& progress) override;
  bool waits() const override { return false; }
};

/// Checks options for sbatch as far as that can be done without asking it.
/// @throws ConfigError for one that is not a KEY=VALUE, that attnlab sets itself, or that would
///         keep attnlab from knowing the job.
void check_slurm_options(const Words& options);

}  // namespace attnlab
