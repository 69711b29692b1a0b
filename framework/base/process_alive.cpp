// Living processes: see the header.
#include "framework/base/process_alive.h"

#include <cerrno>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>

namespace attnlab {

bool is_alive(::pid_t process) {
  if (process <= 0) return false;  // 0 and below mean groups of processes
  if (::kill(process, 0) != 0 && errno == ESRCH) return false;
  // "PID (NAME) STATE ...": a name may hold brackets and spaces.
  std::ifstream in("/proc/" + std::to_string(process) + "/stat", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::size_t end = text.rfind(") ");
  if (end == std::string::npos) return true;  // no /proc, or not for us to read
  const char state = text[end + 2];
  return state != 'Z' && state != 'X';
}

}  // namespace attnlab
