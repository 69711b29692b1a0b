// Bundles: deterministic, whole, and with every bit of the file checked.
#include "framework/sharing/bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/base/random.h"
#include "framework/sharing/hash.h"
#include "tests/support/message_of.h"
#include "tests/support/program.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/sharing/made_bundle.h"

namespace attnlab::testing::bundle_test {
namespace {

using attnlab::testing::mentions;
using sharing::Bundle;
using sharing::BundleError;
using sharing::parse_bundle;
using ::testing::HasSubstr;

/// "taken" or why not.
std::string answer_to(const std::string& bytes) {
  try {
    parse_bundle(bytes);
    return "taken";
  } catch (const BundleError& error) {
    return error.what();
  } catch (const sharing::TrustError& error) {
    return error.what();
  }
}

/// A thousand of a file's bits, or all of them where there are fewer.
std::size_t unnoticed_flips(const std::string& bytes) {
  Random random(1);
  std::size_t unnoticed = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string changed = bytes;
    char& byte =
        changed[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(bytes.size())))];
    byte = static_cast<char>(byte ^ (1 << random.below(8)));
    if (answer_to(changed) == "taken") ++unnoticed;
  }
  return unnoticed;
}

TEST(Bundle, GivesBackWhatWasPutIn) {
  const Lab acme("acme");
  const Bundle bundle = parse_bundle(signed_bundle(acme));
  EXPECT_EQ(bundle.contents.id.str(), "acme/sharp");
  EXPECT_EQ(bundle.contents.version, "1.0.0");
  EXPECT_EQ(bundle.file("source/sharp.cpp").bytes, "int sharp = 1;\n");
  EXPECT_TRUE(bundle.file("source/check.sh").executable);
  EXPECT_FALSE(bundle.file("source/sharp.cpp").executable);
  ASSERT_TRUE(bundle.signer);
  EXPECT_EQ(bundle.signer->lab, "acme");
  EXPECT_EQ(bundle.signer->key, acme.card.key);
}

TEST(Bundle, IsTheSameBytesEachTime) {
  const Lab acme("acme");
  EXPECT_EQ(sharing::sha256(signed_bundle(acme)), sharing::sha256(signed_bundle(acme)));
}

TEST(Bundle, NoticesAThousandFlippedBits) {
  EXPECT_EQ(unnoticed_flips(signed_bundle(Lab("acme"))), 0U);
  EXPECT_EQ(unnoticed_flips(write_bundle(made_contents(), made_files(), {})), 0U);
}

TEST(Bundle, NoticesEveryFlippedBitOfItsSeal) {
  const std::string bytes = signed_bundle(Lab("acme"));
  const std::size_t seal = bytes.rfind("attnlab bundle 1") - 8;
  for (std::size_t i = seal; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      EXPECT_NE(answer_to(changed), "taken") << "byte " << i << ", bit " << bit;
    }
  }
}

TEST(Bundle, NoticesWhatIsMissingOrAdded) {
  const std::string bytes = signed_bundle(Lab("acme"));
  for (std::size_t size = 0; size < bytes.size(); size += 7) {
    EXPECT_NE(answer_to(bytes.substr(0, size)), "taken") << size;
  }
  EXPECT_NE(answer_to(bytes + "x"), "taken");
  EXPECT_NE(answer_to(bytes + bytes), "taken");
  EXPECT_NE(answer_to("x" + bytes), "taken");
}

TEST(Bundle, OfAnotherLabCannotBeSigned) {
  const Lab mallory("mallory");
  EXPECT_THROW(write_bundle(made_contents("acme/sharp"), made_files(), mallory.signer()),
               BundleError);
}

TEST(Bundle, SignedByAnotherLabsKeyIsRefused) {
  // Written all the same: mallory's own seal, sound in itself, on a bundle of acme.
  const Lab mallory("mallory");
  const sharing::Contents contents = made_contents("acme/sharp");
  std::vector<sharing::ArchiveFile> files = made_files();
  files.push_back({"bundle.json", write_contents(contents, files)});
  const std::string archive = sharing::write_archive(files);
  const auto with_comment = [&](const std::string& trusted) {
    std::string bytes = sharing::sealed(archive) + mallory.text +
                        mallory.key.sign(archive, "signature of an attnlab bundle", trusted);
    const std::size_t size = bytes.size() - archive.size() - 8;
    for (std::size_t i = 0; i < 4; ++i) {
      bytes[archive.size() + 4 + i] = static_cast<char>(size >> (8 * i) & 0xff);
    }
    return answer_to(bytes);
  };
  EXPECT_THAT(with_comment("attnlab-bundle id:acme/sharp version:1.0.0"),
              mentions("'mallory'", "may not sign for acme/"));
  EXPECT_THAT(with_comment("attnlab-bundle id:mallory/sharp version:1.0.0"),
              HasSubstr("what was signed says otherwise"));
}

TEST(Bundle, RefusesASealMovedFromAnother) {
  const Lab acme("acme");
  const std::string first = signed_bundle(acme, "1.0.0"), second = signed_bundle(acme, "2.0.0");
  const auto seal_of = [](const std::string& bytes) { return bytes.rfind("attnlab bundle 1") - 8; };
  EXPECT_THAT(answer_to(first.substr(0, seal_of(first)) + second.substr(seal_of(second))),
              HasSubstr("is damaged"));
}

TEST(Bundle, WithoutItsSignatureIsAnUnsignedOne) {
  // Whoever cuts the signature off makes a bundle that the policy on unsigned ones decides on.
  const std::string cut = write_bundle(made_contents(), made_files(), {});
  EXPECT_FALSE(parse_bundle(cut).signer);
}

TEST(Bundle, RefusesAListThatDisagreesWithItsFiles) {
  std::vector<sharing::ArchiveFile> files = made_files();
  const std::string list = write_contents(made_contents(), files);
  EXPECT_NO_THROW(sharing::read_contents(list, sorted_files(files)));
  files[1].bytes[0] = 'I';
  EXPECT_THROW(sharing::read_contents(list, sorted_files(files)), BundleError);
  files = made_files();
  files.push_back({"source/zz", "added"});
  EXPECT_THROW(sharing::read_contents(list, sorted_files(files)), BundleError);
  files.resize(2);
  EXPECT_THROW(sharing::read_contents(list, sorted_files(files)), BundleError);
}

TEST(Bundle, IsReadByTarAndZstd) {
  const TempFolder folder;
  const std::string path = folder.write("x.attnlab", signed_bundle(Lab("acme")));
  const Ended ended =
      run({{"sh", "-c",
            "command -v zstd >/dev/null || exit 77; zstd -dc " + path + " | tar -tf - | wc -l"}});
  if (ended.exit_code == 77) GTEST_SKIP() << "needs the program zstd";
  EXPECT_EQ(ended.out, "4\n") << ended.story();
}

}  // namespace
}  // namespace attnlab::testing::bundle_test
