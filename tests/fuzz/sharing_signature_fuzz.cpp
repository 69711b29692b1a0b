// Fuzzes the readers of signatures, keys and revocations, which strangers' files reach first: what
// is read can be shown, and is written again as it was; else a BundleError, or a TrustError for a
// password.
// Code: framework/sharing/key_card.cpp framework/sharing/minisign.cpp
#include "framework/base/foreign_text.h"
#include "framework/sharing/hash.h"
#include "framework/sharing/key_card.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/sharing/made_bundle.h"

namespace attnlab::fuzz {

Target target() {
  const testing::Lab acme("acme", "2030-01-01");
  return {.seeds = {acme.key.sign("message", "who", "when"), acme.text,
                    write_revocation("acme", acme.key), acme.card.key.base64(),
                    acme.key.text("comment", ""), ""},
          .words = {"untrusted comment: ", "trusted comment: ", "RWQ", "RUQ", "=", "\n",
                    " lab:", " expires:never", "attnlab-revocation "}};
}

namespace {

template <class Read>
int read_with(Read&& read) {
  try {
    read();
    return 1;
  } catch (const sharing::BundleError& error) {
    const std::string what = error.what();
    if (printable(what) != what) fail("an error that cannot be shown: " + what);
    return 0;
  }
}

}  // namespace
}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  using namespace attnlab::sharing;  // NOLINT: the one function outside
  start_sodium();
  const std::string text(reinterpret_cast<const char*>(data), size);
  int taken = fuzz::read_with([&] {
    const Signature signature = parse_signature(text);
    if (printable(signature.trusted_comment) != signature.trusted_comment) {
      fuzz::fail("a comment that cannot be shown");
    }
  });
  taken += fuzz::read_with([&] {
    const KeyCard card = parse_key_card(text);
    check_name(card.lab, "the lab");
  });
  taken += fuzz::read_with([&] { parse_revocation(text); });
  taken += fuzz::read_with([&] {
    if (parse_public_key(text).base64() != text) fuzz::fail("a key that is written otherwise");
  });
  // (A password would cost a second an input.)
  taken += fuzz::read_with([&] {
    if (!SecretKey::is_encrypted(text)) SecretKey::parse(text, "");
  });
  return taken > 0 ? 0 : -1;
}
