// Installing with a compiler that is made up.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>

#include "framework/base/files.h"
#include "framework/manifest/manifest_writer.h"
#include "framework/sharing/install.h"
#include "tests/support/compositions.h"
#include "tests/support/program.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/sharing/made_bundle.h"

namespace attnlab::testing {

namespace fs = std::filesystem;

inline std::string manifest_text(const std::string& id, const std::string& version,
                                 const std::string& compiler) {
  return R"({"id":")" + id + R"(","kind":"attention","version":")" + version +
         R"(","summary":"made up","citation":"nobody, 2026","licence":"Apache-2.0","takes":[],)"
         R"("gives":[],"needs":[],"traits":{},"options":[],"stamp":{"compiler":")" +
         compiler + "\"}}";
}

inline std::string library(const std::string& id, const std::string& version,
                           const std::string& compiler = "here") {
  return library_with_section(kManifestSection, manifest_text(id, version, compiler));
}

/// A bundle whose binaries are for the compilers named.
inline std::string bundle_of(const std::string& version,
                             const std::vector<std::string>& compilers = {},
                             const Lab* lab = nullptr, const std::string& id = "acme/sharp") {
  sharing::Contents contents = made_contents(id, version);
  std::vector<sharing::ArchiveFile> files = made_files();
  files.push_back({"manifest.json", manifest_text(id, version, "there")});
  for (const std::string& compiler : compilers) {
    const std::string path = "binaries/" + compiler + "/sharp.so";
    files.push_back({path, library(id, version, compiler)});
    contents.binaries.push_back({path, {{"compiler", compiler}}});
  }
  return write_bundle(contents, files,
                      lab != nullptr ? std::optional(lab->signer()) : std::nullopt);
}

/// A home folder of a user, and what the tests do in it. The compiler makes an attention of the
/// version that `built_version_` says.
class InstallTest : public ::testing::Test {
 protected:
  InstallTest() {
    options_.policy = {sharing::Rule::allow, sharing::Rule::allow};
    tools_.host = {{"compiler", "here"}};
    tools_.build = [this](const std::string& source, const std::string& work, const std::string&) {
      EXPECT_TRUE(fs::exists(source + "/sharp.cpp"));
      fs::create_directories(work);
      write_file(work + "/made.so", library("acme/sharp", built_version_));
      return work + "/made.so";
    };
    tools_.test = [](const auto&, const auto&, const auto&) { return std::string("{}\n"); };
    tools_.compare = [](const auto&, const auto&, const auto&, const auto&) {
      return std::string("no numbers");
    };
    tools_.check_name = [](const auto&, const auto&) {};
  }

  sharing::Store store() const { return sharing::Store({folder_ / "config", folder_ / "share"}); }
  sharing::Keyring keys() const { return sharing::Keyring(folder_ / "config/keys"); }
  sharing::Installed install(const std::string& bytes) {
    sharing::Keyring known = keys();
    return sharing::install(bytes, "x.attnlab", store(), known, tools_, options_);
  }
  sharing::Installed rebuild() {
    sharing::Keyring known = keys();
    return sharing::rebuild(*store().find("sharp"), store(), known, tools_, options_);
  }
  sharing::Installed roll_back() {
    return sharing::roll_back(*store().find("sharp"), store(), keys(), options_);
  }
  /// "installed" or why not.
  std::string answer(const std::string& bytes) {
    try {
      install(bytes);
      return "installed";
    } catch (const Error& error) {
      return error.what();
    }
  }
  /// The version in use, after checking that it is whole; "" where none is.
  std::string in_use() const {
    const auto found = store().find("sharp");
    if (!found) return "";
    EXPECT_EQ(damage_of(*found), "");
    EXPECT_TRUE(fs::exists(folder_ / "share/plugins/attention/sharp.so"));
    return found->version;
  }
  std::size_t entries() const {
    std::error_code error;
    std::size_t count = 0;
    for (const auto& one :
         fs::directory_iterator(folder_ / "share/plugins/installed/acme/sharp", error)) {
      count += one.is_directory() ? 1 : 0;
    }
    return count;
  }
  bool has_staging() const {
    for (const auto& one : fs::directory_iterator(folder_ / "share/plugins/installed")) {
      if (one.path().filename().string().rfind(".staging", 0) == 0) return true;
    }
    return false;
  }

  TempFolder folder_;
  std::string built_version_ = "1.0.0";
  sharing::InstallTools tools_;
  sharing::InstallOptions options_;
};

}  // namespace attnlab::testing
