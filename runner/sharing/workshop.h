// Compiling, checking and computing with foreign code, each confined.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "framework/sharing/confine.h"
#include "framework/sharing/install.h"
#include "runner/arguments.h"

namespace attnlab {

/// How foreign code is run.
struct WorkshopOptions {
  double build_limit = 1800;          ///< seconds that a build may take
  double check_limit = 300;           ///< seconds that one check of the kit may take
  std::int64_t jobs = 0;              ///< compilers or checks at a time; 0: one per core
  std::vector<std::string> readable;  ///< folders beside the system's that a build may read
  std::function<void(const std::string& line)> say = [](const std::string&) {};
};

/// --time-limit, --jobs and --readable.
void add_workshop_options(Usage& usage);
/// What those say. @throws ConfigError for a wrong one.
WorkshopOptions workshop_options(const Arguments& arguments);

class Workshop {
 public:
  explicit Workshop(WorkshopOptions options);

  /// Configures and builds a folder with CMake against this attnlab. @returns the one library made.
  std::string build(const std::string& source, const std::string& work, const std::string& log);
  /// The conformance kit. @param options  "key=value"
  /// @returns its report, JSON. @throws BundleError where a check failed.
  std::string test(const std::string& library, const std::string& work, const std::string& log,
                   const std::vector<std::string>& options = {});
  /// One attention on the tensors of a file. @param options  {"options": ["a=b"], "causal": true}
  void apply(const std::string& library, const std::string& id, const std::string& options,
             const std::string& in, const std::string& out, const std::string& log);
  /// Compares with every case below `expected/` of a bundle. @returns a sentence for the person.
  std::string compare(const sharing::Bundle& bundle, const std::string& library,
                      const std::string& work, const std::string& log);

  sharing::InstallTools tools();

 private:
  sharing::ConfinedEnd run(const std::vector<std::string>& words,
                           const sharing::Confinement& confinement);
  sharing::Confinement confinement(const std::string& folder, const std::string& log) const;
  void say_walls(const sharing::Walls& sandbox);

  WorkshopOptions options_;
  std::string root_;   ///< of this attnlab
  std::mutex saying_;  // confined processes run side by side
  bool said_walls_ = false;
};

/// A file that confined code made: no link, and no larger than 64 MiB. @throws BundleError.
std::string read_made(const std::string& path);

/// Refuses a plugin whose name another one on this machine has.
void check_name_is_free(const Manifest& manifest, const sharing::Store& store);

}  // namespace attnlab
