#include "framework/base/error_text.h"

#include <new>
#include <stdexcept>
#include <string_view>

#include "framework/base/limits.h"

namespace attnlab {

namespace {

/// LibTorch's refusal of an operation under train.deterministic speaks of Python's functions.
/// @returns what is to be said instead; empty for other errors.
std::string without_deterministic_kernel(std::string_view text) {
  if (text.find("not deterministic because it uses CuBLAS") != std::string_view::npos) {
    return "train.deterministic: CUBLAS_WORKSPACE_CONFIG in the environment lets cuBLAS give other "
           "bits each time: unset it, or set it to :4096:8";
  }
  const std::size_t end = text.find(" does not have a deterministic implementation");
  if (end == std::string_view::npos) return "";
  return std::string(text.substr(0, end)) +
         " has no deterministic kernel on this device (train.deterministic): leave "
         "train.deterministic out, or take train.device=cpu";
}

}  // namespace

std::string text_of(const std::exception& error) {
  const bool too_large = dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
                         dynamic_cast<const std::length_error*>(&error) != nullptr;
  if (!too_large) {
    const std::string other = without_deterministic_kernel(error.what());
    return other.empty() ? error.what() : other;
  }
  std::string text =
      "out of memory: a size is too large for this machine; look at the sizes of model and data";
  try {
    return text + limits_here(memory_limits());
  } catch (const std::bad_alloc&) {
    return text;
  }
}

}  // namespace attnlab
