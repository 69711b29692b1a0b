// Fuzzes the reader of bundles: archive, content list, seal. Whatever the bytes, the answer is a
// bundle whose files stay below a folder, where they are as the archive has them, or a BundleError
// or TrustError that can be shown.
// Code: framework/sharing/archive.cpp framework/sharing/bundle.cpp
// Code: framework/sharing/content_list.cpp
#include <algorithm>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/sharing/bundle.h"
#include "tests/fuzz/files_in_memory.h"
#include "tests/unit/sharing/made_bundle.h"

namespace attnlab::fuzz {
namespace {

using sharing::ArchiveFile;

constexpr std::size_t kBlock = 512;  // of tar

/// Digits of octal, as tar writes them: to the end of the field, which a zero ends.
std::string octal(std::size_t value, std::size_t digits) {
  std::string text(digits, '0');
  for (std::size_t i = digits; i > 0; --i, value /= 8) {
    text[i - 1] = static_cast<char>('0' + value % 8);
  }
  return text;
}

/// Whether a block is a header: those have this word in one place.
bool is_header(const std::string& tar, std::size_t at) {
  return at + kBlock <= tar.size() && tar.compare(at + 257, 5, "ustar") == 0;
}

/// Sets the sum of a header, without which it is not a header to a reader.
void sum_header(std::string& tar, std::size_t at) {
  constexpr std::size_t kSum = 148;
  tar.replace(at + kSum, 8, 8, ' ');
  std::size_t sum = 0;
  for (std::size_t i = at; i < at + kBlock; ++i) sum += static_cast<unsigned char>(tar[i]);
  tar.replace(at + kSum, 7, octal(sum, 6) + '\0');
}

/// What zstd would only pack, as readers take both.
std::string plain_tar(const std::vector<ArchiveFile>& files) {
  std::string tar;
  for (const ArchiveFile& file : files) {
    const std::size_t at = tar.size();
    tar.append(kBlock, '\0');
    const auto set = [&](std::size_t field, const std::string& text) {
      tar.replace(at + field, text.size(), text);
    };
    set(0, file.path);
    set(100, file.executable ? "0000755" : "0000644");
    set(108, "0000000");
    set(116, "0000000");
    set(124, octal(file.bytes.size(), 11));
    set(136, "00000000000");
    set(156, "0");
    set(257, "ustar");
    set(263, "00");
    sum_header(tar, at);
    tar += file.bytes;
    tar.append((kBlock - file.bytes.size() % kBlock) % kBlock, '\0');
  }
  return tar + std::string(2 * kBlock, '\0');
}

/// Without its seal.
std::string archive_in(const std::string& input) {
  const std::size_t text = input.rfind("attnlab bundle 1\n");
  return text == std::string::npos || text < 8 ? input : input.substr(0, text - 8);
}

/// With the sums of an archive that is not packed, and with the archive's own hash in the seal, so
/// that changes reach the archive's paths.
void seal_again(std::string& input) {
  if (input.find("attnlab bundle 1\n") == std::string::npos) return;
  std::string archive = archive_in(input);
  for (std::size_t at = 0; at < archive.size(); at += kBlock) {
    if (is_header(archive, at)) sum_header(archive, at);
  }
  try {
    const std::string whole = sharing::sealed(archive);
    input = whole;
  } catch (const Error&) {
    // left as it is
  }
}

std::string unsigned_bundle(const std::string& version) {
  return write_bundle(testing::made_contents("acme/sharp", version), testing::made_files(), {});
}

/// The files of a bundle, its content list among them.
std::vector<ArchiveFile> files_of(const std::string& bundle) {
  std::vector<ArchiveFile> files;
  sharing::read_archive(archive_in(bundle),
                        [&](ArchiveFile file) { files.push_back(std::move(file)); });
  return files;
}

/// Seeds of each kind that an archive must not hold, and paths that it must not have.
std::vector<std::string> foreign_tars(const std::vector<ArchiveFile>& files) {
  std::vector<std::string> all;
  for (const char kind : {'1', '2', '3', '5', '6', 'x', 'L', 'S'}) {
    std::string tar = plain_tar(files);
    tar[156] = kind;
    tar.replace(157, 10, "../../away");  // where links lead
    all.push_back(sharing::sealed(tar));
    seal_again(all.back());
  }
  for (const char* path : {"../away", "/dev/shm/away", "a/../../away", "A", "a//b"}) {
    std::vector<ArchiveFile> changed = files;
    changed.front().path = path;
    all.push_back(sharing::sealed(plain_tar(changed)));
  }
  return all;
}

void check_unpacked(const std::vector<ArchiveFile>& files) {
  static const MemoryFolder folder;
  const std::string place = folder.path() + "/a/b/c";  // so deep that some "../" are noticed
  std::filesystem::remove_all(folder.path() + "/a");
  std::filesystem::create_directories(place);
  try {
    write_files(files, place);
  } catch (const FileError& error) {
    fail(std::string("files that cannot be written: ") + error.what());
  }
  for (const std::string& file : files_below(folder.path())) {
    const auto same = [&](const ArchiveFile& one) { return place + "/" + one.path == file; };
    const auto found = std::find_if(files.begin(), files.end(), same);
    if (found == files.end()) fail("a file that no entry names: " + file);
    if (read_text(file) != found->bytes) fail("a file that is not as in the archive: " + file);
  }
  if (files_below(place).size() != files.size()) fail("files are lost");
}

/// What stands in an archive whatever its content list and its seal say.
void unpack(const std::string& bytes) {
  const sharing::ArchiveLimits limits{1000, 1 << 20, 1 << 22};
  std::vector<ArchiveFile> files;
  sharing::read_archive(
      archive_in(bytes), [&](ArchiveFile file) { files.push_back(std::move(file)); }, limits);
  std::int64_t all = 0;
  for (const ArchiveFile& file : files) all += static_cast<std::int64_t>(file.bytes.size());
  if (files.size() > limits.files || all > limits.all_bytes) fail("an archive beyond its limits");
  check_unpacked(files);
}

}  // namespace

Target target() {
  const testing::Lab acme("acme");
  const std::string whole = unsigned_bundle("1.0.0");
  const std::vector<ArchiveFile> files = files_of(whole);
  Target target;
  target.seeds = {
      whole,
      unsigned_bundle("2.0.0-beta1"),
      signed_bundle(acme),
      sharing::sealed(plain_tar(files)),
      whole.substr(0, whole.size() / 2),
      sharing::write_archive({{"a", "b"}}),
      sharing::sealed(sharing::write_archive({{"bundle.json", std::string(5000, '[')}})),
      ""};
  for (std::string& tar : foreign_tars(files)) target.seeds.push_back(std::move(tar));
  target.words = {"../",
                  "/",
                  "ustar",
                  std::string("ustar\0"
                              "00",
                              8),
                  "attnlab bundle 1\n",
                  "\x28\xb5\x2f\xfd",
                  "archive ",
                  std::string(kBlock, '\0'),
                  "source/",
                  "0000644",
                  "30 path=../x\n",
                  "00000000001"};
  target.repair = seal_again;
  return target;
}

}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto shown = [](const Error& error) {
    const std::string what = error.what();
    if (printable(what) != what) fuzz::fail("an error that cannot be shown: " + what);
    return -1;
  };
  try {
    fuzz::unpack(bytes);
  } catch (const sharing::BundleError& error) {
    shown(error);
  }
  try {
    const sharing::Bundle bundle = sharing::parse_bundle(bytes);
    for (const sharing::ArchiveFile& file : bundle.files) sharing::check_path(file.path);
    fuzz::check_unpacked(bundle.files);
    return 0;
  } catch (const sharing::BundleError& error) {
    return shown(error);
  } catch (const sharing::TrustError& error) {
    return shown(error);
  }
}
