// SHA-256 against the examples of FIPS 180-4 and of NIST's long messages.
#include "framework/base/sha256.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "tests/support/temp_folder.h"

namespace attnlab::sha256_test {
namespace {

TEST(Sha256, GivesThePublishedDigests) {
  EXPECT_EQ(sha256_text(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_text("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_text("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_text(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, ReadsFiles) {
  const testing::TempFolder folder;
  EXPECT_EQ(sha256_text_of_file(folder.write("x", "abc")), sha256_text("abc"));
  EXPECT_THROW(sha256_text_of_file(folder / "none"), FileError);
}

}  // namespace
}  // namespace attnlab::sha256_test
