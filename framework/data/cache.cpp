#include "framework/data/cache.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "framework/base/cache_folder.h"
#include "framework/base/clock.h"
#include "framework/base/files.h"
#include "framework/data/formats/files.h"
#include "framework/data/formats/safetensors.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

/// The content of a file, if it is there, whole, and that of the key.
std::optional<NamedTensors> kept(const std::string& path, const std::string& key) {
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  try {
    TensorFile file = read_safetensors(path);
    if (file.metadata["key"] != key) return std::nullopt;
    if (file.metadata["content"] != hex(content_of(file.tensors))) return std::nullopt;
    return std::move(file.tensors);
  } catch (const Error&) {
    return std::nullopt;  // damaged: made anew, and replaced
  }
}

}  // namespace

std::uint64_t content_of(const NamedTensors& tensors) {
  std::uint64_t hash = 0;
  for (const auto& [name, tensor] : tensors) {
    const Tensor dense = tensor.contiguous();
    const std::string_view bytes(static_cast<const char*>(dense.data_ptr()), dense.nbytes());
    hash = content_fingerprint(bytes, fingerprint(name + describe(tensor), hash));
  }
  return hash;
}

NamedTensors cached(const std::string& kind, const std::string& key,
                    const std::function<NamedTensors()>& make, double worth) {
  const std::string folder = cache_folder();
  const std::string path = fmt::format("{}/{}-{}.safetensors", folder, kind, hex(fingerprint(key)));
  if (!folder.empty()) {
    if (std::optional<NamedTensors> tensors = kept(path, key)) return std::move(*tensors);
  }
  const auto begin = Clock::now();
  NamedTensors made = make();
  const double taken = seconds_since(begin);
  if (folder.empty() || taken < worth) return made;
  try {
    std::error_code ignored;
    fs::create_directories(folder, ignored);
    write_safetensors(path, {made, {{"key", key}, {"content", hex(content_of(made))}}});
  } catch (const Error&) {
    // A full disk, or a folder that is not ours: it is made again next time.
  }
  return made;
}

}  // namespace attnlab
