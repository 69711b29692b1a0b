#include "framework/sharing/minisign.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstring>

#include "framework/base/foreign_text.h"
#include "framework/sharing/hash.h"
#include "framework/sharing/lines.h"

namespace attnlab::sharing {
namespace {

constexpr std::string_view kUntrusted = "untrusted comment: ";
constexpr std::string_view kTrusted = "trusted comment: ";

#pragma pack(push, 1)
struct PublicLayout {
  char algorithm[2];
  unsigned char id[8], key[32];
};
struct SignatureLayout {
  char algorithm[2];
  unsigned char id[8], signature[64];
};
/// What a password encrypts.
struct SecretPart {
  unsigned char id[8], key[64], checksum[32];
};
struct SecretLayout {
  char algorithm[2], derivation[2], checksum_algorithm[2];
  unsigned char salt[32];
  std::uint64_t operations, memory;  // little-endian
  SecretPart part;
};
#pragma pack(pop)

template <class Layout>
Layout layout_of(std::string_view base64, const char* what) {
  const std::string bytes = from_base64(base64);
  if (bytes.size() != sizeof(Layout)) {
    throw BundleError(
        fmt::format("is not a {}: {} bytes, expected {}", what, bytes.size(), sizeof(Layout)));
  }
  Layout layout;
  std::memcpy(&layout, bytes.data(), sizeof layout);
  return layout;
}

template <class Layout>
std::string base64_of(const Layout& layout) {
  return to_base64({reinterpret_cast<const char*>(&layout), sizeof layout});
}

bool is(const char (&letters)[2], std::string_view expected) {
  return std::string_view(letters, 2) == expected;
}

/// Of algorithm, id and key.
std::array<unsigned char, 32> checksum_of(const SecretLayout& layout) {
  std::array<unsigned char, 32> sum;
  crypto_generichash_state state;
  ::crypto_generichash_init(&state, nullptr, 0, sum.size());
  ::crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(layout.algorithm), 2);
  ::crypto_generichash_update(&state, layout.part.id, sizeof layout.part.id);
  ::crypto_generichash_update(&state, layout.part.key, sizeof layout.part.key);
  ::crypto_generichash_final(&state, sum.data(), sum.size());
  return sum;
}

/// Encrypts, or decrypts, the secret part by a stream made of the password.
void mask(SecretLayout& layout, const std::string& password) {
  SecretPart stream;
  const int result = ::crypto_pwhash_scryptsalsa208sha256(
      reinterpret_cast<unsigned char*>(&stream), sizeof stream, password.data(), password.size(),
      layout.salt, layout.operations, layout.memory);
  if (result != 0) throw Error("there is not enough memory for the key's password");
  auto* part = reinterpret_cast<unsigned char*>(&layout.part);
  for (std::size_t i = 0; i < sizeof stream; ++i) {
    part[i] ^= reinterpret_cast<const unsigned char*>(&stream)[i];
  }
  ::sodium_memzero(&stream, sizeof stream);
}

SecretLayout secret_layout(const std::string& text) {
  const std::vector<std::string_view> lines = lines_of(unmarked(text));
  if (lines.size() < 2 || !lines[0].starts_with(kUntrusted)) {
    throw BundleError("is not a secret key of minisign");
  }
  const auto layout = layout_of<SecretLayout>(lines[1], "secret key of minisign");
  const bool plain = std::string_view(layout.derivation, 2) == std::string_view("\0\0", 2);
  if (!is(layout.algorithm, "Ed") || !is(layout.checksum_algorithm, "B2") ||
      (!plain && !is(layout.derivation, "Sc"))) {
    throw BundleError("is a secret key of an unknown kind");
  }
  return layout;
}

std::string_view behind(std::string_view line, std::string_view prefix) {
  if (!line.starts_with(prefix)) {
    throw BundleError(fmt::format("is not a signature: a line must begin with '{}'", prefix));
  }
  return line.substr(prefix.size());
}

}  // namespace

std::string key_text(const KeyId& id) {
  // minisign shows the id as a little-endian number.
  std::string reversed(id.rbegin(), id.rend());
  std::string text = to_hex(reversed);
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string PublicKey::base64() const {
  PublicLayout layout{{'E', 'd'}, {}, {}};
  std::copy(id.begin(), id.end(), layout.id);
  std::copy(key.begin(), key.end(), layout.key);
  return base64_of(layout);
}

PublicKey parse_public_key(std::string_view base64) {
  const auto layout = layout_of<PublicLayout>(base64, "public key of minisign");
  if (!is(layout.algorithm, "Ed")) throw BundleError("is a public key of an unknown kind");
  PublicKey key;
  std::copy(std::begin(layout.id), std::end(layout.id), key.id.begin());
  std::copy(std::begin(layout.key), std::end(layout.key), key.key.begin());
  return key;
}

SecretKey SecretKey::make() {
  start_sodium();
  SecretKey made;
  ::crypto_sign_keypair(made.public_.key.data(), made.key_.data());
  ::randombytes_buf(made.public_.id.data(), made.public_.id.size());
  return made;
}

bool SecretKey::is_encrypted(const std::string& text) {
  return is(secret_layout(text).derivation, "Sc");
}

SecretKey SecretKey::parse(const std::string& text, const std::string& password) {
  start_sodium();
  SecretLayout layout = secret_layout(text);
  const bool encrypted = is(layout.derivation, "Sc");
  if (encrypted) mask(layout, password);
  const auto sum = checksum_of(layout);
  if (encrypted && ::sodium_memcmp(sum.data(), layout.part.checksum, sum.size()) != 0) {
    throw TrustError("the password is wrong, or the key's file is damaged");
  }
  // minisign leaves the checksum of an open key empty; its second half follows from the first.
  std::array<unsigned char, 64> again;
  std::array<unsigned char, 32> unused;
  ::crypto_sign_seed_keypair(unused.data(), again.data(), layout.part.key);
  const bool sound = ::sodium_memcmp(again.data(), layout.part.key, again.size()) == 0;
  ::sodium_memzero(again.data(), again.size());
  if (!sound) throw BundleError("is damaged: its two halves do not belong together");
  SecretKey key;
  std::copy(std::begin(layout.part.key), std::end(layout.part.key), key.key_.begin());
  std::copy(std::begin(layout.part.id), std::end(layout.part.id), key.public_.id.begin());
  ::crypto_sign_ed25519_sk_to_pk(key.public_.key.data(), key.key_.data());
  ::sodium_memzero(&layout, sizeof layout);
  return key;
}

SecretKey::~SecretKey() { ::sodium_memzero(key_.data(), key_.size()); }

std::string SecretKey::text(const std::string& comment, const std::string& password) const {
  SecretLayout layout{};
  std::memcpy(layout.algorithm, "Ed", 2);
  std::memcpy(layout.checksum_algorithm, "B2", 2);
  std::copy(key_.begin(), key_.end(), layout.part.key);
  std::copy(public_.id.begin(), public_.id.end(), layout.part.id);
  const auto sum = checksum_of(layout);
  std::copy(sum.begin(), sum.end(), layout.part.checksum);
  if (!password.empty()) {
    std::memcpy(layout.derivation, "Sc", 2);
    ::randombytes_buf(layout.salt, sizeof layout.salt);
    layout.operations = crypto_pwhash_scryptsalsa208sha256_OPSLIMIT_INTERACTIVE * 4;
    layout.memory = crypto_pwhash_scryptsalsa208sha256_MEMLIMIT_INTERACTIVE * 4;
    mask(layout, password);
  }
  std::string lines = fmt::format("{}{}\n{}\n", kUntrusted, comment, base64_of(layout));
  ::sodium_memzero(&layout, sizeof layout);
  return lines;
}

std::string SecretKey::sign(std::string_view message, const std::string& untrusted_comment,
                            const std::string& trusted_comment) const {
  const Blake2b digest = blake2b(message);
  SignatureLayout layout{{'E', 'D'}, {}, {}};
  std::copy(public_.id.begin(), public_.id.end(), layout.id);
  ::crypto_sign_detached(layout.signature, nullptr, digest.data(), digest.size(), key_.data());
  std::string both(reinterpret_cast<const char*>(layout.signature), sizeof layout.signature);
  both += trusted_comment;
  std::string global(64, '\0');
  ::crypto_sign_detached(reinterpret_cast<unsigned char*>(global.data()), nullptr,
                         reinterpret_cast<const unsigned char*>(both.data()), both.size(),
                         key_.data());
  return fmt::format("{}{}\n{}\n{}{}\n{}\n", kUntrusted, untrusted_comment, base64_of(layout),
                     kTrusted, trusted_comment, to_base64(global));
}

Signature parse_signature(std::string_view text) {
  const std::vector<std::string_view> lines = lines_of(text);
  if (lines.size() != 4 || text.back() != '\n') {
    throw BundleError(fmt::format("is not a signature: {} lines, expected 4", lines.size()));
  }
  Signature parsed;
  parsed.untrusted_comment = behind(lines[0], kUntrusted);
  parsed.trusted_comment = behind(lines[2], kTrusted);
  if (printable(parsed.trusted_comment) != parsed.trusted_comment) {
    throw BundleError("is not a signature: its comment has characters that cannot be shown");
  }
  const auto layout = layout_of<SignatureLayout>(lines[1], "signature");
  if (is(layout.algorithm, "Ed")) {
    throw BundleError("is a signature of minisign's older kind; sign again without -l");
  }
  if (!is(layout.algorithm, "ED")) throw BundleError("is a signature of an unknown kind");
  std::copy(std::begin(layout.id), std::end(layout.id), parsed.key.begin());
  std::copy(std::begin(layout.signature), std::end(layout.signature), parsed.signature.begin());
  const std::string global = from_base64(lines[3]);
  if (global.size() != parsed.global.size())
    throw BundleError("is not a signature: it is cut short");
  std::copy(global.begin(), global.end(), parsed.global.begin());
  return parsed;
}

bool is_signed_by(const Signature& signature, const PublicKey& key, std::string_view message) {
  if (signature.key != key.id) return false;
  const Blake2b digest = blake2b(message);
  if (::crypto_sign_verify_detached(signature.signature.data(), digest.data(), digest.size(),
                                    key.key.data()) != 0) {
    return false;
  }
  std::string both(signature.signature.begin(), signature.signature.end());
  both += signature.trusted_comment;
  return ::crypto_sign_verify_detached(signature.global.data(),
                                       reinterpret_cast<const unsigned char*>(both.data()),
                                       both.size(), key.key.data()) == 0;
}

}  // namespace attnlab::sharing
