// A process that has loaded the engine and forks for each job: several jobs pay once for loading
// LibTorch, and one that crashes is one process, as ever.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace attnlab {

/// One such process. Its jobs have its cores and its environment.
class ForkServer {
 public:
  /// Starts nothing; `begin` does, or the first job, on the thread that asks for it.
  /// @param environment  set beside this process's own
  explicit ForkServer(std::map<std::string, std::string> environment);
  ~ForkServer();
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;

  /// Starts the server now, so that it loads while this process does something else.
  void begin();

  /// @param output, errors  the job's standard output and standard error
  /// @returns the job, a child of this process and the first of a group of its own; nothing where
  ///          the server cannot be had (it was killed, or LibTorch began threads when it was
  ///          loaded, which a fork would lose): then start the job as any process
  std::optional<pid_t> start(const std::vector<std::string>& words, int output, int errors);

 private:
  void end();
  std::optional<pid_t> answer() const;

  std::map<std::string, std::string> environment_;
  pid_t pid_ = 0;    ///< 0: no server
  int socket_ = -1;  ///< to it
  bool failed_ = false;
};

/// Whether this process was started as a server. @param words  behind the program's name
bool is_fork_server(const std::vector<std::string>& words);

/// The server's side. Returns in each job, with its words; the server itself ends in here, when the
/// process that started it closes the socket.
/// @param arguments  of `main`: `ps` shows a job's words there
/// @param load       what each job would do first; when it throws, the server ends
std::vector<std::string> words_of_job(std::span<char*> arguments,
                                      const std::function<void()>& load);

}  // namespace attnlab
