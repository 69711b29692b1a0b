// Installing: what is refused.
#include <gmock/gmock.h>

#include "framework/base/sha256.h"
#include "framework/sharing/hash.h"
#include "tests/unit/sharing/install_fixture.h"

namespace attnlab::testing::install_trust_test {
namespace {

using attnlab::testing::mentions;
using sharing::Installed;
using sharing::TrustError;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

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

TEST_F(InstallTest, RefusesAnotherBundleOfAVersionThatIsWrittenOtherwise) {
  install(bundle_of("1.0.0", {"here"}));
  EXPECT_THAT(answer(bundle_of("1.0.0.0", {"here"})),
              mentions("another bundle", "this very version"));
}

TEST_F(InstallTest, RefusesAnotherBundleOfAVersionThatWasRemoved) {
  const std::string own = bundle_of("1.0.0", {"here"}),
                    other = bundle_of("1.0.0", {"here", "other"});
  install(own);
  store().remove(*store().find("sharp"));
  EXPECT_THAT(answer(other), mentions("another bundle", "was installed here"));
  EXPECT_THAT(answer(bundle_of("1.0.0.0", {"here"})), HasSubstr("this very version"));
  EXPECT_EQ(in_use(), "");
  EXPECT_EQ(answer(own), "installed") << "the one that was here comes back";
  store().remove(*store().find("sharp"));
  options_.allow_downgrade = true;
  EXPECT_EQ(answer(other), "installed");
  // Both were let in now; beside the one in use, the other one is another all the same.
  options_.allow_downgrade = false;
  EXPECT_THAT(answer(own), mentions("another bundle", "is installed"));
  store().remove(*store().find("sharp"));
  EXPECT_EQ(answer(own), "installed");
}

TEST_F(InstallTest, RefusesAnotherBundleOfAVersionThatOneWentBackFrom) {
  install(bundle_of("1.0.0", {"here"}));
  install(bundle_of("1.1.0", {"here"}));
  roll_back();
  EXPECT_THAT(answer(bundle_of("1.1.0", {"here", "other"})), HasSubstr("was installed here"));
  EXPECT_EQ(in_use(), "1.0.0");
  EXPECT_EQ(answer(bundle_of("1.1.0", {"here"})), "installed");
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

TEST_F(InstallTest, RefusesAnUnsignedBundleOfALabThatLooksLikeAKnownOne) {
  const Lab acme("acme");
  install(bundle_of("1.0.0", {"here"}, &acme));
  EXPECT_THAT(answer(bundle_of("1.0.0", {"here"}, nullptr, "acrne/other")),
              HasSubstr("lab 'acrne' looks like lab 'acme'"));
  EXPECT_FALSE(store().find("acrne/other"));
  EXPECT_EQ(answer(bundle_of("1.0.0", {"here"}, nullptr, "borealis/other")), "installed");
}

TEST_F(InstallTest, PinsAKeyAndNotesAVersionOnlyOfWhatComesIntoUse) {
  const Lab acme("acme");
  const auto nothing_is_kept = [&] {
    EXPECT_TRUE(keys().keys().empty());
    EXPECT_EQ(keys().highest("acme/sharp"), "");
    EXPECT_EQ(in_use(), "");
  };
  const auto fine = tools_;
  const auto no = [](const auto&...) -> std::string { throw sharing::BundleError("no"); };
  tools_.build = no;
  EXPECT_THAT(answer(bundle_of("1.0.0", {}, &acme)), HasSubstr("step 'build' failed"));
  nothing_is_kept();
  tools_ = fine;
  tools_.test = no;
  EXPECT_THAT(answer(bundle_of("1.0.0", {"here"}, &acme)), HasSubstr("step 'kit' failed"));
  nothing_is_kept();
  tools_ = fine;
  tools_.compare = no;
  EXPECT_THAT(answer(bundle_of("1.0.0", {"here"}, &acme)), HasSubstr("step 'numbers' failed"));
  nothing_is_kept();
  // Another lab of that name, whose bundle is sound, is not kept out by the one that failed.
  tools_ = fine;
  const Lab second("acme");
  EXPECT_EQ(answer(bundle_of("0.9.0", {"here"}, &second)), "installed");
  ASSERT_EQ(keys().keys().size(), 1U);
  EXPECT_EQ(keys().keys()[0].key, second.card.key);
  EXPECT_EQ(keys().highest("acme/sharp"), "0.9.0");
}

TEST_F(InstallTest, NamesTheStepThatVerifies) {
  const Lab acme("acme"), impostor("acme");
  install(bundle_of("1.0.0", {"here"}, &acme));
  const auto failure = [](const std::string& why) {
    return AllOf(StartsWith("x.attnlab: step 'verify' failed: "), HasSubstr(why),
                 EndsWith("; nothing was installed"));
  };
  EXPECT_THAT(answer("nonsense"), failure("not a bundle of attnlab"));
  EXPECT_THAT(answer(bundle_of("1.1.0", {"here"}, &impostor)), failure("HAS CHANGED"));
  EXPECT_THAT(answer(bundle_of("0.9.0", {"here"}, &acme)), failure("1.0.0 was installed here"));
  EXPECT_THAT(answer(bundle_of("0.9.0", {"here"}, nullptr, "other/sharp")), failure("is taken by"));
  options_.expected_sha256 = std::string(64, '0');
  EXPECT_THAT(answer(bundle_of("1.0.0", {"here"}, &acme)), failure("has the hash"));
}

TEST_F(InstallTest, FollowsThePolicyOnUnsignedBundles) {
  for (const auto rule : {sharing::Rule::refuse, sharing::Rule::ask}) {
    options_.policy.unsigned_bundles = rule;
    EXPECT_THAT(answer(bundle_of("1.0.0", {"here"})), HasSubstr("it is not signed"));
  }
  EXPECT_EQ(in_use(), "");
  options_.ask = [](const std::string& question) {
    return question.find("is not signed") != std::string::npos;
  };
  EXPECT_EQ(answer(bundle_of("1.0.0", {"here"})), "installed");
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

TEST_F(InstallTest, PutsNothingBackWhoseKeyWasRevoked) {
  const Lab acme("acme");
  install(bundle_of("1.0.0", {"here"}, &acme));
  install(bundle_of("1.1.0", {"here"}, &acme));
  keys().revoke(acme.card.key.id_text());
  EXPECT_THROW(roll_back(), TrustError);
  EXPECT_THROW(rebuild(), TrustError);
  EXPECT_EQ(in_use(), "1.1.0");
}

TEST_F(InstallTest, PutsNothingBackWhoseLostKeyHasAKeptRevocation) {
  const Lab acme("acme");
  install(bundle_of("1.0.0", {"here"}, &acme));
  install(bundle_of("1.1.0", {"here"}, &acme));
  fs::remove(folder_ / "config/keys/known.json");
  keys().keep(sharing::parse_revocation(write_revocation("acme", acme.key)));
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
  EXPECT_THAT(answer(bytes), mentions("acme/sharp", "expected acme/other"));
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
}  // namespace attnlab::testing::install_trust_test
