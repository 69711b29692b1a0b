#include "runner/launcher.h"

#include <fmt/format.h>

#include <filesystem>

#include "framework/base/error.h"
#include "framework/base/text.h"
#include "runner/local_launcher.h"
#include "runner/slurm_jobs.h"
#include "runner/slurm_launcher.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;

constexpr std::int64_t kMostJobs = 256;  // the signal handler's table of processes
constexpr std::int64_t kMostTogether = 4096;

/// Folders that may be those of suites with runs in or below a folder.
std::vector<std::string> suites_around(const std::string& folder) {
  std::vector<std::string> suites = {folder};
  std::error_code error;
  // A run's folder is three below the suite's: experiment, attention, seed.
  fs::path above = fs::weakly_canonical(folder, error);
  for (int levels = 0; levels < 3 && above.has_relative_path(); ++levels) {
    above = above.parent_path();
    suites.push_back(above.string());
  }
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_directory(error)) suites.push_back(entry.path().string());
  }
  return suites;
}

}  // namespace

std::unique_ptr<Launcher> make_launcher(const std::string& name) {
  if (name == "local") return std::make_unique<LocalLauncher>();
  if (name == "slurm") return std::make_unique<SlurmLauncher>();
  throw ConfigError(fmt::format("--launcher: there is no launcher '{}'{}", name,
                                suggestion(name, {"local", "slurm"})));
}

LauncherStates launcher_states(const std::string& folder) {
  LauncherStates states;
  for (const std::string& suite : suites_around(folder)) {
    try {
      states.runs.merge(slurm_states(suite));
    } catch (const Error& damage) {  // hides no other suite
      states.notes.push_back(std::string("what was submitted cannot be read: ") + damage.what());
    }
  }
  return states;
}

void add_launch_options(Usage& usage) {
  usage.options.add_options()("jobs,j", po::value<std::int64_t>()->value_name("N"),
                              "runs at once; default: 1 here, no limit in Slurm")(
      "ensemble", po::value<std::int64_t>()->value_name("N"),
      "train up to N runs together as one ensemble, if the model can and they differ only in seed, "
      "data and the optimiser's numbers; default: 32; 1: one by one")(
      "keep-going", "continue after a failed run (default)")(
      "fail-fast", "start no run after a failed one; active runs stop with a checkpoint")(
      "launcher", po::value<std::string>()->value_name("NAME"),
      "local (default), or slurm: submit the runs and return")(
      "slurm", po::value<Words>()->composing()->value_name("KEY=VALUE"),
      "an option of sbatch, such as partition=gpu or time=4:00:00; may be repeated");
}

LaunchOptions launch_options(const Arguments& arguments, const std::string& suite_folder) {
  LaunchOptions options;
  options.suite_folder = suite_folder;
  options.fail_fast = arguments.has("fail-fast");
  if (options.fail_fast && arguments.has("keep-going")) {
    throw ConfigError("--keep-going and --fail-fast contradict each other; give one of them");
  }
  if (arguments.has("jobs")) {
    options.jobs = arguments.options["jobs"].as<std::int64_t>();
    if (options.jobs < 1 || options.jobs > kMostJobs) {
      throw ConfigError(
          fmt::format("--jobs: expected 1 to {} runs at once, found {}", kMostJobs, options.jobs));
    }
  }
  if (arguments.has("ensemble")) {
    options.ensemble = arguments.options["ensemble"].as<std::int64_t>();
    if (options.ensemble < 1 || options.ensemble > kMostTogether) {
      throw ConfigError(fmt::format("--ensemble: expected 1 to {} runs together, found {}",
                                    kMostTogether, options.ensemble));
    }
    if (options.ensemble > 1 && arguments.text("launcher", "local") != "local") {
      throw ConfigError("--ensemble: only the local launcher trains runs together; leave it out");
    }
  }
  if (arguments.has("slurm")) options.slurm = arguments.options["slurm"].as<Words>();
  if (arguments.text("launcher", "local") == "slurm") {
    check_slurm_options(options.slurm);
  } else if (!options.slurm.empty()) {
    throw ConfigError(
        fmt::format("--slurm {}: is for Slurm only; add --launcher slurm, or leave it out",
                    options.slurm.front()));
  }
  return options;
}

std::unique_ptr<Launcher> launcher_of(const Arguments& arguments) {
  return make_launcher(arguments.text("launcher", "local"));
}

}  // namespace attnlab
