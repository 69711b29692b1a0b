// Keys and signatures: our own, and those of the program minisign.
#include "framework/sharing/minisign.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/base/files.h"
#include "framework/sharing/lines.h"
#include "tests/support/encodings.h"
#include "tests/support/program.h"
#include "tests/support/temp_folder.h"

namespace attnlab::testing::minisign_test {
namespace {

using namespace sharing;  // NOLINT: a test of that room

bool has_minisign() { return run({{"sh", "-c", "command -v minisign"}}).exit_code == 0; }

TEST(Minisign, VerifiesWhatItSigned) {
  const SecretKey key = SecretKey::make();
  const Signature signature = parse_signature(key.sign("message", "who", "when"));
  EXPECT_TRUE(is_signed_by(signature, key.public_key(), "message"));
  EXPECT_FALSE(is_signed_by(signature, key.public_key(), "Message"));
  EXPECT_FALSE(is_signed_by(signature, SecretKey::make().public_key(), "message"));
  Signature other = signature;
  other.trusted_comment = "another day";
  EXPECT_FALSE(is_signed_by(other, key.public_key(), "message"));
}

TEST(Minisign, KeepsASecretKeyWithAndWithoutAPassword) {
  const SecretKey key = SecretKey::make();
  const std::string open = key.text("comment", ""), closed = key.text("comment", "secret");
  EXPECT_EQ(SecretKey::parse(open, "").public_key(), key.public_key());
  EXPECT_EQ(SecretKey::parse(closed, "secret").public_key(), key.public_key());
  EXPECT_THROW(SecretKey::parse(closed, "Secret"), TrustError);
  EXPECT_EQ(SecretKey::parse(marked(open), "").public_key(), key.public_key());
  EXPECT_THROW(SecretKey::parse(utf16(open), ""), BundleError);
  EXPECT_FALSE(SecretKey::is_encrypted(open));
  EXPECT_TRUE(SecretKey::is_encrypted(closed));
  std::string damaged = open;
  damaged[damaged.size() / 2 + 20] = damaged[damaged.size() / 2 + 20] == 'A' ? 'B' : 'A';
  EXPECT_THROW(SecretKey::parse(damaged, ""), Error);
}

TEST(Minisign, RefusesWhatIsNotWrittenItsWay) {
  const std::string text = SecretKey::make().sign("m", "who", "when");
  EXPECT_THROW(parse_signature(""), BundleError);
  EXPECT_THROW(parse_signature(text.substr(0, text.size() - 1)), BundleError);
  EXPECT_THROW(parse_signature(text + "\n"), BundleError);
  EXPECT_THROW(parse_public_key("RWQ"), BundleError);
  EXPECT_THROW(parse_public_key(std::string(56, 'A')), BundleError);
}

TEST(Minisign, IsUnderstoodByTheProgram) {
  if (!has_minisign()) GTEST_SKIP() << "needs the program minisign";
  const TempFolder folder;
  const SecretKey key = SecretKey::make();
  const std::string file = folder.write("file", "some bytes");
  folder.write("file.minisig", key.sign("some bytes", "who", "when"));
  const Ended ended = run({{"minisign", "-V", "-m", file, "-P", key.public_key().base64()}});
  EXPECT_EQ(ended.exit_code, 0) << ended.story();
  EXPECT_THAT(ended.out + ended.err, ::testing::HasSubstr("when"));
}

TEST(Minisign, UnderstandsTheProgram) {
  if (!has_minisign()) GTEST_SKIP() << "needs the program minisign";
  const TempFolder folder;
  const std::string file = folder.write("file", "some bytes");
  const Ended made =
      run({{"minisign", "-G", "-W", "-p", folder / "k.pub", "-s", folder / "k.key"}});
  ASSERT_EQ(made.exit_code, 0) << made.story();
  const Ended ended = run({{"minisign", "-S", "-s", folder / "k.key", "-m", file, "-t", "hello"}});
  ASSERT_EQ(ended.exit_code, 0) << ended.story();
  const std::string text = read_text(folder / "k.pub");
  const PublicKey key = parse_public_key(lines_of(text).at(1));
  const Signature signature = parse_signature(read_text(file + ".minisig"));
  EXPECT_TRUE(is_signed_by(signature, key, "some bytes"));
  EXPECT_EQ(signature.trusted_comment, "hello");
  EXPECT_EQ(SecretKey::parse(read_text(folder / "k.key"), "").public_key(), key);
}

}  // namespace
}  // namespace attnlab::testing::minisign_test
