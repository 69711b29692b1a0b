#include "runner/engine/together.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "framework/base/clock.h"
#include "framework/base/json.h"
#include "framework/base/launched.h"
#include "framework/config/compose.h"
#include "framework/config/problems.h"
#include "framework/experiment/train_options.h"
#include "framework/train/environment.h"
#include "framework/train/gloo_world.h"

namespace attnlab {
namespace {

/// What all processes must have alike: what people call it, and its value.
using Lines = std::vector<std::pair<std::string, std::string>>;

Lines lines_of(const Identity& identity) {
  Lines lines = {{"configuration", identity.configuration}, {"framework", identity.framework}};
  for (const auto& [kind, file] : identity.plugins) {
    lines.emplace_back(fmt::format("file of {} '{}'", kind, file.name), file.hash);
  }
  lines.emplace_back("data", identity.data);
  return lines;
}

/// @throws ConfigError naming the first process that has other lines than process 0, and each.
void agree(World& world, const Lines& mine, const std::string& remedy) {
  const std::vector<std::string> all = world.gather(json_text(nlohmann::json(mine)));
  const auto first = nlohmann::json::parse(all.front()).get<Lines>();
  for (std::size_t i = 1; i < all.size(); ++i) {
    const auto other = nlohmann::json::parse(all[i]).get<Lines>();
    Problems problems;
    for (std::size_t k = 0; k < std::max(first.size(), other.size()); ++k) {
      const auto& [what, value] = k < first.size() ? first[k] : other[k];
      const bool both = k < first.size() && k < other.size();
      if (both && first[k] == other[k]) continue;
      problems.push_back(fmt::format("{} has another {} than {}: {} against {}; {}",
                                     world.name(std::int64_t(i)), what, world.name(0),
                                     k < other.size() ? other[k].second : "none",
                                     k < first.size() ? value : "none", remedy));
    }
    if (!problems.empty()) throw ConfigError(problems);
  }
}

}  // namespace

std::shared_ptr<World> world_of_this_process() {
  const std::optional<Launched> launched = launched_as();
  return launched ? join_world(*launched, patience()) : World::alone();
}

void check_together(World& world, const std::vector<RunJob>& jobs) {
  if (world.size() == 1) return;
  Lines lines;
  for (const RunJob& job : jobs) {
    const std::string problem = problem_of_processes(world.size(), job.experiment.train.parts);
    if (!problem.empty()) {
      const Node* const key = find_key(job.experiment.resolved, "train.parts");
      throw ConfigError(key == nullptr ? Place() : key->place(), "train.parts: " + problem);
    }
    lines.emplace_back(
        "run", fmt::format("{}, {}", job.folder.place(), name_of(job.folder.status().state)));
    lines.emplace_back("train.zero", std::to_string(job.experiment.train.zero));
  }
  agree(world, lines,
        "all processes must be started with one command, by one attnlab, and see one folder of "
        "runs (--out, on a disk that they share)");
}

void check_same_run(World& world, const RunJob& job, const BuiltRun& run) {
  if (world.size() == 1) return;
  Lines lines = lines_of(identity_of(job.experiment, run.dataset->info().fingerprint));
  for (auto& line : makers_of_numbers(run)) lines.push_back(std::move(line));
  agree(world, lines,
        "take machines that are alike, with the same version, plugins and data, and set "
        "train.threads");
}

void check_sees_folder(const World& world, const RunJob& job) {
  // NFS may say for a minute that a folder is not there (acdirmax). The others wait meanwhile.
  constexpr std::chrono::seconds kMost{90};
  const Clock::time_point last = Clock::now() + std::min<Clock::duration>(kMost, patience() / 2);
  std::error_code error;
  while (!std::filesystem::exists(job.folder.file("config.yaml"), error)) {
    if (Clock::now() >= last) {
      throw FileError(fmt::format(
          "{}: {} does not see this folder, which {} has made; the folder of runs must be on a "
          "disk that all processes share (--out)",
          job.folder.path(), world.name(world.rank()), world.name(0)));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

}  // namespace attnlab
