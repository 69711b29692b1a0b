// Counts the memory that tensors take: what LibTorch's allocators hand out, and get back.
//
// Exact to the byte, unlike what the system says of a process whose malloc keeps what is freed.
// Source: LibTorch's own memory reports, those of its profiler.
// Cost: a look-up for each block, while a meter lives.
#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <memory>

namespace attnlab {

/// Counts from its construction to its end. Only blocks that this thread (and threads that work for
/// it under LibTorch's thread-local state, as autograd's) asked for: inside parallel loops others
/// ask too, so count with one thread of tensor operations. Buffers that are not tensors (of matrix
/// products, of std::vector) are not seen. Meters do not nest: an inner one counts for itself.
/// LibTorch warns once, on standard error, where a block is freed that is older than the meter.
class MemoryMeter {
 public:
  MemoryMeter();
  ~MemoryMeter();
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  /// Bytes handed out since the beginning and not given back.
  std::int64_t held() const;
  /// The most that were held at one time.
  std::int64_t peak() const;

 private:
  class Reports;
  std::shared_ptr<Reports> reports_;
  c10::DebugInfoGuard guard_;
};

}  // namespace attnlab
