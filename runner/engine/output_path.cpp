#include "runner/engine/output_path.h"

#include <filesystem>

#include "framework/base/error.h"

namespace attnlab {

OutputPath::OutputPath(const std::string& path) : given(path) {
  std::error_code error;
  whole = std::filesystem::absolute(path, error).string();
  if (error) whole = path;
}

OutputPath OutputPath::file(const std::string& name) const {
  OutputPath path = *this;
  path.given += "/" + name;
  path.whole += "/" + name;
  return path;
}

void OutputPath::write(const std::function<void(const std::string&)>& how) const {
  try {
    how(whole);
  } catch (const FileError& error) {
    const std::string text = error.what();
    if (text.rfind(whole, 0) != 0) throw;
    throw FileError(given + text.substr(whole.size()));
  }
}

}  // namespace attnlab
