// Runs foreign code (a bundle's build, its library in the conformance kit) in a process of its own:
// no network, no writing outside its folder, no sight of the user's files, limits of time and size.
//
// Each wall is put up where the kernel allows: a network namespace and a filter of system calls
// (seccomp) against the network, read-only mounts and Landlock around files, a process namespace
// with a /proc of its own around other processes. What could not be put up is said (`Walls`).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace attnlab::sharing {

/// What a confined process may do.
struct Confinement {
  std::string folder;                 ///< where it works, and may write
  std::vector<std::string> readable;  ///< beside the system's own folders
  double time_limit = 600;            ///< seconds; then it and all it started are killed
  std::int64_t largest_folder = std::int64_t{8} << 30;  ///< bytes, with the log; then it is killed
  std::size_t most_processes = 4096;  ///< it and all that it started; then it is killed
  /// Whether the user wants it to end, asked again and again; then it is killed.
  std::function<bool()> stopped = [] { return false; };
  std::string log;     ///< its standard error, and output unless `output` is given
  std::string output;  ///< a file for its standard output; empty: the log
  /// Set beside a list of names (PATH, LANG, compilers, CMake's); everything else is taken away.
  std::map<std::string, std::string> environment;
};

/// Which walls stood around it.
struct Walls {
  bool network_namespace = false;  ///< it saw no network device
  bool seccomp = false;            ///< it could not open a socket
  bool landlock = false;           ///< it could not write outside, nor read what is the user's
  bool read_only = false;          ///< it could not change modes and times outside either
  bool processes = false;          ///< it saw no other process

  bool network() const { return network_namespace || seccomp; }
  /// "no network (namespace, seccomp), no files but its own (Landlock, read-only mounts)"; what is
  /// missing, too.
  std::string text() const;
};

struct ConfinedEnd {
  int exit_code = 0;
  int signal = 0;
  bool timed_out = false;
  bool stopped = false;  ///< it was killed, since the user wanted that
  std::string excess;    ///< what it was killed for: "it had written 70 MiB, more than it may"
  Walls sandbox;
  bool ok() const { return exit_code == 0 && signal == 0 && !timed_out && excess.empty(); }
  /// "exit code 2", "killed after 10 min".
  std::string text() const;
};

/// Runs a program to its end. Call from a process with one thread.
/// @param words  the program first, looked up in PATH without a slash
/// @throws Error when it cannot be started.
ConfinedEnd run_confined(const std::vector<std::string>& words, const Confinement& confinement);

/// The walls that this kernel lets this user put up.
Walls possible_walls();

}  // namespace attnlab::sharing
