// A lab's public key with what the lab says of it: whose it is and until when it holds. A text of
// six lines, the first two of which are a public-key file of minisign:
//
//   untrusted comment: attnlab key of acme
//   RWQ...
//   untrusted comment: signed by the key itself
//   (signature of the first two lines)
//   trusted comment: attnlab-key lab:acme created:2026-11-23 expires:2028-11-22
//   (signature of that)
#pragma once

#include <optional>
#include <string>

#include "framework/sharing/minisign.h"

namespace attnlab::sharing {

inline constexpr const char* kNever = "never";

struct KeyCard {
  std::string lab;
  PublicKey key;
  std::string created;
  std::string expires;  ///< a date, the last day on which it holds; "never"

  /// Whether it holds on a day. @param today  "2026-11-23"
  bool expired(const std::string& today) const { return expires != kNever && expires < today; }
};

/// Signs a lab's key with itself.
std::string write_key_card(const KeyCard& card, const SecretKey& key);

/// Strict: every character of the six lines is checked. @throws BundleError.
KeyCard parse_key_card(const std::string& text);

/// A lab's word that a key must not be trusted any more, signed by that key: five lines, a
/// statement and a signature.
std::string write_revocation(const std::string& lab, const SecretKey& key);

struct Revocation {
  std::string lab, key_id, date;
  Signature signature;
  std::string statement;  ///< what is signed
  std::string text;       ///< as it was published

  /// Whether this key made it.
  bool made_by(const PublicKey& key) const { return is_signed_by(signature, key, statement); }
};

/// @throws BundleError.
Revocation parse_revocation(const std::string& text);

}  // namespace attnlab::sharing
