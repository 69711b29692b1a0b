#include "framework/sharing/hash.h"

#include <sodium.h>

#include "framework/base/error.h"
#include "framework/sharing/errors.h"

namespace attnlab::sharing {
namespace {

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

void start_sodium() {
  if (::sodium_init() < 0) throw Error("libsodium cannot start; install libsodium23 again");
}

std::string sha256(std::string_view bytes) {
  std::string digest(crypto_hash_sha256_BYTES, '\0');
  ::crypto_hash_sha256(reinterpret_cast<unsigned char*>(digest.data()), bytes_of(bytes),
                       bytes.size());
  return to_hex(digest);
}

Blake2b blake2b(std::string_view bytes) {
  Blake2b digest;
  ::crypto_generichash(digest.data(), digest.size(), bytes_of(bytes), bytes.size(), nullptr, 0);
  return digest;
}

std::string to_hex(std::string_view bytes) {
  std::string text(bytes.size() * 2 + 1, '\0');
  ::sodium_bin2hex(text.data(), text.size(), bytes_of(bytes), bytes.size());
  text.pop_back();
  return text;
}

std::string to_base64(std::string_view bytes) {
  constexpr int kVariant = sodium_base64_VARIANT_ORIGINAL;
  std::string text(sodium_base64_ENCODED_LEN(bytes.size(), kVariant), '\0');
  ::sodium_bin2base64(text.data(), text.size(), bytes_of(bytes), bytes.size(), kVariant);
  text.pop_back();
  return text;
}

std::string from_base64(std::string_view text) {
  std::string bytes(text.size() / 4 * 3 + 3, '\0');
  std::size_t size = 0;
  const char* end = nullptr;
  const int result =
      ::sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), text.data(),
                          text.size(), nullptr, &size, &end, sodium_base64_VARIANT_ORIGINAL);
  if (result != 0 || end != text.data() + text.size()) throw BundleError("is not base64");
  bytes.resize(size);
  if (to_base64(bytes) != text) throw BundleError("is not base64 as it should be written");
  return bytes;
}

}  // namespace attnlab::sharing
