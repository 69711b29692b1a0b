#include "framework/tensor/memory_meter.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "framework/tensor/torch_compat.h"

namespace attnlab {

class MemoryMeter::Reports final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* block, std::int64_t size, compat::MemoryTotal, compat::MemoryTotal,
                         c10::Device) override {
    const std::lock_guard lock(mutex_);
    if (size > 0) {
      blocks_[block] = size;
      held_ += size;
      peak_ = std::max(peak_, held_);
    } else if (const auto known = blocks_.find(block); known != blocks_.end()) {
      // A block that is older than the meter was never counted.
      held_ -= known->second;
      blocks_.erase(known);
    }
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::int64_t held() const {
    const std::lock_guard lock(mutex_);
    return held_;
  }
  std::int64_t peak() const {
    const std::lock_guard lock(mutex_);
    return peak_;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<void*, std::int64_t> blocks_;
  std::int64_t held_ = 0, peak_ = 0;
};

MemoryMeter::MemoryMeter()
    : reports_(std::make_shared<Reports>()), guard_(c10::DebugInfoKind::PROFILER_STATE, reports_) {}
MemoryMeter::~MemoryMeter() = default;

std::int64_t MemoryMeter::held() const { return reports_->held(); }
std::int64_t MemoryMeter::peak() const { return reports_->peak(); }

}  // namespace attnlab
