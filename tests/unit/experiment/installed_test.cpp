// Plugins that were installed from a bundle: altered ones, and unsigned ones where the policy
// refuses them, are not used.
#include "framework/experiment/installed.h"
#include "framework/base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "framework/base/files.h"
#include "framework/base/sha256.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"
#include "tests/support/unprivileged.h"

namespace attnlab::installed_test {
namespace {

namespace fs = std::filesystem;
using attnlab::testing::mentions;
using ::testing::HasSubstr;

class InstalledTest : public ::testing::Test {
 protected:
  InstalledTest() {
    const char* const home = std::getenv("HOME");
    home_ = home == nullptr ? "" : home;
    ::setenv("HOME", temp_.path().c_str(), 1);
    library_ = temp_.write("store/sharp.so", "code");
    temp_.write("store/bundle.attnlab", "");
    record("0123456789ABCDEF");
  }
  ~InstalledTest() override { ::setenv("HOME", home_.c_str(), 1); }

  void record(const std::string& key) const {
    const nlohmann::json out = {{"id", "acme/sharp"},
                                {"version", "1.0.0"},
                                {"bundle", "aa"},
                                {"key", key},
                                {"library_hash", sha256_text_of_file(library_)}};
    temp_.write("store/record.json", out.dump());
  }
  /// "used" or why not.
  static std::string answer(const std::string& library) {
    try {
      check_installed(library);
      return "used";
    } catch (const Error& error) {
      return error.what();
    }
  }

  testing::TempFolder temp_;
  std::string library_, home_;
};

TEST_F(InstalledTest, AreFoundThroughTheirLinks) {
  const std::string link = temp_ / "link.so";
  fs::create_symlink(library_, link);
  ASSERT_TRUE(installed_from(link));
  EXPECT_EQ(installed_from(link)->bundle, "aa");
  EXPECT_EQ(answer(link), "used");
}

TEST_F(InstalledTest, AreNotUsedOnceAltered) {
  temp_.write("store/sharp.so", "other code");
  EXPECT_THAT(answer(library_), mentions("was altered", "acme/sharp 1.0.0"));
}

TEST_F(InstalledTest, AreNotUsedUnsignedWhereThePolicyRefusesThat) {
  record("");
  EXPECT_EQ(answer(library_), "used");
  temp_.write(".config/attnlab/policy.yaml", "unsigned: refuse\n");
  EXPECT_THAT(answer(library_), HasSubstr("is not signed"));
  record("0123456789ABCDEF");
  EXPECT_EQ(answer(library_), "used");
}

TEST_F(InstalledTest, AreNotUsedWhereThePolicyIsWrong) {
  record("");
  temp_.write(".config/attnlab/policy.yaml", "unsinged: refuse\n");
  EXPECT_THAT(answer(library_), HasSubstr("unknown key 'unsinged'"));
  temp_.write(".config/attnlab/policy.yaml", "unsigned: refuze\n");
  EXPECT_THAT(answer(library_), mentions("policy.yaml:1:11:", "refuse, ask or allow"));
}

TEST_F(InstalledTest, AreNotUsedOnceTheirKeyIsRevoked) {
  const auto known = [](const std::string& revoked) {
    return R"({"keys": [{"id": "AAAA"}, {"id": "0123456789ABCDEF")" + revoked + "}]}";
  };
  temp_.write(".config/attnlab/keys/known.json", known(""));
  EXPECT_EQ(answer(library_), "used");
  temp_.write(".config/attnlab/keys/known.json", known(R"(, "revoked": "2026-11-23")"));
  EXPECT_THAT(answer(library_), HasSubstr("0123456789ABCDEF was revoked on 2026-11-23"));
  record("");
  EXPECT_EQ(answer(library_), "used");
  record("BBBB");
  temp_.write(".config/attnlab/keys/known.json", "{");
  EXPECT_THAT(answer(library_), HasSubstr("known.json: damaged"));
}

TEST_F(InstalledTest, AreNotUsedWhereRevocationsCannotBeRead) {
  temp_.write(".config/attnlab/keys/known.json", R"({"keys": []})");
  fs::permissions(temp_ / ".config/attnlab/keys", fs::perms::none);
  const testing::Unprivileged user(temp_.path());
  if (!user.works()) GTEST_SKIP() << "needs another user than the superuser";
  EXPECT_THAT(answer(library_), mentions("keys/known.json:", "Permission denied"));
}

TEST_F(InstalledTest, AreNotUsedFromTheStoreWithoutTheirRecord) {
  for (const char* share : {".local/share/attnlab", "elsewhere/attnlab"}) {
    const std::string entry = std::string(share) + "/plugins/installed/acme/sharp/1.0.0-0123/";
    const std::string library = temp_.write(entry + "sharp.so", "code");
    EXPECT_THAT(answer(library), HasSubstr("record.json is missing beside it"));
    temp_.write(entry + "record.json", "{}");
    EXPECT_THAT(answer(library), HasSubstr("bundle.attnlab is missing beside it"));
  }
}

TEST_F(InstalledTest, MayBeTriedBeforeTheirRecordIsWritten) {
  const std::string staging = ".local/share/attnlab/plugins/installed/.staging-12/";
  temp_.write(staging + "bundle.attnlab", "");
  EXPECT_EQ(answer(temp_.write(staging + "sharp.so", "code")), "used");
}

TEST_F(InstalledTest, AreGuardedByACryptographicHash) {
  // (The old 64-bit hash of the same file must not do.)
  const nlohmann::json out = {{"id", "acme/sharp"},
                              {"version", "1.0.0"},
                              {"bundle", "aa"},
                              {"key", ""},
                              {"library_hash", hex(fingerprint("code"))}};
  temp_.write("store/record.json", out.dump());
  EXPECT_THAT(answer(library_), HasSubstr("was altered"));
}

TEST_F(InstalledTest, NameADamagedRecord) {
  temp_.write("store/record.json", "{}");
  EXPECT_THAT(answer(library_), HasSubstr("record.json: damaged"));
}

TEST_F(InstalledTest, AreOthersThanLibrariesBesideNothing) {
  const std::string other = temp_.write("plain/other.so", "code");
  EXPECT_FALSE(installed_from(other));
  EXPECT_EQ(answer(other), "used");
}

}  // namespace
}  // namespace attnlab::installed_test
