// Which signals a process is to take.
#pragma once

#include <csignal>

namespace attnlab {

/// Whether whoever started this process has a signal ignored, and so wants it to stay: nohup does
/// SIGHUP, a shell without job control SIGINT of what it runs in the background.
inline bool is_ignored(int signal) {
  struct sigaction now {};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace attnlab
