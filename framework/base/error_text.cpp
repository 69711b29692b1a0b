#include "framework/base/error_text.h"

#include <new>
#include <stdexcept>

namespace attnlab {

std::string text_of(const std::exception& error) {
  const bool too_large = dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
                         dynamic_cast<const std::length_error*>(&error) != nullptr;
  if (!too_large) return error.what();
  return "out of memory: a size is too large for this machine; look at the sizes of model and data";
}

}  // namespace attnlab
