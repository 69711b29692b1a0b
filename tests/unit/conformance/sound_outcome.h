// What becomes of a check of something sound.
#pragma once

#include <string_view>

#include "framework/conformance/conformance.h"
#include "framework/conformance/memory.h"

namespace attnlab::conformance::testing {

/// The C library does not count memory under a sanitizer, so that a leak could not be seen there.
inline Outcome outcome_of_sound(std::string_view check) {
  return check == "memory" && !counts_memory() ? Outcome::skipped : Outcome::passed;
}

}  // namespace attnlab::conformance::testing
