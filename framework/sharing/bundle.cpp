#include "framework/sharing/bundle.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "framework/base/files.h"
#include "framework/base/write_all.h"
#include "framework/sharing/hash.h"
#include "framework/sharing/lines.h"
#include "framework/sharing/places.h"

namespace attnlab::sharing {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSealMagic("\x50\x2a\x4d\x18", 4);
constexpr std::size_t kSealHeader = 8;
constexpr std::size_t kLargestSeal = 4096;
constexpr std::string_view kFirstLine = "attnlab bundle 1\n";
constexpr const char* kBundleComment = "signature of an attnlab bundle";

std::string little_endian(std::uint32_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

std::string blake2b_hex(std::string_view bytes) {
  const Blake2b digest = blake2b(bytes);
  return to_hex({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

std::string archive_line(std::string_view archive) {
  return fmt::format("archive {} {}\n", archive.size(), blake2b_hex(archive));
}

std::string trusted_comment(const Contents& contents) {
  return fmt::format("attnlab-bundle id:{} version:{}", contents.id.str(), contents.version);
}

/// The file's two parts. The seal's length stands before it, its own text tells that of the
/// archive: it is looked for from the end.
struct Parts {
  std::string_view archive, seal;
};

Parts split(std::string_view bytes) {
  const std::size_t from = bytes.size() > kLargestSeal ? bytes.size() - kLargestSeal : 0;
  const std::string mark = std::string(kFirstLine);
  const std::size_t text = bytes.rfind(mark);
  if (text == std::string_view::npos || text < from || text < kSealHeader) {
    throw BundleError("is not a bundle of attnlab, or is cut short: it does not end in a seal");
  }
  const std::size_t begin = text - kSealHeader;
  const std::string_view seal = bytes.substr(text);
  const std::string header =
      std::string(kSealMagic) + little_endian(static_cast<std::uint32_t>(seal.size()));
  if (bytes.substr(begin, kSealHeader) != header) {
    throw BundleError("is damaged: its seal is not where it should be");
  }
  return {bytes.substr(0, begin), seal};
}

/// The key and the signature behind the seal's first lines; empty of an unsigned bundle.
std::optional<KeyCard> check_seal(const Parts& parts, Signature& signature) {
  const std::string begin = std::string(kFirstLine) + archive_line(parts.archive);
  if (!parts.seal.starts_with(begin)) {
    throw BundleError("is damaged: its archive is not the one that was sealed");
  }
  const std::string_view rest = parts.seal.substr(begin.size());
  if (rest.empty()) return std::nullopt;
  const std::vector<std::string_view> lines = lines_of(rest);
  if (lines.size() != 10) throw BundleError("is damaged: its seal has lines too many or too few");
  const std::size_t size = static_cast<std::size_t>(lines[6].data() - rest.data());
  KeyCard card = parse_key_card(std::string(rest.substr(0, size)));
  signature = parse_signature(rest.substr(size));
  if (signature.untrusted_comment != kBundleComment) {
    throw BundleError("is damaged: its signature is another's");
  }
  if (!is_signed_by(signature, card.key, parts.archive)) {
    throw BundleError("was altered, or signed by another key: its signature does not fit");
  }
  return card;
}

/// @param more  what a signed bundle's seal holds beside the hash
std::string with_seal(std::string archive, const std::string& more) {
  const std::string seal = std::string(kFirstLine) + archive_line(archive) + more;
  archive += kSealMagic;
  archive += little_endian(static_cast<std::uint32_t>(seal.size()));
  return archive + seal;
}

}  // namespace

std::string Bundle::label() const {
  return fmt::format("bundle {} {}", contents.id.str(), contents.version);
}

const ArchiveFile& Bundle::file(const std::string& path) const {
  for (const ArchiveFile& file : files) {
    if (file.path == path) return file;
  }
  throw BundleError(fmt::format("{} has no file '{}'", label(), path));
}

std::string write_bundle(const Contents& contents, std::vector<ArchiveFile> files,
                         const std::optional<Signer>& signer) {
  start_sodium();
  std::string list = write_contents(contents, files);
  files.push_back({kContentList, std::move(list), false});
  std::string archive = write_archive(std::move(files));
  std::string more;
  if (signer) {
    if (parse_key_card(signer->card).lab != contents.id.lab) {
      throw BundleError(fmt::format("{}: only a key of lab '{}' may sign it", contents.id.str(),
                                    contents.id.lab));
    }
    more = signer->card + signer->key->sign(archive, kBundleComment, trusted_comment(contents));
  }
  return with_seal(std::move(archive), more);
}

std::string sealed(std::string archive) {
  start_sodium();
  return with_seal(std::move(archive), "");
}

Bundle parse_bundle(std::string_view bytes) {
  start_sodium();
  const Parts parts = split(bytes);
  Bundle bundle;
  Signature signature;
  bundle.signer = check_seal(parts, signature);
  std::string list;
  read_archive(parts.archive, [&](ArchiveFile file) {
    if (file.path == kContentList) {
      list = std::move(file.bytes);
    } else {
      bundle.files.push_back(std::move(file));
    }
  });
  if (list.empty()) throw BundleError(fmt::format("has no {}", kContentList));
  bundle.contents = read_contents(list, bundle.files);
  bundle.sha256 = sha256(bytes);
  if (!bundle.signer) return bundle;
  if (signature.trusted_comment != trusted_comment(bundle.contents)) {
    throw BundleError(fmt::format("says that it is {} {}; what was signed says otherwise",
                                  bundle.contents.id.str(), bundle.contents.version));
  }
  if (bundle.signer->lab != bundle.contents.id.lab) {
    throw TrustError(
        fmt::format("{}: REFUSED: signed by a key of lab '{}', which may not sign for {}/",
                    bundle.label(), bundle.signer->lab, bundle.contents.id.lab));
  }
  return bundle;
}

std::string read_bundle_bytes(const std::string& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (!error && static_cast<std::int64_t>(size) > kLargestBundle) {
    throw BundleError(
        fmt::format("{}: is larger than a bundle may be ({} bytes)", path, kLargestBundle));
  }
  return read_text(path);
}

Bundle read_bundle(const std::string& path) {
  try {
    return parse_bundle(read_bundle_bytes(path));
  } catch (const BundleError& damage) {
    throw BundleError(fmt::format("{}: {}", path, damage.what()));
  } catch (const TrustError& refusal) {
    throw TrustError(fmt::format("{}: {}", path, refusal.what()));
  }
}

void write_files(const std::vector<ArchiveFile>& files, const std::string& folder) {
  for (const ArchiveFile& file : files) {
    check_path(file.path);
    const std::string path = folder + "/" + file.path;
    make_folder(fs::path(path).parent_path().string());
    const int descriptor =
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
               file.executable ? 0755 : 0644);
    if (descriptor < 0) {
      throw FileError(fmt::format("{}: cannot write: {}", path, std::strerror(errno)));
    }
    int error = write_all(descriptor, file.bytes);
    if (::close(descriptor) != 0 && error == 0) error = errno;
    if (error != 0) {
      throw FileError(fmt::format("{}: cannot write: {}", path, std::strerror(error)));
    }
  }
}

std::string bundle_name(const Contents& contents) {
  return fmt::format("{}-{}{}", contents.id.name, contents.version, kBundleEnding);
}

}  // namespace attnlab::sharing
