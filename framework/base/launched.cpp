#include "framework/base/launched.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "framework/base/error.h"
#include "framework/base/text.h"

namespace attnlab {
namespace {

constexpr const char* kRemedy =
    "start it by torchrun, srun or --processes, or unset RANK and WORLD_SIZE";

std::string set_value(const Variable& variable, const char* name) {
  const char* const value = variable(name);
  return value == nullptr ? "" : value;
}

std::string needed_value(const Variable& variable, const char* name, const std::string& with) {
  std::string text = set_value(variable, name);
  if (!text.empty()) return text;
  throw ConfigError(
      fmt::format("{}: is not set in the environment, and {} is: {}", name, with, kRemedy));
}

/// @param least, most  what it may be
std::int64_t needed_number(const Variable& variable, const char* name, const std::string& with,
                           std::int64_t least, std::int64_t most) {
  const std::string text = needed_value(variable, name, with);
  const auto value = parsed_number<std::int64_t>(text);
  if (value && *value >= least && *value <= most) return *value;
  throw ConfigError(fmt::format("{}: '{}' in the environment is not a number from {} to {}: {}",
                                name, text, least, most, kRemedy));
}

constexpr std::int64_t kMostProcesses = 1 << 20, kMostPorts = 65535;

void read_ranks(const Variable& variable, const char* rank, const char* size, Launched& launched) {
  launched.size = needed_number(variable, size, rank, 1, kMostProcesses);
  launched.rank = needed_number(variable, rank, size, 0, launched.size - 1);
}

/// The same in all tasks of a step, and likely another one in other steps of the node.
std::int64_t port_of_step(std::int64_t job, std::int64_t step) {
  constexpr std::int64_t kFirst = 20000, kCount = 12000;  // below the ports that Linux gives away
  return kFirst + (job * 31 + step) % kCount;
}

Launched of_srun(const Variable& variable) {
  constexpr const char* kSize = "SLURM_STEP_NUM_TASKS";
  Launched launched{.by = "srun"};
  read_ranks(variable, "SLURM_PROCID", kSize, launched);
  const std::int64_t most = std::int64_t{1} << 40;
  const std::int64_t job = needed_number(variable, "SLURM_JOB_ID", kSize, 0, most);
  const std::int64_t step = needed_number(variable, "SLURM_STEP_ID", kSize, 0, most);
  launched.attempt = fmt::format("{}.{}", job, step);
  launched.address = set_value(variable, "MASTER_ADDR");
  if (launched.address.empty()) {
    launched.address = first_host(needed_value(variable, "SLURM_STEP_NODELIST", kSize));
  }
  launched.port = variable("MASTER_PORT") == nullptr
                      ? port_of_step(job, step)
                      : needed_number(variable, "MASTER_PORT", kSize, 1, kMostPorts);
  return launched;
}

Launched of_torchrun(const Variable& variable) {
  Launched launched{.by = "torchrun"};
  read_ranks(variable, "RANK", "WORLD_SIZE", launched);
  launched.address = needed_value(variable, "MASTER_ADDR", "RANK");
  launched.port = needed_number(variable, "MASTER_PORT", "RANK", 1, kMostPorts);
  launched.listens = set_value(variable, "TORCHELASTIC_USE_AGENT_STORE") == "True";
  launched.attempt = fmt::format("{}.{}", set_value(variable, "TORCHELASTIC_RUN_ID"),
                                 set_value(variable, "TORCHELASTIC_RESTART_COUNT"));
  return launched;
}

}  // namespace

std::optional<Launched> launched_as(const Variable& variable) {
  const auto has = [&](const char* name) { return variable(name) != nullptr; };
  Launched launched;
  if (has(kMeetingFile)) {
    launched = {.by = "attnlab", .file = set_value(variable, kMeetingFile)};
    read_ranks(variable, "RANK", "WORLD_SIZE", launched);
  } else if (has("RANK") || has("WORLD_SIZE")) {
    if (set_value(variable, "WORLD_SIZE") == "1") return std::nullopt;
    launched = of_torchrun(variable);
  } else if (has("SLURM_STEP_NUM_TASKS")) {
    if (set_value(variable, "SLURM_STEP_NUM_TASKS") == "1") return std::nullopt;
    launched = of_srun(variable);
  }
  if (launched.size == 1) return std::nullopt;
  for (const char* name : {"LOCAL_RANK", "SLURM_LOCALID"}) {
    if (!has(name)) continue;
    launched.local = needed_number(variable, name, "RANK", 0, kMostProcesses);
    break;
  }
  return launched;
}

std::optional<Launched> launched_as() {
  return launched_as([](const char* name) { return std::getenv(name); });
}

std::int64_t gpu_of(const Variable& variable, std::int64_t count) {
  const std::optional<Launched> launched = launched_as(variable);
  const std::int64_t place =
      parsed_number<std::int64_t>(set_value(variable, kRunPlace)).value_or(0);
  if (!launched) return std::max<std::int64_t>(0, place) % count;
  const std::int64_t each =
      launched->by == "attnlab" ? launched->size : 1;  // of a run side by side
  return (std::max<std::int64_t>(0, place) * each + launched->local) % count;
}

std::int64_t gpu_of(std::int64_t count) {
  return gpu_of([](const char* name) { return std::getenv(name); }, count);
}

std::string first_host(const std::string& list) {
  const std::size_t end = list.find_first_of(",[");
  if (end == std::string::npos || list[end] == ',') return list.substr(0, end);
  const std::size_t close = list.find(']', end);
  const std::string numbers = list.substr(end + 1, close - end - 1);
  const std::string first = numbers.substr(0, numbers.find_first_of(",-"));
  const std::string rest = close == std::string::npos ? "" : list.substr(close + 1);
  return list.substr(0, end) + first + first_host(rest);
}

}  // namespace attnlab
