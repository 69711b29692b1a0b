#include "framework/tensor/kept_memory.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <vector>

namespace attnlab {
namespace {

constexpr std::size_t kSmall = std::size_t{128} << 10;  ///< bytes below which malloc does well
constexpr std::size_t kAlignment = 64;

class KeptMemory {
 public:
  /// Never destroyed: tensors may outlive everything else.
  static KeptMemory& get() {
    static auto* const kept = new KeptMemory;
    return *kept;
  }

  void* take(std::size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      used_ += bytes;
      most_ = std::max(most_, used_);
      std::vector<void*>& blocks = free_[bytes];
      if (!blocks.empty()) {
        void* block = blocks.back();
        blocks.pop_back();
        kept_ -= bytes;
        return block;
      }
      make_room();
    }
    void* block = std::aligned_alloc(kAlignment, bytes);
    if (block != nullptr) return block;
    const std::lock_guard lock(mutex_);
    used_ -= bytes;
    throw std::bad_alloc();
  }

  void give_back(void* block, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    used_ -= bytes;
    kept_ += bytes;
    free_[bytes].push_back(block);
  }

 private:
  void make_room() {
    for (auto size = free_.begin(); size != free_.end() && used_ + kept_ > most_;) {
      while (!size->second.empty() && used_ + kept_ > most_) {
        std::free(size->second.back());
        size->second.pop_back();
        kept_ -= size->first;
      }
      size = size->second.empty() ? free_.erase(size) : std::next(size);
    }
  }

  std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> free_;  ///< by bytes
  std::size_t used_ = 0, kept_ = 0, most_ = 0;
};

/// Up to an eighth more, so that blocks serve sizes that differ a little.
std::size_t rounded(std::size_t bytes) {
  std::size_t step = kSmall / 8;
  while (step * 16 < bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

}  // namespace

Tensor empty_kept(c10::IntArrayRef sizes, c10::ScalarType type) {
  std::size_t bytes = c10::elementSize(type);
  for (const std::int64_t size : sizes) bytes *= static_cast<std::size_t>(size);
  if (bytes < kSmall) return at::empty(sizes, type);
  const std::size_t whole = rounded(bytes);
  return at::from_blob(
      KeptMemory::get().take(whole), sizes,
      [whole](void* block) { KeptMemory::get().give_back(block, whole); }, type);
}

}  // namespace attnlab
