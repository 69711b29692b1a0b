// An ordinary user's rights for a while: the superuser may read and write everything.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

namespace attnlab::testing {

class Unprivileged {
 public:
  /// @param folder  of the test, which becomes open to all
  explicit Unprivileged(const std::string& folder) {
    constexpr uid_t kNobody = 65534;
    const bool open = ::chmod(folder.c_str(), 0755) == 0;
    if (::geteuid() == 0) changed_ = ::seteuid(kNobody) == 0;
    works_ = open && ::geteuid() != 0 &&
             ::faccessat(AT_FDCWD, folder.c_str(), R_OK | X_OK, AT_EACCESS) == 0;
  }
  ~Unprivileged() {
    if (changed_) static_cast<void>(::seteuid(0) == 0);
  }
  Unprivileged(const Unprivileged&) = delete;
  Unprivileged& operator=(const Unprivileged&) = delete;

  /// Whether what is closed to others is closed to this process now.
  bool works() const { return works_; }

 private:
  bool changed_ = false, works_ = false;
};

}  // namespace attnlab::testing
