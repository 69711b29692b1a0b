// Installing, with a compiler that is made up: what is in use afterwards, and what is left.
#include "framework/sharing/install.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "framework/base/files.h"
#include "framework/manifest/manifest_writer.h"
#include "framework/sharing/hash.h"
#include "tests/support/compositions.h"
#include "tests/support/program.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/sharing/made_bundle.h"

namespace attnlab::testing {
namespace {

namespace fs = std::filesystem;
using sharing::BundleError;
using sharing::Installed;
using sharing::InstallError;
using sharing::TrustError;
using ::testing::HasSubstr;

std::string manifest_text(const std::string& id, const std::string& version,
                          const std::string& compiler) {
  return R"({"id":")" + id + R"(","kind":"attention","version":")" + version +
         R"(","summary":"made up","citation":"nobody","licence":"MIT","takes":[],"gives":[],)"
         R"("needs":[],"traits":{},"options":[],"stamp":{"compiler":")" +
         compiler + "\"}}";
}

std::string library(const std::string& id, const std::string& version,
                    const std::string& compiler = "here") {
  return library_with_section(kManifestSection, manifest_text(id, version, compiler));
}

/// A bundle whose binaries are for the compilers named.
std::string bundle_of(const std::string& version, const std::vector<std::string>& compilers = {},
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
  Installed install(const std::string& bytes) {
    sharing::Keyring keys(folder_ / "config/keys");
    return sharing::install(bytes, "x.attnlab", store(), keys, tools_, options_);
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
  int kills_ = 0;
};

TEST_F(InstallTest, TakesABinaryWhoseStampFits) {
  const Installed one = install(bundle_of("1.0.0", {"other", "here"}));
  EXPECT_EQ(one.built, "binary");
  EXPECT_EQ(in_use(), "1.0.0");
  EXPECT_FALSE(has_staging());
}

TEST_F(InstallTest, BuildsFromSourceWhereNoStampFits) {
  EXPECT_EQ(install(bundle_of("1.0.0", {"other"})).built, "source");
  EXPECT_EQ(in_use(), "1.0.0");
}

TEST_F(InstallTest, SaysWhichStepFailedAndLeavesOnlyTheLog) {
  tools_.build = [](const auto&, const auto&, const std::string& log) -> std::string {
    write_file(log, "the compiler's words\n");
    throw BundleError("the compiler said no");
  };
  const std::string said = answer(bundle_of("1.0.0"));
  EXPECT_THAT(said, HasSubstr("step 'build' failed: the compiler said no; nothing was installed"));
  EXPECT_EQ(file_text(said.substr(said.find("the log: ") + 9)), "the compiler's words\n");
  EXPECT_EQ(in_use(), "");
  EXPECT_FALSE(has_staging());
}

TEST_F(InstallTest, KeepsTheOldVersionWhereTheNewOneFails) {
  install(bundle_of("1.0.0", {"here"}));
  tools_.test = [](const auto&, const auto&, const auto&) -> std::string {
    throw BundleError("check 'gradient' failed");
  };
  EXPECT_THAT(answer(bundle_of("1.1.0", {"here"})), HasSubstr("step 'kit' failed"));
  EXPECT_EQ(in_use(), "1.0.0");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(InstallTest, RefusesALibraryThatIsNotWhatTheBundleSays) {
  built_version_ = "6.6.6";
  EXPECT_THAT(answer(bundle_of("1.0.0")), HasSubstr("the library is attention acme/sharp 6.6.6"));
  EXPECT_EQ(in_use(), "");
}

TEST_F(InstallTest, RefusesDowngradesUnlessAsked) {
  install(bundle_of("1.1.0", {"here"}));
  EXPECT_THAT(answer(bundle_of("1.0.0", {"here"})), HasSubstr("REFUSED: 1.1.0 was installed"));
  EXPECT_EQ(in_use(), "1.1.0");
  // Also once the newer one was removed: who serves the old one again does not get it in.
  store().remove(*store().find("sharp"));
  EXPECT_EQ(in_use(), "");
  EXPECT_THAT(answer(bundle_of("1.0.0", {"here"})), HasSubstr("REFUSED"));
  options_.allow_downgrade = true;
  EXPECT_EQ(answer(bundle_of("1.0.0", {"here"})), "installed");
}

TEST_F(InstallTest, RefusesAnotherBundleOfTheSameVersion) {
  install(bundle_of("1.0.0", {"here"}));
  EXPECT_THAT(answer(bundle_of("1.0.0", {"here", "other"})), HasSubstr("this very version"));
}

TEST_F(InstallTest, RefusesAnUnsignedBundleOfALabThatSigns) {
  const Lab acme("acme");
  options_.policy.unsigned_bundles = sharing::Rule::ask;
  options_.ask = [](const auto&) { return true; };
  install(bundle_of("1.0.0", {"here"}, &acme));
  EXPECT_THAT(answer(bundle_of("1.1.0", {"here"})), HasSubstr("has a key here"));
  const Lab impostor("acme");
  EXPECT_THAT(answer(bundle_of("1.1.0", {"here"}, &impostor)), HasSubstr("HAS CHANGED"));
  EXPECT_EQ(in_use(), "1.0.0");
  EXPECT_EQ(answer(bundle_of("1.1.0", {"here"}, &acme)), "installed");
}

TEST_F(InstallTest, FollowsThePolicyOnUnsignedBundles) {
  for (const auto rule : {sharing::Rule::refuse, sharing::Rule::ask}) {
    options_.policy.unsigned_bundles = rule;
    EXPECT_THAT(answer(bundle_of("1.0.0", {"here"})), HasSubstr("it is not signed"));
  }
  EXPECT_EQ(in_use(), "");
  options_.ask = [](const std::string& question) {
    return question.find("nobody vouches") != std::string::npos;
  };
  EXPECT_EQ(answer(bundle_of("1.0.0", {"here"})), "installed");
}

TEST_F(InstallTest, GoesBackToTheVersionBefore) {
  install(bundle_of("1.0.0", {"here"}));
  install(bundle_of("1.1.0", {"here"}));
  EXPECT_EQ(roll_back(*store().find("sharp"), store()).version, "1.0.0");
  EXPECT_EQ(in_use(), "1.0.0");
  EXPECT_THROW(roll_back(*store().find("sharp"), store()), ConfigError);
}

TEST_F(InstallTest, DoesNotGoBackToWhatWasAltered) {
  const Installed first = install(bundle_of("1.0.0", {"here"}));
  install(bundle_of("1.1.0", {"here"}));
  write_file(first.library(), library("acme/sharp", "1.0.0") + "x");
  EXPECT_THROW(roll_back(*store().find("sharp"), store()), TrustError);
  EXPECT_EQ(in_use(), "1.1.0");
}

TEST_F(InstallTest, NoticesAlteredFiles) {
  const Installed one = install(bundle_of("1.0.0", {"here"}));
  EXPECT_EQ(damage_of(one), "");
  const std::string bytes = read_text(one.bundle_file());
  write_file(one.bundle_file(), bytes.substr(1));
  EXPECT_NE(damage_of(one), "");
  write_file(one.bundle_file(), bytes);
  EXPECT_EQ(damage_of(one), "");
  write_file(one.library(), "another");
  EXPECT_THAT(damage_of(one), HasSubstr("was altered"));
}

TEST_F(InstallTest, RebuildsWhatTheHostRefuses) {
  install(bundle_of("1.0.0", {"here"}));
  tools_.host = {{"compiler", "newer"}};
  tools_.build = [](const auto&, const std::string& work, const auto&) {
    fs::create_directories(work);
    write_file(work + "/made.so", library("acme/sharp", "1.0.0", "newer"));
    return work + "/made.so";
  };
  const Installed again = rebuild(*store().find("sharp"), store(), tools_, options_);
  EXPECT_EQ(again.built, "source");
  EXPECT_EQ(read_manifest(store().find("sharp")->library()).stamp.at("compiler"), "newer");
  EXPECT_EQ(in_use(), "1.0.0");
}

TEST_F(InstallTest, KilledAtAnyStepLeavesTheOldOrTheNew) {
  for (const char* step :
       {"unpack", "binary", "manifest", "kit", "numbers", "record", "activate", "never"}) {
    const std::string before = in_use();
    const std::string next =
        "2." + std::to_string(::random() % 1000) + "." + std::to_string(++kills_);
    const pid_t child = ::fork();
    if (child == 0) {
      options_.allow_downgrade = true;
      options_.at_step = [&](const std::string& now) {
        if (now == step) ::raise(SIGKILL);
      };
      install(bundle_of(next, {"here"}));
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    const std::string after = in_use();
    EXPECT_TRUE(after == before || after == next) << step;
    const bool undisturbed = std::string(step) == "never";
    EXPECT_EQ(undisturbed && after != next, false);
  }
  options_.allow_downgrade = true;
  install(bundle_of("3.0.0", {"here"}));
  EXPECT_EQ(in_use(), "3.0.0");
  EXPECT_FALSE(has_staging());
  EXPECT_LE(entries(), 2U);
}

TEST_F(InstallTest, KilledAtAnyMomentLeavesTheOldOrTheNew) {
  for (int i = 0; i < 40; ++i) {
    const std::string before = in_use(), next = "1.0." + std::to_string(i);
    const pid_t child = ::fork();
    if (child == 0) {
      install(bundle_of(next, {"here"}));
      ::_exit(0);
    }
    ::usleep(static_cast<useconds_t>(::random() % 30'000));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    const std::string after = in_use();
    EXPECT_TRUE(after == before || after == next) << after;
  }
  EXPECT_EQ(answer(bundle_of("2.0.0", {"here"})), "installed");
  EXPECT_FALSE(has_staging());
}

TEST_F(InstallTest, TwoAtOnceWaitForEachOther) {
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      options_.allow_downgrade = true;
      const bool done = answer(bundle_of("1.0." + std::to_string(i), {"here"})) == "installed";
      ::_exit(done ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_NE(in_use(), "");
  EXPECT_FALSE(has_staging());
  EXPECT_LE(entries(), 2U);
}

TEST_F(InstallTest, NeedsTheHashThatAnIndexNames) {
  const std::string bytes = bundle_of("1.0.0", {"here"});
  options_.expected_sha256 = std::string(64, '0');
  EXPECT_THAT(answer(bytes), HasSubstr("REFUSED"));
  options_.expected_sha256 = sharing::sha256(bytes);
  EXPECT_EQ(answer(bytes), "installed");
}

}  // namespace
}  // namespace attnlab::testing
