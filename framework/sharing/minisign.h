// Keys and signatures as minisign writes them (https://jedisct1.github.io/minisign): Ed25519 over
// the BLAKE2b-512 of what is signed ("ED"), and once more over signature and trusted comment. What
// attnlab signs `minisign -V` checks, and the other way round.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "framework/sharing/errors.h"

namespace attnlab::sharing {

using KeyId = std::array<unsigned char, 8>;

/// 16 upper-case hexadecimal digits, as minisign shows a key.
std::string key_text(const KeyId& id);

struct PublicKey {
  KeyId id{};
  std::array<unsigned char, 32> key{};

  /// "RWQ...", 56 characters.
  std::string base64() const;
  std::string id_text() const { return key_text(id); }
  bool operator==(const PublicKey&) const = default;
};

/// @throws BundleError when it is not a public key of minisign.
PublicKey parse_public_key(std::string_view base64);

/// A secret key in memory, wiped when it goes.
class SecretKey {
 public:
  /// A new one, from the system's random numbers.
  static SecretKey make();
  /// Reads a secret-key file's two lines.
  /// @param password  for a key that is kept encrypted
  /// @throws BundleError for a damaged file, TrustError for a wrong or missing password.
  static SecretKey parse(const std::string& text, const std::string& password);
  /// Whether a secret-key file asks for a password.
  static bool is_encrypted(const std::string& text);
  ~SecretKey();
  SecretKey(const SecretKey&) = default;
  SecretKey& operator=(const SecretKey&) = default;

  /// The file's text. @param password  empty: the key stands in it as it is
  std::string text(const std::string& comment, const std::string& password) const;
  const PublicKey& public_key() const { return public_; }
  /// The four lines of a .minisig file.
  std::string sign(std::string_view message, const std::string& untrusted_comment,
                   const std::string& trusted_comment) const;

 private:
  SecretKey() = default;
  std::array<unsigned char, 64> key_{};
  PublicKey public_;
};

/// The parts of a .minisig file.
struct Signature {
  std::string untrusted_comment, trusted_comment;
  KeyId key{};
  std::array<unsigned char, 64> signature{}, global{};
};

/// Strict: four lines, each ended by a line feed, nothing behind.
/// @throws BundleError saying what is wrong. Signatures of the older kind ("Ed") are refused.
Signature parse_signature(std::string_view text);

/// Whether the key signed the message and the trusted comment.
bool is_signed_by(const Signature& signature, const PublicKey& key, std::string_view message);

}  // namespace attnlab::sharing
