// Whether this process is one of several that carry out one run, and where they meet.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace attnlab {

/// What the environment says of this process.
struct Launched {
  std::string by{};                 ///< "attnlab", "torchrun" or "srun": for messages
  std::int64_t rank = 0, size = 1;  ///< which process of how many
  std::string file{};               ///< where they meet: a file of this machine,
  std::string address{};            ///< or else a host and a port
  std::int64_t port = 0;
  /// Whether the launcher listens there itself (torchrun's agent); else process 0 does.
  bool listens = false;
  std::string attempt{};   ///< which start of the same launch: others are not met
  std::int64_t local = 0;  ///< which process of its machine it is
};

/// A variable of the environment by name; null where it is not set.
using Variable = std::function<const char*(const char*)>;

/// Set by `attnlab run --processes` for the processes that it starts: the file where they meet.
inline constexpr const char* kMeetingFile = "ATTNLAB_MEETING";
/// Likewise: the number of the process that started them.
inline constexpr const char* kLauncher = "ATTNLAB_LAUNCHER";

/// Set for each of the runs that `-j` starts side by side: its place among them, from 0 on.
inline constexpr const char* kRunPlace = "ATTNLAB_RUN_PLACE";

/// By ATTNLAB_MEETING, RANK and WORLD_SIZE (attnlab's own), by RANK, WORLD_SIZE, MASTER_ADDR and
/// MASTER_PORT (torchrun, and what does as it does), or by SLURM_PROCID and what else srun sets
/// (MASTER_ADDR and MASTER_PORT count there, too). LOCAL_RANK or SLURM_LOCALID says which process
/// of its machine this is; without them it is the first. Nothing where this process is by itself.
/// @throws ConfigError naming the variable that is missing or wrong.
std::optional<Launched> launched_as(const Variable& variable);
/// By the environment of this process.
std::optional<Launched> launched_as();

/// Which of its machine's GPUs a process takes, of `count`: processes of one run take them in turn,
/// and so do runs side by side. A run by itself takes the first.
std::int64_t gpu_of(const Variable& variable, std::int64_t count);
/// By the environment of this process.
std::int64_t gpu_of(std::int64_t count);

/// The first host of a list as Slurm writes it: "node[07-09,12],login" is node07.
std::string first_host(const std::string& list);

}  // namespace attnlab
