#include "framework/base/error_text.h"

#include <new>
#include <stdexcept>

#include "framework/base/limits.h"

namespace attnlab {

std::string text_of(const std::exception& error) {
  const bool too_large = dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
                         dynamic_cast<const std::length_error*>(&error) != nullptr;
  if (!too_large) return error.what();
  std::string text =
      "out of memory: a size is too large for this machine; look at the sizes of model and data";
  try {
    return text + limits_here(memory_limits());
  } catch (const std::bad_alloc&) {
    return text;
  }
}

}  // namespace attnlab
