// Indices: what is published is found, and old, foreign and expired ones are refused.
#include "framework/sharing/index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <set>

#include "framework/base/files.h"
#include "framework/sharing/index_list.h"
#include "tests/support/compositions.h"
#include "tests/support/encodings.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/sharing/made_bundle.h"

namespace attnlab::testing::index_test {
namespace {

namespace fs = std::filesystem;
using attnlab::testing::mentions;
using sharing::BundleError;
using ::testing::AllOf;
using ::testing::HasSubstr;

class IndexTest : public ::testing::Test {
 protected:
  IndexTest() {
    fs::create_directories(at());
    add("1.0.0");
  }

  std::string at() const { return folder_ / "public"; }
  void add(const std::string& version) {
    write_file(at() + "/sharp-" + version + ".attnlab", signed_bundle(acme_, version));
  }
  void publish(int days = 90) { make_index(at(), "acme", acme_.key, acme_.text, days); }
  /// "taken" or why not.
  std::string answer() {
    try {
      sharing::Keyring keys(folder_ / "keys");
      sharing::IndexList list(folder_ / "indices");
      list.take(at(), keys, {sharing::Rule::allow, sharing::Rule::allow}, nullptr);
      return "taken";
    } catch (const Error& error) {
      return error.what();
    }
  }
  std::vector<sharing::Found> search(const std::string& word) const {
    std::vector<std::string> expired;
    return sharing::IndexList(folder_ / "indices").search(word, expired);
  }

  const Lab acme_{"acme"};
  TempFolder folder_;
};

TEST_F(IndexTest, FindsWhatWasPublishedNewestFirst) {
  add("1.10.0");
  add("1.9.0");
  publish();
  EXPECT_EQ(answer(), "taken");
  const auto found = search("SHARP");
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].entry.version, "1.10.0");
  EXPECT_EQ(found[1].entry.version, "1.9.0");
  EXPECT_TRUE(search("blunt").empty());
  const sharing::IndexList list(folder_ / "indices");
  EXPECT_EQ(list.newest("sharp", "")->entry.version, "1.10.0");
  EXPECT_EQ(list.newest("acme/sharp", "1.9.0")->entry.version, "1.9.0");
  EXPECT_FALSE(list.newest("shar", ""));
}

TEST_F(IndexTest, ListsAllForNoWordAndRefusesWhatNoEntryHas) {
  add("1.1.0");
  publish();
  EXPECT_EQ(answer(), "taken");
  EXPECT_EQ(search("").size(), 2U);
  for (const char* word : {"\n{", "\n"}) EXPECT_THROW(search(word), ConfigError);
  EXPECT_FALSE(sharing::IndexList(folder_ / "indices").newest("", ""));
}

TEST_F(IndexTest, NamesADamagedCopy) {
  publish();
  EXPECT_EQ(answer(), "taken");
  const std::string copy = sharing::IndexList(folder_ / "indices").all().front().copy;
  write_file(copy, "{\n{\"id\": sharp\n");
  EXPECT_THAT(message_of<BundleError>([&] { search("sharp"); }),
              AllOf(HasSubstr(copy + ": damaged: "), HasSubstr("attnlab index update")));
}

TEST_F(IndexTest, IsNotMadeWhereNobodyCouldUseIt) {
  const std::string odd = at() + "/sharp-1.0.0 (1).attnlab";
  fs::copy(at() + "/sharp-1.0.0.attnlab", odd);
  EXPECT_THAT(message_of<BundleError>([&] { publish(); }), HasSubstr(odd));
  fs::remove(odd);
  const std::string unsigned_one = at() + "/sharp-2.0.0.attnlab";
  write_file(unsigned_one, write_bundle(made_contents("acme/sharp", "2.0.0"), made_files(), {}));
  EXPECT_THAT(message_of<BundleError>([&] { publish(); }),
              HasSubstr(unsigned_one + ": is not signed"));
  EXPECT_FALSE(fs::exists(at() + "/index.json"));
  fs::remove(unsigned_one);
  write_file(at() + "/x.revoked", "nothing");
  EXPECT_THAT(message_of<BundleError>([&] { publish(); }), HasSubstr("x.revoked: "));
}

TEST_F(IndexTest, IsNotMadeOfTwoBundlesThatAreOneToAReader) {
  add("2.0.0");
  auto files = made_files();
  files.front().bytes += "# another one\n";
  write_file(at() + "/Sharp-2.0.0.attnlab",
             write_bundle(made_contents("acme/sharp", "2.0.0"), files, acme_.signer()));
  EXPECT_THAT(message_of<BundleError>([&] { publish(); }),
              AllOf(HasSubstr("Sharp-2.0.0.attnlab"), HasSubstr("sharp-2.0.0.attnlab"),
                    HasSubstr("move one away")));
  fs::remove(at() + "/Sharp-2.0.0.attnlab");
  fs::copy(at() + "/sharp-2.0.0.attnlab", at() + "/the-same.attnlab");
  publish();
  EXPECT_EQ(answer(), "taken");
}

TEST_F(IndexTest, NoticesAnOldOneServedAgain) {
  publish();
  const std::string text = read_text(at() + "/index.json");
  const std::string signature = read_text(at() + "/index.json.minisig");
  publish();
  EXPECT_EQ(answer(), "taken");
  write_file(at() + "/index.json", text);
  write_file(at() + "/index.json.minisig", signature);
  EXPECT_THAT(answer(), mentions("an old index", "number 1, 2 was seen"));
  EXPECT_EQ(search("sharp").size(), 1U);  // the copy stays
}

TEST_F(IndexTest, RemembersNumbersOfALabWhereverItsIndexIs) {
  publish();
  fs::copy(at(), folder_ / "mirror");
  publish();
  EXPECT_EQ(answer(), "taken");
  sharing::IndexList(folder_ / "indices").remove(at());
  fs::remove_all(at());
  fs::rename(folder_ / "mirror", at());  // added anew, it is as old as before
  EXPECT_THAT(answer(), HasSubstr("an old index"));
  EXPECT_TRUE(search("sharp").empty());
}

TEST_F(IndexTest, NoticesAnotherOneOfTheSameNumber) {
  publish();
  fs::copy(at(), folder_ / "fork");
  EXPECT_EQ(answer(), "taken");
  EXPECT_EQ(answer(), "taken");  // the same one again
  fs::remove(at() + "/index.json");
  publish(80);
  EXPECT_THAT(answer(), mentions("another index", "number 1"));
}

TEST_F(IndexTest, IsNumberedAboveWhatWasSeenWhereTheFolderIsNew) {
  EXPECT_EQ(make_index(at(), "acme", acme_.key, acme_.text, 90, 7).serial, 8);
  EXPECT_EQ(make_index(at(), "acme", acme_.key, acme_.text, 90, 7).serial, 9);
}

TEST_F(IndexTest, HasNumbersOfItsOwnWhereTwoMakeItAtOnce) {
  constexpr int kEach = 20;
  const auto make = [this] {
    std::vector<std::int64_t> serials;
    for (int i = 0; i < kEach; ++i) {
      serials.push_back(make_index(at(), "acme", acme_.key, acme_.text, 90).serial);
    }
    return serials;
  };
  std::future<std::vector<std::int64_t>> other = std::async(std::launch::async, make);
  const std::vector<std::int64_t> own = make(), others = other.get();
  std::set<std::int64_t> all(own.begin(), own.end());
  all.insert(others.begin(), others.end());
  EXPECT_EQ(all.size(), 2U * kEach);
  EXPECT_EQ(answer(), "taken") << "its signature fits";
  EXPECT_EQ(search("").size(), 1U);
}

TEST_F(IndexTest, ListsItsOwnLabsBundlesAlone) {
  const Lab mallory("mallory");
  EXPECT_THROW(make_index(at(), "mallory", mallory.key, mallory.text, 90), BundleError);
  // Written all the same, and signed by mallory's own key.
  sharing::Index index;
  index.lab = "mallory";
  index.serial = 1;
  index.created = "2026-11-23T16:00:00Z";
  index.expires = "2999-01-01";
  index.bundles = {{"acme/sharp", "attention", "9.9.9", "made up", "MIT", "sharp-9.9.9.attnlab",
                    std::string(64, 'a'), 1000}};
  const std::string text = write_index(index);
  write_file(at() + "/lab.pub", mallory.text);
  write_file(at() + "/index.json", text);
  write_file(at() + "/index.json.minisig",
             mallory.key.sign(text, "signature of an attnlab index", index_comment(index)));
  EXPECT_THAT(answer(), mentions("acme/sharp", "'mallory'"));
  EXPECT_TRUE(sharing::Keyring(folder_ / "keys").keys().empty());
}

TEST_F(IndexTest, NoticesOneThatIsServedOnAndOn) {
  publish(-1);
  EXPECT_THAT(answer(), HasSubstr("it expired on"));
  EXPECT_TRUE(sharing::Keyring(folder_ / "keys").keys().empty());  // and pins nothing
}

TEST_F(IndexTest, OfTwoProcessesLosesNeithersIndex) {
  publish();
  const Lab other("other");
  const std::string there = folder_ / "there";
  fs::create_directories(there);
  make_index(there, "other", other.key, other.text, 90);
  sharing::Keyring keys(folder_ / "keys");
  const sharing::Policy allow{sharing::Rule::allow, sharing::Rule::allow};
  sharing::IndexList first(folder_ / "indices"), second(folder_ / "indices");
  first.take(at(), keys, allow, nullptr);
  second.take(there, keys, allow, nullptr);
  EXPECT_EQ(sharing::IndexList(folder_ / "indices").all().size(), 2U);
  first.remove(at());
  EXPECT_EQ(sharing::IndexList(folder_ / "indices").all().size(), 1U);
}

TEST_F(IndexTest, NoticesEveryChange) {
  publish();
  const std::string text = read_text(at() + "/index.json");
  for (std::size_t i = 0; i < text.size(); i += 5) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    write_file(at() + "/index.json", changed);
    EXPECT_NE(answer(), "taken") << i;
  }
}

TEST_F(IndexTest, RefusesAnotherLabsSignature) {
  publish();
  EXPECT_EQ(answer(), "taken");
  const Lab impostor("acme");
  make_index(at(), "acme", impostor.key, impostor.text, 90);
  EXPECT_THAT(answer(), HasSubstr("HAS CHANGED"));
  const Lab other("other");
  make_index(at(), "acme", other.key, other.text, 90);
  EXPECT_THAT(answer(), HasSubstr("what was signed"));
}

TEST_F(IndexTest, CarriesRevocations) {
  publish();
  EXPECT_EQ(answer(), "taken");
  write_file(at() + "/old.revoked", marked(write_revocation("acme", acme_.key)));
  publish();
  EXPECT_THAT(answer(), HasSubstr("was revoked on"));
}

TEST_F(IndexTest, CarriesTheRevocationOfAKeyAlsoWhereItsOwnIsNotKnown) {
  publish();
  EXPECT_EQ(answer(), "taken");
  // Whoever revoked a key has only a new one to sign with.
  const Lab again("acme"), other("other");
  write_file(at() + "/old.revoked", write_revocation("acme", acme_.key));
  fs::remove(at() + "/sharp-1.0.0.attnlab");
  make_index(at(), "acme", again.key, again.text, 90);
  EXPECT_THAT(answer(), AllOf(HasSubstr("HAS CHANGED"), HasSubstr("it was revoked on")));
  const std::vector<sharing::KnownKey> keys = sharing::Keyring(folder_ / "keys").keys();
  ASSERT_EQ(keys.size(), 1U) << "the new key is not taken in";
  EXPECT_NE(keys[0].revoked, "");
  sharing::Keyring(folder_ / "keys").add(again.card, "added");
  EXPECT_EQ(answer(), "taken");
}

TEST_F(IndexTest, CarriesNoRevocationThatAnotherKeyMade) {
  publish();
  EXPECT_EQ(answer(), "taken");
  const Lab mallory("mallory");
  std::string text = write_revocation("acme", mallory.key);
  const std::string theirs = mallory.card.key.id_text(), ours = acme_.card.key.id_text();
  text.replace(text.find(theirs), theirs.size(), ours);
  sharing::Index index;
  index.lab = "acme";
  index.serial = 9;
  index.created = "2026-11-23T16:00:00Z";
  index.expires = "2999-01-01";
  index.revocations = {text};
  const std::string listed = write_index(index);
  write_file(at() + "/index.json", listed);
  write_file(at() + "/index.json.minisig",
             acme_.key.sign(listed, "signature of an attnlab index", index_comment(index)));
  EXPECT_NE(answer(), "taken");
  EXPECT_EQ(sharing::Keyring(folder_ / "keys").keys().at(0).revoked, "");
}

TEST_F(IndexTest, RefusesABundleThatIsNotWhole) {
  write_file(at() + "/broken.attnlab", signed_bundle(acme_).substr(5));
  EXPECT_THROW(publish(), BundleError);
  EXPECT_FALSE(fs::exists(at() + "/index.json"));
}

TEST_F(IndexTest, RefusesEntriesThatLeaveItsFolder) {
  publish();
  std::string text = read_text(at() + "/index.json");
  text.replace(text.find("sharp-1.0.0.attnlab"), 19, "../../../etc/passwd");
  EXPECT_THROW(sharing::parse_index(text), BundleError);
}

}  // namespace
}  // namespace attnlab::testing::index_test
