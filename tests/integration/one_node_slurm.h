// A Slurm of one node, on this machine and for one test: Munge with a key of its own, controller
// and node daemon with a configuration in a temporary folder.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/program.h"

namespace attnlab::testing {

class OneNodeSlurm {
 public:
  /// Starts the daemons and waits until the node takes jobs. Where that cannot be, `problem()` says
  /// why.
  OneNodeSlurm();
  /// Cancels all jobs and ends the daemons.
  ~OneNodeSlurm();
  OneNodeSlurm(const OneNodeSlurm&) = delete;
  OneNodeSlurm& operator=(const OneNodeSlurm&) = delete;

  /// Empty when it works.
  const std::string& problem() const { return problem_; }
  /// What makes Slurm's commands use it.
  std::map<std::string, std::string> environment() const;
  /// Runs a command of Slurm's.
  Ended command(std::vector<std::string> words) const;
  /// Waits until a command's output holds a text.
  bool says(const std::vector<std::string>& words, const std::string& text) const;

 private:
  void start();
  void write_configuration() const;
  void start_daemon(const std::vector<std::string>& words);
  /// The ends of the daemons' logs.
  std::string logs() const;

  TempFolder folder_;
  std::vector<std::unique_ptr<Process>> daemons_;
  std::string problem_;
};

}  // namespace attnlab::testing
