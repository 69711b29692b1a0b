// A test that waits for ever ends its program instead, so that it is seen.
#pragma once

#include <unistd.h>

namespace attnlab::testing {

class Deadline {
 public:
  explicit Deadline(unsigned seconds = 20) { ::alarm(seconds); }
  ~Deadline() { ::alarm(0); }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;
};

}  // namespace attnlab::testing
