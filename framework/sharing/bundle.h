// A bundle: one file, NAME-VERSION.attnlab.
//
//   archive    tar in zstd; the first file in it is bundle.json
//   seal       a frame that zstd passes over, so `tar --zstd -xf` reads the file as it is:
//              4 bytes 50 2a 4d 18, 4 bytes length (little-endian), then text:
//
//     attnlab bundle 1
//     archive <bytes> <BLAKE2b-512 in hexadecimal>
//     (of a signed bundle: the six lines of the lab's key, key_card.h, and the four lines of the
//      archive's signature, minisign.h; trusted comment "attnlab-bundle id:LAB/NAME version:V")
//
// Every bit of the file is checked by hash or against the one way to write it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/sharing/content_list.h"
#include "framework/sharing/key_card.h"

namespace attnlab::sharing {

inline constexpr std::string_view kBundleEnding = ".attnlab";
/// A bundle's file may have so many bytes.
inline constexpr std::int64_t kLargestBundle = std::int64_t{1} << 30;

/// A bundle that is whole; whether it is to be trusted is another question (Keyring::admit).
struct Bundle {
  Contents contents;
  std::vector<ArchiveFile> files;  ///< without bundle.json
  std::string sha256;              ///< of the whole file
  std::optional<KeyCard> signer;   ///< whose signature is on it, and is right

  /// "bundle acme/x 1.0.0".
  std::string label() const;
  /// @throws BundleError where it is not there.
  const ArchiveFile& file(const std::string& path) const;
};

/// Who signs a bundle.
struct Signer {
  const SecretKey* key = nullptr;  ///< not owned
  std::string card;                ///< the text of the lab's key
};

/// The bytes of a bundle. @throws BundleError, e.g. for a key of another lab than the id's.
std::string write_bundle(const Contents& contents, std::vector<ArchiveFile> files,
                         const std::optional<Signer>& signer);

/// An archive with its seal, unsigned.
std::string sealed(std::string archive);

/// @throws BundleError where anything in it is not as it should be.
Bundle parse_bundle(std::string_view bytes);

/// Reads a bundle's file; messages begin with its path.
Bundle read_bundle(const std::string& path);

/// A regular file of a bundle's size. @throws FileError, BundleError naming the file.
std::string read_bundle_bytes(const std::string& path);

/// Writes files below a folder that is new and empty. @throws FileError.
void write_files(const std::vector<ArchiveFile>& files, const std::string& folder);

/// "learned_temperature-0.1.0.attnlab".
std::string bundle_name(const Contents& contents);

}  // namespace attnlab::sharing
