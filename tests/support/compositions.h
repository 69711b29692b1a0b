// What tests of framework/core share: messages of errors, and plugin files with any manifest.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/files.h"
#include "framework/base/json.h"
#include "framework/config/compose.h"
#include "framework/manifest/discovery.h"
#include "tests/support/made_library.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace attnlab::testing {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

/// Names of what a folder holds, sorted.
inline std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Sets a variable of the environment for one test.
class Environment {
 public:
  Environment(std::string name, const char* value) : name_(std::move(name)) {
    const char* before = std::getenv(name_.c_str());
    if (before != nullptr) before_ = before;
    set(value);
  }
  ~Environment() { set(before_ ? before_->c_str() : nullptr); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  void set(const char* value) {
    if (value == nullptr) {
      ::unsetenv(name_.c_str());
    } else {
      ::setenv(name_.c_str(), value, 1);
    }
  }

  std::string name_;
  std::optional<std::string> before_;
};

/// The stamp that made-up plugins carry unless a test changes it.
inline const Stamp kMadeStamp = {{"contract", "1"}, {"compiler", "GNU 12"}, {"cuda", ""}};

/// A complete manifest of a made-up plugin; tests change members of it.
inline nlohmann::json made_manifest(Kind kind, const std::string& name) {
  nlohmann::json manifest = {{"id", "lab/" + name},
                             {"kind", name_of(kind)},
                             {"version", "1.2.3"},
                             {"summary", "made up"},
                             {"citation", "nobody"},
                             {"licence", "MIT"},
                             {"takes", nlohmann::json::array()},
                             {"gives", nlohmann::json::array()},
                             {"needs", nlohmann::json::array()},
                             {"options", nlohmann::json::array()},
                             {"stamp", {{"contract", 1}, {"compiler", "GNU 12"}, {"cuda", ""}}}};
  if (kind == Kind::attention) manifest["traits"] = {{"causal", true}, {"bias", false}};
  if (kind == Kind::model || kind == Kind::task) manifest["ensemble"] = false;
  return manifest;
}

/// Writes a made-up plugin. @returns its path.
inline std::string write_plugin(const TempFolder& folder, const std::string& file,
                                const nlohmann::json& manifest) {
  return folder.write(file, library_with_section(kManifestSection, manifest.dump()));
}

/// A catalogue of one folder, for a host with the stamp of made-up plugins.
inline Catalogue catalogue_of(const std::string& folder) {
  return Catalogue({{folder, "test", true}}, kMadeStamp);
}

}  // namespace attnlab::testing
