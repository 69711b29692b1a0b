#include "framework/eval/example_keys.h"

#include "framework/base/files.h"

namespace attnlab {

std::vector<std::uint64_t> keys_of(const Tensor& values) {
  const Tensor rows = values.detach().to(at::kCPU).contiguous();
  const std::size_t bytes = rows.nbytes() / static_cast<std::size_t>(rows.size(0));
  const auto* data = static_cast<const char*>(rows.data_ptr());
  std::vector<std::uint64_t> keys;
  for (std::int64_t i = 0; i < rows.size(0); ++i, data += bytes) {
    keys.push_back(fingerprint({data, bytes}));
  }
  return keys;
}

}  // namespace attnlab
