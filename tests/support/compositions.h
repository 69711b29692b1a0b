// What tests of framework/core share: messages of errors, and plugin files with any manifest.
#pragma once

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/files.h"
#include "framework/config/compose.h"
#include "framework/manifest/discovery.h"
#include "tests/support/temp_folder.h"

namespace attnlab::testing {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

/// What the error says that `act` throws. An error of another type, or none, fails the test.
template <class Error, class Act>
std::string message_of(Act&& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "an error of another type: " << error.what();
    return "";
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

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

/// Bytes of a shared library without code that has one section: what a plugin's file is to a
/// reader of manifests.
inline std::string library_with_section(std::string_view section, std::string_view content) {
  const std::string names = std::string(1, '\0') + std::string(section) + '\0' + ".shstrtab" + '\0';
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_DYN;
  header.e_ehsize = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3;
  header.e_shstrndx = 2;
  header.e_shoff = sizeof header + content.size() + names.size();
  Elf64_Shdr sections[3] = {};
  sections[1].sh_name = 1;
  sections[1].sh_type = SHT_PROGBITS;
  sections[1].sh_offset = sizeof header;
  sections[1].sh_size = content.size();
  sections[2].sh_name = static_cast<Elf64_Word>(section.size() + 2);
  sections[2].sh_type = SHT_STRTAB;
  sections[2].sh_offset = sizeof header + content.size();
  sections[2].sh_size = names.size();
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes.append(content);
  bytes += names;
  return bytes.append(reinterpret_cast<const char*>(sections), sizeof sections);
}

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
