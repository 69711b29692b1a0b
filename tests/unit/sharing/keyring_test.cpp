// Which keys are trusted, and why not.
#include "framework/sharing/keyring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "framework/base/files.h"
#include "framework/sharing/names.h"
#include "tests/support/encodings.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/sharing/made_bundle.h"

namespace attnlab::testing::keyring_test {
namespace {

namespace fs = std::filesystem;
using namespace sharing;  // NOLINT: a test of that room
using attnlab::testing::mentions;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

const Policy kAllow{sharing::Rule::allow, sharing::Rule::allow};

class KeyringTest : public ::testing::Test {
 protected:
  Keyring ring() const { return Keyring(folder_ / "keys"); }
  /// "admitted" or why not.
  std::string answer(const KeyCard& card, const Policy& policy = kAllow,
                     const Ask& ask = nullptr) const {
    try {
      ring().admit(card, "bundle x", policy, ask);
      return "admitted";
    } catch (const TrustError& error) {
      return error.what();
    }
  }

  TempFolder folder_;
};

TEST_F(KeyringTest, PinsALabsFirstKeyAndRefusesAnotherLoudly) {
  const Lab acme("acme"), impostor("acme");
  EXPECT_EQ(answer(acme.card), "admitted");
  EXPECT_EQ(answer(acme.card), "admitted");
  EXPECT_THAT(answer(impostor.card), HasSubstr("KEY OF LAB 'acme' HAS CHANGED"));
  EXPECT_EQ(ring().keys().size(), 1U);
}

TEST_F(KeyringTest, AsksBeforeTheFirstUseWhereThePolicySaysSo) {
  const Lab acme("acme");
  const Policy asking;
  EXPECT_THAT(answer(acme.card, asking), HasSubstr("is not known here"));
  EXPECT_THAT(answer(acme.card, asking, [](const auto&) { return false; }),
              HasSubstr("is not known here"));
  EXPECT_THAT(answer(acme.card, {sharing::Rule::allow, sharing::Rule::refuse},
                     [](const auto&) { return true; }),
              HasSubstr("is not known here"));
  EXPECT_TRUE(ring().keys().empty());
  EXPECT_EQ(answer(acme.card, asking, [](const auto&) { return true; }), "admitted");
  EXPECT_EQ(answer(acme.card, asking), "admitted");
}

TEST_F(KeyringTest, TakesASecondKeyByAPersonsWord) {
  const Lab acme("acme"), later("acme");
  EXPECT_EQ(answer(acme.card), "admitted");
  ring().add(later.card, "added");
  EXPECT_EQ(answer(later.card), "admitted");
  EXPECT_EQ(answer(acme.card), "admitted");
}

TEST_F(KeyringTest, RefusesRevokedAndExpiredKeys) {
  const Lab acme("acme"), old("old", "2026-01-31");
  EXPECT_EQ(answer(acme.card), "admitted");
  ring().revoke(acme.card.key.id_text());
  EXPECT_THAT(answer(acme.card), HasSubstr("was revoked on"));
  EXPECT_THAT(answer(old.card), HasSubstr("expired on 2026-01-31"));
  EXPECT_THROW(ring().add(old.card, "added"), TrustError);
  EXPECT_THROW(ring().add(acme.card, "added"), TrustError);
}

TEST_F(KeyringTest, TakesALabsOwnRevocationAndNoOthers) {
  const Lab acme("acme"), mallory("mallory");
  EXPECT_EQ(answer(acme.card), "admitted");
  EXPECT_EQ(answer(mallory.card), "admitted");
  // Signed by mallory's key, with acme's name and number in the statement.
  std::string forged = write_revocation("acme", mallory.key);
  EXPECT_FALSE(ring().take(parse_revocation(forged)));  // mallory's key is none of acme's
  EXPECT_EQ(answer(acme.card), "admitted");
  EXPECT_TRUE(ring().take(parse_revocation(write_revocation("acme", acme.key))));
  EXPECT_THAT(answer(acme.card), HasSubstr("was revoked on"));
  EXPECT_FALSE(ring().take(parse_revocation(write_revocation("acme", acme.key))));
}

TEST_F(KeyringTest, KeepsTheRevocationOfAKeyThatItMeetsLater) {
  const Lab acme("acme"), other("other");
  const Revocation revocation = parse_revocation(write_revocation("acme", acme.key));
  EXPECT_FALSE(ring().take(revocation));
  ring().keep(revocation);
  ring().keep(revocation);
  EXPECT_EQ(answer(other.card), "admitted");
  EXPECT_THAT(answer(acme.card), HasSubstr("was revoked on"));
  EXPECT_THROW(ring().add(acme.card, "added"), TrustError);
  EXPECT_EQ(answer(Lab("acme").card), "admitted") << "another key of the lab";
}

TEST_F(KeyringTest, RevokesTheLostKeyOfWhatIsInstalled) {
  const Lab acme("acme"), other("acme");
  const Revocation revocation = parse_revocation(write_revocation("acme", acme.key));
  EXPECT_EQ(ring().kept_revocation(acme.card), "");
  EXPECT_FALSE(ring().take_of_installed(revocation, other.card)) << "another key signed that";
  EXPECT_THAT(ring().keys(), IsEmpty());
  ring().keep(revocation);
  EXPECT_EQ(ring().kept_revocation(acme.card), revocation.date);
  EXPECT_EQ(ring().kept_revocation(other.card), "");
  EXPECT_TRUE(ring().take_of_installed(revocation, acme.card));
  ASSERT_EQ(ring().keys_of("acme").size(), 1U);
  EXPECT_EQ(ring().keys_of("acme").front().revoked, revocation.date);
  EXPECT_THAT(answer(acme.card), HasSubstr("was revoked on"));
}

TEST_F(KeyringTest, RefusesNamesThatLookLikeAKnownLabs) {
  EXPECT_EQ(answer(Lab("acme_lab").card), "admitted");
  EXPECT_THAT(answer(Lab("acrne_lab").card), HasSubstr("looks like lab 'acme_lab'"));
  EXPECT_THAT(answer(Lab("acme-lab").card), HasSubstr("looks like"));
  EXPECT_THAT(answer(Lab("acme_1ab").card), HasSubstr("looks like"));
  EXPECT_THAT(answer(Lab("acme---lab").card), HasSubstr("looks like"));
  EXPECT_THAT(answer(Lab("attn_lab").card), HasSubstr("attnlab itself"));
  EXPECT_EQ(answer(Lab("other").card), "admitted");
}

TEST_F(KeyringTest, KeepsSecretKeysFromOthers) {
  Keyring keys = ring();
  const KeyCard card = keys.make("acme", kNever, "");
  EXPECT_THROW(keys.make("acme", kNever, ""), ConfigError);
  struct stat status {};
  ASSERT_EQ(::stat((folder_ / "keys/acme.key").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  EXPECT_EQ(ring().secret("acme", "").public_key(), card.key);
  EXPECT_EQ(parse_key_card(ring().own_card("acme")).key, card.key);
  EXPECT_EQ(answer(card), "admitted");
  ring().revoke(card.key.id_text());
  EXPECT_THROW(ring().secret("acme", ""), TrustError);
}

TEST_F(KeyringTest, PublishesItsKeyWithoutAnEditorsByteOrderMark) {
  const KeyCard card = ring().make("acme", kNever, "");
  const std::string text = ring().own_card("acme");
  folder_.write("keys/acme.pub", marked(text));
  EXPECT_EQ(ring().own_card("acme"), text);
  EXPECT_EQ(ring().own_key_id("acme"), card.key.id_text());
  folder_.write("keys/acme.pub", utf16(text));
  EXPECT_THAT([&] { ring().own_key_id("acme"); }, ::testing::ThrowsMessage<BundleError>(mentions(
                                                      "acme.pub:", "UTF-16", "convert the file")));
}

TEST_F(KeyringTest, MakesAnotherKeyOnceTheOwnOneHasExpired) {
  const KeyCard old = ring().make("acme", "2026-01-31", "");
  EXPECT_THROW(ring().secret("acme", ""), TrustError);
  // It can still be revoked: whoever has it could sign.
  EXPECT_EQ(ring().secret_to_revoke("acme", "").public_key(), old.key);
  const KeyCard card = ring().make("acme", kNever, "");
  EXPECT_NE(card.key, old.key);
  EXPECT_EQ(ring().secret("acme", "").public_key(), card.key);
  EXPECT_TRUE(fs::exists(folder_ / ("keys/acme-" + old.key.id_text() + ".key")));
  ring().revoke(card.key.id_text());
  EXPECT_NE(ring().make("acme", kNever, "").key, card.key);
}

TEST_F(KeyringTest, GoesOnWhereAKillLeftHalfAKey) {
  const KeyCard first = ring().make("acme", kNever, "");
  // Killed before the secret key was there.
  fs::remove(folder_ / "keys/acme.key");
  folder_.write("keys/acme.key.new", "half");
  const KeyCard second = ring().make("acme", kNever, "");
  EXPECT_EQ(ring().secret("acme", "").public_key(), second.key);
  EXPECT_FALSE(fs::exists(folder_ / "keys/acme.key.new"));
  // Killed before the record was written.
  fs::remove(folder_ / "keys/known.json");
  EXPECT_THROW(ring().make("acme", kNever, ""), ConfigError);
  ASSERT_EQ(ring().keys().size(), 1U);
  EXPECT_EQ(ring().keys()[0].key, second.key);
}

TEST_F(KeyringTest, TakesALaterLastDayOfAKnownKey) {
  const Lab acme("acme", "2998-01-01");
  ring().add(acme.card, "added");
  KeyCard later = acme.card;
  later.expires = "2999-01-01";
  ring().add(later, "added");
  EXPECT_EQ(ring().keys()[0].expires, "2999-01-01");
  ring().add(acme.card, "added");  // an older card takes nothing back
  EXPECT_EQ(ring().keys()[0].expires, "2999-01-01");
  later.expires = kNever;
  ring().add(later, "added");
  EXPECT_EQ(ring().keys()[0].expires, kNever);
  EXPECT_EQ(ring().keys().size(), 1U);
}

TEST_F(KeyringTest, RefusesAnotherKeyOfAKnownNumber) {
  const Lab acme("acme");
  EXPECT_EQ(answer(acme.card), "admitted");
  Lab mallory("mallory");
  mallory.card.key.id = acme.card.key.id;  // whoever makes a key chooses its number
  EXPECT_THAT(answer(mallory.card), mentions("another key", "'acme'"));
  EXPECT_THROW(ring().add(mallory.card, "added"), TrustError);
  mallory.card.lab = "acme";
  EXPECT_THROW(ring().add(mallory.card, "added"), TrustError);
  EXPECT_EQ(ring().keys().size(), 1U);
}

TEST_F(KeyringTest, LeavesAttnlabsOwnNameToAttnlab) {
  for (const char* lab : {"attnlab", "attn1ab", "attniab", "attnla8"}) {
    EXPECT_THAT(answer(Lab(lab).card), HasSubstr("attnlab itself")) << lab;
  }
  EXPECT_THROW(ring().add(Lab("attnlab").card, "added"), TrustError);
  EXPECT_THROW(ring().make("attnlab", kNever, ""), TrustError);
}

TEST_F(KeyringTest, RemembersALabsNewestIndex) {
  ring().note_index({"acme", 3, "a"}, "index x");
  EXPECT_EQ(ring().seen_index("acme"), 3);
  EXPECT_EQ(ring().seen_index("other"), 0);
  ring().note_index({"acme", 3, "a"}, "index x");
  EXPECT_THROW(ring().note_index({"acme", 3, "b"}, "index x"), TrustError);
  EXPECT_THROW(ring().check_index_is_new({"acme", 2, "a"}, "index x"), TrustError);
  ring().note_index({"acme", 4, "b"}, "index x");
  EXPECT_EQ(ring().seen_index("acme"), 4);
}

TEST_F(KeyringTest, NamesADamagedRecord) {
  EXPECT_EQ(answer(Lab("acme").card), "admitted");
  folder_.write("keys/known.json", "{\"keys\":[{}]}");
  EXPECT_THROW(ring(), BundleError);
}

TEST_F(KeyringTest, RemembersTheHighestVersion) {
  ring().note_installation({{"acme", "x"}, "1.10.0", "a"}, {}, nullptr);
  ring().note_installation({{"acme", "x"}, "1.9.0", "b"}, {}, nullptr);
  EXPECT_EQ(ring().highest("acme/x"), "1.10.0");
  EXPECT_EQ(ring().highest("acme/y"), "");
}

TEST_F(KeyringTest, RemembersTheBundlesOfEachVersion) {
  const Id x{"acme", "x"};
  for (const auto& [version, sha256] : {std::pair{"1.0.0", "a"},
                                        {"1.1.0", "b"},
                                        {"1.0.0", "c"},
                                        {"1.0.0", "a"},
                                        {"1.0.0.0", "d"}}) {
    ring().note_installation({x, version, sha256}, {}, nullptr);
  }
  EXPECT_THAT(ring().bundles_of("acme/x", "1.0.0"), UnorderedElementsAre("a", "c", "d"));
  EXPECT_THAT(ring().bundles_of("acme/x", "1.1.0"), UnorderedElementsAre("b"));
  EXPECT_THAT(ring().bundles_of("acme/x", "1.2.0"), IsEmpty());
  EXPECT_THAT(ring().bundles_of("acme/y", "1.0.0"), IsEmpty());
}

TEST_F(KeyringTest, ReadsARecordOfBeforeBundlesWereNoted) {
  folder_.write("keys/known.json", R"({"keys": [], "versions": {"acme/x": "1.0.0"}})");
  EXPECT_EQ(ring().highest("acme/x"), "1.0.0");
  EXPECT_THAT(ring().bundles_of("acme/x", "1.0.0"), IsEmpty());
}

TEST_F(KeyringTest, IsAsItWasWhereTheInstallationFails) {
  const Lab acme("acme"), other("other");
  const auto fail = [] { throw FileError("no room"); };
  Keyring keys = ring();
  EXPECT_THROW(keys.note_installation({{"acme", "x"}, "1.0.0", "a"}, acme.card, fail), FileError);
  EXPECT_FALSE(fs::exists(folder_ / "keys/known.json"));
  EXPECT_TRUE(keys.keys().empty());
  keys.note_installation({{"acme", "x"}, "1.0.0", "a"}, acme.card, nullptr);
  EXPECT_THROW(keys.note_installation({{"acme", "x"}, "1.1.0", "b"}, acme.card, fail), FileError);
  EXPECT_THROW(keys.note_installation({{"other", "y"}, "1.0.0", "c"}, other.card, fail), FileError);
  for (const Keyring& one : {keys, ring()}) {
    EXPECT_EQ(one.highest("acme/x"), "1.0.0");
    EXPECT_THAT(one.bundles_of("acme/x", "1.1.0"), IsEmpty());
    ASSERT_EQ(one.keys().size(), 1U);
    EXPECT_EQ(one.keys()[0].lab, "acme");
  }
}

TEST_F(KeyringTest, NotesTheInstallationBeforeItIsDone) {
  ring().note_installation({{"acme", "x"}, "1.0.0", "a"}, {},
                           [&] { EXPECT_EQ(ring().highest("acme/x"), "1.0.0"); });
}

TEST_F(KeyringTest, PinsNoSecondKeyOfALabThatWasMetMeanwhile) {
  const Lab acme("acme"), impostor("acme");
  Keyring first = ring(), second = ring();
  first.vet(acme.card, "bundle x", kAllow, nullptr);
  second.admit(impostor.card, "bundle y", kAllow, nullptr);
  bool done = false;
  EXPECT_THROW(
      first.note_installation({{"acme", "x"}, "1.0.0", "a"}, acme.card, [&] { done = true; }),
      TrustError);
  EXPECT_FALSE(done);
  EXPECT_EQ(ring().keys().size(), 1U);
  EXPECT_EQ(ring().highest("acme/x"), "");
}

TEST(KeyCard, IsRefusedWithAnyBitFlipped) {
  const std::string text = Lab("acme", "2030-01-01").text;
  EXPECT_EQ(parse_key_card(text).lab, "acme");
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = text;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      EXPECT_THROW(parse_key_card(changed), BundleError) << i;
    }
  }
}

TEST(Names, AreOfOneAlphabet) {
  EXPECT_EQ(parse_id("acme/x_1").str(), "acme/x_1");
  for (const char* id : {"acme", "/x", "acme/", "Acme/x", "acme/\xd0\xb0", "acme/x/y", "acme/..",
                         "acme/x y", "1acme/x", "acme/x\n"}) {
    EXPECT_THROW(parse_id(id), BundleError) << id;
  }
}

TEST(Versions, AreComparedAsNumbers) {
  EXPECT_LT(compare_versions("1.9.0", "1.10.0"), 0);
  EXPECT_EQ(compare_versions("1.0", "1.0.0"), 0);
  EXPECT_LT(compare_versions("1.0.0-beta1", "1.0.0"), 0);
  EXPECT_GT(compare_versions("2", "1.99"), 0);
  for (const char* version : {"", "a", "1.", ".1", "1..2", "1.0-", "1.0 ", "-1", "1.0-B", "v1"}) {
    EXPECT_THROW(check_version(version), BundleError) << version;
  }
}

TEST(Policy, IsReadFromAFile) {
  const TempFolder folder;
  EXPECT_EQ(read_policy(folder / "none").unsigned_bundles, sharing::Rule::ask);
  const std::string path = folder.write("policy.yaml", "unsigned: refuse\nfirst_use: allow\n");
  EXPECT_EQ(read_policy(path).unsigned_bundles, sharing::Rule::refuse);
  EXPECT_EQ(read_policy(path).first_use, sharing::Rule::allow);
  folder.write("policy.yaml", "unsigned: perhaps\n");
  EXPECT_THROW(read_policy(path), ConfigError);
  folder.write("policy.yaml", "unsinged: refuse\n");
  EXPECT_THROW(read_policy(path), ConfigError);
}

}  // namespace
}  // namespace attnlab::testing::keyring_test
