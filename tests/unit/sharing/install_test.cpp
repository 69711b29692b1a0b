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
#include "framework/base/sha256.h"
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
  sharing::Keyring keys() const { return sharing::Keyring(folder_ / "config/keys"); }
  Installed install(const std::string& bytes) {
    sharing::Keyring known = keys();
    return sharing::install(bytes, "x.attnlab", store(), known, tools_, options_);
  }
  Installed rebuild() {
    sharing::Keyring known = keys();
    return sharing::rebuild(*store().find("sharp"), store(), known, tools_, options_);
  }
  Installed roll_back() {
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

TEST_F(InstallTest, KeepsTheEndOfALongLogAndFewLogs) {
  for (int i = 0; i < 30; ++i) folder_.write("share/logs/install-a-" + std::to_string(i), "old");
  tools_.build = [](const auto&, const auto&, const std::string& log) -> std::string {
    write_file(log, "begin" + std::string(5 << 20, '.') + "end\n");
    throw BundleError("no");
  };
  const std::string said = answer(bundle_of("1.0.0"));
  const std::string log = file_text(said.substr(said.find("the log: ") + 9));
  EXPECT_LT(log.size(), (1U << 20) + 100);
  EXPECT_THAT(log, ::testing::AllOf(HasSubstr("were left out"), ::testing::EndsWith("end\n")));
  const fs::directory_iterator left(folder_ / "share/logs");
  EXPECT_EQ(std::distance(begin(left), end(left)), 20);
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
  options_.ask = [](const auto&) { return true; };
  install(bundle_of("1.0.0", {"here"}, &acme));
  // Also where the policy lets unsigned ones in: else who takes the signature off gets in.
  options_.policy.unsigned_bundles = sharing::Rule::allow;
  EXPECT_THAT(answer(bundle_of("1.1.0", {"here"})), HasSubstr("has a key here"));
  options_.policy.unsigned_bundles = sharing::Rule::ask;
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
  EXPECT_EQ(roll_back().version, "1.0.0");
  EXPECT_EQ(in_use(), "1.0.0");
  EXPECT_THROW(roll_back(), ConfigError);
}

TEST_F(InstallTest, DoesNotGoBackToWhatWasAltered) {
  const Installed first = install(bundle_of("1.0.0", {"here"}));
  install(bundle_of("1.1.0", {"here"}));
  write_file(first.library(), library("acme/sharp", "1.0.0") + "x");
  EXPECT_THROW(roll_back(), TrustError);
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
  const Installed again = rebuild();
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

TEST_F(InstallTest, LeavesAnotherLabsPluginOfTheSameNameAlone) {
  install(bundle_of("1.0.0", {"here"}));
  EXPECT_THAT(answer(bundle_of("9.0.0", {"here"}, nullptr, "other/sharp")),
              HasSubstr("the name 'sharp' is taken by acme/sharp"));
  EXPECT_EQ(store().find("sharp")->id.str(), "acme/sharp");
  EXPECT_EQ(in_use(), "1.0.0");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(InstallTest, LeavesAFileThatItDidNotInstallAlone) {
  fs::create_directories(folder_ / "share/plugins/attention");
  const std::string own = folder_.write("share/plugins/attention/sharp.so", "built by hand");
  EXPECT_THAT(answer(bundle_of("1.0.0", {"here"})), HasSubstr("was not installed from a bundle"));
  EXPECT_EQ(file_text(own), "built by hand");
  fs::remove(own);
  fs::create_symlink("/nowhere/else.so", own);
  EXPECT_THAT(answer(bundle_of("1.0.0", {"here"})), HasSubstr("was not installed from a bundle"));
}

TEST_F(InstallTest, GoesOnWithADamagedRecord) {
  const Installed first = install(bundle_of("1.0.0", {"here"}));
  const Installed second = install(bundle_of("1.1.0", {"here"}));
  write_file(second.folder + "/record.json", "{");
  const auto found = store().find("acme/sharp");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, "attention");
  EXPECT_THAT(found->problem, HasSubstr("record.json: damaged"));
  EXPECT_THAT(damage_of(*found), HasSubstr("damaged"));
  store().clean();
  EXPECT_TRUE(fs::exists(second.library()));
  EXPECT_THROW(rebuild(), BundleError);
  // Another plugin is not concerned, and the damaged one can be replaced or removed.
  EXPECT_EQ(answer(bundle_of("1.1.0", {"here"})), "installed");
  EXPECT_EQ(in_use(), "1.1.0");
  fs::remove(store().find("sharp")->folder + "/record.json");
  store().remove(store().need("sharp"));
  EXPECT_FALSE(store().find("sharp"));
  EXPECT_EQ(entries(), 0U);
}

TEST_F(InstallTest, LeavesNothingWhereTheLastRenameFails) {
  options_.at_step = [&](const std::string& step) {
    // A folder in the way of the link, which appears after it was looked.
    if (step == "activate") fs::create_directories(folder_ / "share/plugins/attention/sharp.so");
  };
  EXPECT_THAT(answer(bundle_of("1.0.0", {"here"})), HasSubstr("step 'activate' failed"));
  EXPECT_EQ(entries(), 0U);
  EXPECT_FALSE(has_staging());
}

TEST_F(InstallTest, NotesTheVersionBeforeItIsInUse) {
  options_.at_step = [&](const std::string& step) {
    // From here on a kill may leave it in use.
    if (step == "activate") fs::create_directories(folder_ / "share/plugins/attention/sharp.so");
  };
  EXPECT_THAT(answer(bundle_of("1.0.0", {"here"})), HasSubstr("step 'activate' failed"));
  EXPECT_EQ(keys().highest("acme/sharp"), "1.0.0");
  // One that was lost learns it from what is installed.
  options_.at_step = [](const auto&) {};
  fs::remove(folder_ / "share/plugins/attention/sharp.so");
  install(bundle_of("1.0.0", {"here"}));
  fs::remove(folder_ / "config/keys/known.json");
  install(bundle_of("1.0.0", {"here"}));
  EXPECT_EQ(keys().highest("acme/sharp"), "1.0.0");
}

TEST_F(InstallTest, MakesItAnewWhereThatWasAskedFor) {
  const std::string bytes = bundle_of("1.0.0", {"here"});
  options_.kit = false;
  EXPECT_EQ(install(bytes).built, "binary");
  EXPECT_FALSE(store().find("sharp")->kit);
  options_.from_source = true;
  EXPECT_EQ(install(bytes).built, "source");
  options_.from_source = false;
  options_.kit = true;
  EXPECT_TRUE(install(bytes).kit) << "the kit was left out, and is now asked for";
  EXPECT_THROW(roll_back(), ConfigError) << "the same bundle is no earlier version";
}

TEST_F(InstallTest, PutsNothingBackWhoseKeyWasRevoked) {
  const Lab acme("acme");
  install(bundle_of("1.0.0", {"here"}, &acme));
  install(bundle_of("1.1.0", {"here"}, &acme));
  keys().revoke(acme.card.key.id_text());
  EXPECT_THROW(roll_back(), TrustError);
  EXPECT_THROW(rebuild(), TrustError);
  EXPECT_EQ(in_use(), "1.1.0");
}

TEST_F(InstallTest, PutsNothingUnsignedBackWhereThePolicyNowRefusesThat) {
  install(bundle_of("1.0.0", {"here"}));
  install(bundle_of("1.1.0", {"here"}));
  options_.policy.unsigned_bundles = sharing::Rule::refuse;
  EXPECT_THROW(roll_back(), TrustError);
  EXPECT_THROW(rebuild(), TrustError);
  options_.policy.unsigned_bundles = sharing::Rule::ask;  // it was asked when it came
  EXPECT_EQ(roll_back().version, "1.0.0");
}

TEST_F(InstallTest, NeedsWhatWasAskedFor) {
  const std::string bytes = bundle_of("1.0.0", {"here"});
  options_.expected_id = "acme/other";
  EXPECT_THAT(answer(bytes), HasSubstr("has the id acme/sharp, expected acme/other"));
  options_.expected_id = "sharp";
  options_.expected_version = "1.0.1";
  EXPECT_THAT(answer(bytes), HasSubstr("has the version 1.0.0, expected 1.0.1"));
  options_.expected_version = "1.0.0";
  EXPECT_EQ(answer(bytes), "installed");
}

TEST_F(InstallTest, NeedsTheHashThatAnIndexNames) {
  const std::string bytes = bundle_of("1.0.0", {"here"});
  options_.expected_sha256 = std::string(64, '0');
  EXPECT_THAT(answer(bytes), HasSubstr("REFUSED"));
  options_.expected_sha256 = sharing::sha256(bytes);
  EXPECT_EQ(answer(bytes), "installed");
}

TEST(Hashes, AreTheSameByLibsodiumAndByOurs) {
  // One writes records, the other checks them where the program does not load libsodium.
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(sharing::sha256(bytes), sha256_text(bytes)) << i;
    bytes += static_cast<char>(::random());
  }
}

}  // namespace
}  // namespace attnlab::testing
