#include "framework/train/fitted_file.h"

#include <fmt/format.h>

#include <filesystem>

#include "framework/base/files.h"
#include "framework/runs/evaluations.h"
#include "framework/train/checkpoint.h"

namespace attnlab {
namespace {

constexpr const char* kHash = "hash";

}  // namespace

std::string fitted_file(const std::string& entry, const std::string& hash) {
  return std::filesystem::path(evaluation_file(entry, hash))
      .replace_extension(".fitted.safetensors")
      .string();
}

NamedTensors read_fitted(const std::string& path, const std::string& hash) {
  if (!is_there(path)) return {};
  const auto problem = [&](const std::string& what) {
    return DataError(
        fmt::format("{}: {}; remove the file, so that it is fitted again", path, what));
  };
  TensorFile file;
  try {
    file = read_sealed(path);
  } catch (const DataError& error) {
    throw problem(fmt::format("the fitted part cannot be taken ({})", error.what()));
  }
  const auto found = file.metadata.find(kHash);
  if (found == file.metadata.end() || found->second != hash) {
    throw problem("the fitted part is of another result");
  }
  return std::move(file.tensors);
}

void write_fitted(const std::string& path, const std::string& hash, const NamedTensors& fitted) {
  write_sealed(path, {fitted, {{kHash, hash}}});
}

}  // namespace attnlab
