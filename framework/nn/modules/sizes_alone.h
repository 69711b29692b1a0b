// Models of which only the sizes are asked.
#pragma once

namespace attnlab {

/// While one lives, `fill_truncated_normal` (layers.h) on its thread writes the standard deviation
/// everywhere: drawing the weights of a large model takes seconds, which its count of parameters
/// and of operations does not need.
class SizesAlone {
 public:
  SizesAlone();
  ~SizesAlone();
  SizesAlone(const SizesAlone&) = delete;
  SizesAlone& operator=(const SizesAlone&) = delete;

  /// Whether one lives on this thread.
  static bool asked();
};

}  // namespace attnlab
