#include "framework/data/text/encoded_text.h"

#include <bit>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>

#include "framework/base/files.h"
#include "framework/data/formats/files.h"
#include "framework/data/formats/mapped_file.h"

namespace attnlab {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

using TakeBytes = std::function<void(std::string_view)>;

constexpr std::size_t kBlock = std::size_t{1} << 20;  // that checksums are taken of
constexpr std::int64_t kNarrow = 65536;               // entries that 2 bytes tell apart
constexpr std::string_view kMagic = "attntok1";

struct Footer {
  std::uint64_t lengths[3] = {}, width = 0, entries = 0, entry_bytes = 0, key = 0, checksum = 0;
  char magic[8] = {};
};
static_assert(sizeof(Footer) == 72);
/// Of the footer, what the checksum covers.
constexpr std::size_t kSummed = offsetof(Footer, checksum);

std::uint64_t checksum_of(std::string_view bytes) {
  std::uint64_t checksum = 0;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(kBlock, bytes.size()))) {
    checksum = content_fingerprint(bytes.substr(0, kBlock), checksum);
  }
  return checksum;
}

/// Takes bytes in any portions and hands them on in blocks.
class BlockWriter {
 public:
  explicit BlockWriter(const TakeBytes& take) : take_(take) { block_.reserve(kBlock); }

  void write(const void* data, std::size_t size) {
    for (std::string_view rest(static_cast<const char*>(data), size); !rest.empty();) {
      const std::string_view some = rest.substr(0, kBlock - block_.size());
      block_ += some;
      rest.remove_prefix(some.size());
      if (block_.size() == kBlock) hand_on();
    }
  }
  /// @returns `checksum_of` all that was written.
  std::uint64_t finish() {
    hand_on();
    return checksum_;
  }

 private:
  void hand_on() {
    if (block_.empty()) return;
    checksum_ = content_fingerprint(block_, checksum_);
    take_(block_);
    block_.clear();
  }

  const TakeBytes& take_;
  std::string block_;
  std::uint64_t checksum_ = 0;
};

/// @returns how many tokens the text has.
std::uint64_t write_tokens(const Vocabulary& vocabulary, const Text& text, std::uint64_t width,
                           BlockWriter& out) {
  std::uint64_t length = 0;
  std::vector<std::uint16_t> narrow;
  vocabulary.encode(text, [&](const std::int32_t* tokens, std::size_t count) {
    length += count;
    if (width == sizeof *tokens) return out.write(tokens, count * width);
    narrow.resize(count);
    for (std::size_t i = 0; i < count; ++i) narrow[i] = static_cast<std::uint16_t>(tokens[i]);
    out.write(narrow.data(), count * width);
  });
  return length;
}

/// The whole file, portion by portion.
void write_all(const Vocabulary& vocabulary, const TextSplits& texts, std::uint64_t key,
               const TakeBytes& take) {
  Footer footer;
  footer.width = vocabulary.size() <= kNarrow ? 2 : 4;
  footer.key = key;
  BlockWriter out(take);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    footer.lengths[i] = write_tokens(vocabulary, texts[i], footer.width, out);
  }
  for (const std::string& entry : vocabulary.entries()) {
    const auto size = static_cast<std::uint32_t>(entry.size());
    out.write(&size, sizeof size);
    out.write(entry.data(), size);
    footer.entry_bytes += sizeof size + size;
    ++footer.entries;
  }
  out.write(&footer, kSummed);
  footer.checksum = out.finish();
  kMagic.copy(footer.magic, sizeof footer.magic);
  take({reinterpret_cast<const char*>(&footer) + kSummed, sizeof footer - kSummed});
}

/// @returns nothing where the entries are not as many, or not as long.
std::optional<std::vector<std::string>> read_entries(std::string_view bytes, std::uint64_t count) {
  std::vector<std::string> entries;
  while (!bytes.empty()) {
    std::uint32_t size = 0;
    if (bytes.size() < sizeof size) return std::nullopt;
    std::memcpy(&size, bytes.data(), sizeof size);
    bytes.remove_prefix(sizeof size);
    if (bytes.size() < size) return std::nullopt;
    entries.emplace_back(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  if (entries.size() != count) return std::nullopt;
  return entries;
}

/// What a file holds; nothing where it is not sound.
/// @param owner  keeps the bytes
std::optional<EncodedText> read_all(std::string_view bytes, std::uint64_t key,
                                    const std::shared_ptr<const void>& owner) {
  Footer footer;
  if (bytes.size() < sizeof footer) return std::nullopt;
  const std::string_view body = bytes.substr(0, bytes.size() - sizeof footer);
  std::memcpy(&footer, bytes.data() + body.size(), sizeof footer);
  if (std::string_view(footer.magic, sizeof footer.magic) != kMagic || footer.key != key ||
      (footer.width != 2 && footer.width != 4) || footer.entry_bytes > body.size() ||
      checksum_of(bytes.substr(0, body.size() + kSummed)) != footer.checksum) {
    return std::nullopt;
  }
  const std::uint64_t tokens = (body.size() - footer.entry_bytes) / footer.width;
  auto entries = read_entries(body.substr(tokens * footer.width), footer.entries);
  if (!entries) return std::nullopt;
  EncodedText encoded{*std::move(entries), {}};
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < encoded.splits.size(); ++i) {
    if (footer.lengths[i] > tokens - begin) return std::nullopt;
    encoded.splits[i] = {body.data() + begin * footer.width,
                         static_cast<std::int64_t>(footer.lengths[i]),
                         static_cast<std::int64_t>(footer.width), owner};
    begin += footer.lengths[i];
  }
  if (begin != tokens) return std::nullopt;
  return encoded;
}

std::optional<EncodedText> read_file(const std::string& path, std::uint64_t key) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  const auto file = std::make_shared<const MappedFile>(path);
  return read_all(file->bytes(), key, file);
}

}  // namespace

EncodedText encode_text(const Vocabulary& vocabulary, const TextSplits& texts) {
  auto image = std::make_shared<std::string>();
  write_all(vocabulary, texts, 0, [&](std::string_view bytes) { *image += bytes; });
  return *read_all(*image, 0, image);
}

EncodedText encode_text(const std::string& path, std::uint64_t key, const TextSplits& texts,
                        const std::function<Vocabulary()>& vocabulary) {
  // A temporary file's name tells processes apart, not threads.
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  if (auto there = read_file(path, key)) return *std::move(there);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  std::error_code error;
  std::filesystem::create_directories(folder, error);  // what keeps it away is the file's error
  if (!error) remove_dead_temporaries(folder);
  AtomicFile file(path);
  write_all(vocabulary(), texts, key, [&](std::string_view bytes) { file.write(bytes); });
  file.commit();
  if (auto made = read_file(path, key)) return *std::move(made);
  throw FileError(path +
                  ": does not hold what was just written to it; check the disk, or choose "
                  "another folder (environment variable XDG_CACHE_HOME)");
}

}  // namespace attnlab
