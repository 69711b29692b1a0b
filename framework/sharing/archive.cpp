#include "framework/sharing/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "framework/base/foreign_text.h"
#include "framework/sharing/names.h"

namespace attnlab::sharing {
namespace {

constexpr std::size_t kLongestPath = 200, kDeepest = 20;
constexpr std::string_view kAllowed =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+=@,-";

struct Free {
  void operator()(archive* one) const { ::archive_free(one); }
  void operator()(archive_entry* one) const { ::archive_entry_free(one); }
};
using Archive = std::unique_ptr<archive, Free>;
using Entry = std::unique_ptr<archive_entry, Free>;

std::string reason(archive* one) {
  const char* const text = ::archive_error_string(one);
  return text == nullptr ? "damaged" : one_line(text, 200);
}

/// Paths that were met, as a file system without upper case sees them.
class Paths {
 public:
  void add(const std::string& path) {
    const std::string folded = lower(path);
    if (!files_.insert(folded).second || folders_.count(folded) > 0) {
      throw BundleError(fmt::format("'{}': two entries have this name, upper case aside", path));
    }
    for (std::size_t at = 0; (at = folded.find('/', at)) != std::string::npos; ++at) {
      const std::string folder = folded.substr(0, at);
      if (files_.count(folder) > 0) {
        throw BundleError(fmt::format("'{}': '{}' is a file and a folder", path, folder));
      }
      folders_.insert(folder);
    }
  }

 private:
  std::set<std::string> files_, folders_;
};

/// What is counted while an archive is written or read.
class Room {
 public:
  explicit Room(const ArchiveLimits& limits) : limits_(limits), left_(limits.all_bytes) {}

  void take(const std::string& path, std::int64_t size) {
    if (size < 0 || size > limits_.file_bytes || size > left_) {
      throw BundleError(fmt::format("'{}': holds {} bytes; a file may have {}, all together {}",
                                    path, size, limits_.file_bytes, limits_.all_bytes));
    }
    left_ -= size;
  }
  void count_one() {
    if (++count_ > limits_.files) {
      throw BundleError(fmt::format("holds more than {} files", limits_.files));
    }
  }
  bool empty() const { return count_ == 0; }

 private:
  const ArchiveLimits& limits_;
  std::size_t count_ = 0;
  std::int64_t left_;
};

la_ssize_t append(archive*, void* out, const void* bytes, std::size_t size) {
  static_cast<std::string*>(out)->append(static_cast<const char*>(bytes), size);
  return static_cast<la_ssize_t>(size);
}

void must(archive* one, int result) {
  if (result != ARCHIVE_OK) throw BundleError("cannot write the archive: " + reason(one));
}

void write_one(archive* out, const ArchiveFile& file) {
  const Entry entry(::archive_entry_new());
  ::archive_entry_set_pathname(entry.get(), file.path.c_str());
  ::archive_entry_set_filetype(entry.get(), AE_IFREG);
  ::archive_entry_set_perm(entry.get(), file.executable ? 0755 : 0644);
  ::archive_entry_set_size(entry.get(), static_cast<la_int64_t>(file.bytes.size()));
  ::archive_entry_set_mtime(entry.get(), 0, 0);
  must(out, ::archive_write_header(out, entry.get()));
  if (::archive_write_data(out, file.bytes.data(), file.bytes.size()) !=
      static_cast<la_ssize_t>(file.bytes.size())) {
    throw BundleError("cannot write the archive: " + reason(out));
  }
}

/// What an entry is called here, once it is known to be harmless.
std::string checked_path(archive_entry* entry) {
  const char* const name = ::archive_entry_pathname(entry);
  std::string path = name == nullptr ? "" : name;
  check_path(path);
  if (::archive_entry_hardlink(entry) != nullptr || ::archive_entry_symlink(entry) != nullptr ||
      ::archive_entry_filetype(entry) != AE_IFREG) {
    throw BundleError(fmt::format(
        "'{}': a link, a folder or a device; an archive holds regular files alone", path));
  }
  if (::archive_entry_sparse_count(entry) > 0) {
    throw BundleError(fmt::format("'{}': a file with holes; write it as a plain one", path));
  }
  return path;
}

/// Reads one file's bytes, at most as many as its header says and `left` allows.
std::string content_of(archive* in, const std::string& path, std::int64_t size) {
  std::string bytes;
  char buffer[1 << 16];
  while (true) {
    const la_ssize_t count = ::archive_read_data(in, buffer, sizeof buffer);
    if (count < 0) throw BundleError(fmt::format("'{}': {}", path, reason(in)));
    if (count == 0) break;
    bytes.append(buffer, static_cast<std::size_t>(count));
    if (static_cast<std::int64_t>(bytes.size()) > size) break;
  }
  if (static_cast<std::int64_t>(bytes.size()) != size) {
    throw BundleError(fmt::format("'{}': is not as long as its header says", path));
  }
  return bytes;
}

Archive opened(std::string_view bytes) {
  Archive in(::archive_read_new());
  ::archive_read_support_filter_zstd(in.get());
  ::archive_read_support_format_tar(in.get());
  if (::archive_read_open_memory(in.get(), bytes.data(), bytes.size()) != ARCHIVE_OK) {
    throw BundleError("is not an archive: " + reason(in.get()));
  }
  return in;
}

}  // namespace

void check_path(const std::string& path) {
  const auto refuse = [&](const char* why) {
    throw BundleError(fmt::format("'{}': {}", one_line(path, 100), why));
  };
  if (path.empty() || path.size() > kLongestPath) refuse("a path has 1 to 200 bytes");
  if (path[0] == '/') refuse("a path must not begin at the root");
  std::size_t depth = 0;
  for (std::size_t begin = 0; begin <= path.size(); ++depth) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = std::string_view(path).substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") refuse("a path that leaves its folder");
    if (part[0] == '-') refuse("a name that begins with '-'");
    if (part.find_first_not_of(kAllowed) != std::string_view::npos) {
      refuse("a name of other characters than A-Z, a-z, 0-9 and ._+=@,-");
    }
    begin = end + 1;
  }
  if (depth > kDeepest) refuse("a path of more than 20 folders");
}

std::string write_archive(std::vector<ArchiveFile> files, const ArchiveLimits& limits) {
  std::sort(files.begin(), files.end(),
            [](const ArchiveFile& a, const ArchiveFile& b) { return a.path < b.path; });
  Paths paths;
  Room room(limits);
  for (const ArchiveFile& file : files) {
    check_path(file.path);
    paths.add(file.path);
    room.count_one();
    room.take(file.path, static_cast<std::int64_t>(file.bytes.size()));
  }
  std::string bytes;
  const Archive out(::archive_write_new());
  // As ustar, but for paths that ustar cannot hold.
  must(out.get(), ::archive_write_set_format_pax_restricted(out.get()));
  must(out.get(), ::archive_write_add_filter_zstd(out.get()));
  must(out.get(), ::archive_write_set_filter_option(out.get(), "zstd", "compression-level", "10"));
  must(out.get(), ::archive_write_set_bytes_in_last_block(out.get(), 1));
  must(out.get(), ::archive_write_open(out.get(), &bytes, nullptr, append, nullptr));
  for (const ArchiveFile& file : files) write_one(out.get(), file);
  must(out.get(), ::archive_write_close(out.get()));
  return bytes;
}

void read_archive(std::string_view bytes, const std::function<void(ArchiveFile)>& on_file,
                  const ArchiveLimits& limits) {
  const Archive in = opened(bytes);
  Paths paths;
  Room room(limits);
  std::string before;
  while (true) {
    archive_entry* entry = nullptr;
    const int result = ::archive_read_next_header(in.get(), &entry);
    if (result == ARCHIVE_EOF) break;
    if (result != ARCHIVE_OK) throw BundleError("is a damaged archive: " + reason(in.get()));
    room.count_one();
    ArchiveFile file;
    file.path = checked_path(entry);
    if (file.path <= before) {
      throw BundleError(fmt::format("'{}': twice, or not in its order", file.path));
    }
    before = file.path;
    paths.add(file.path);
    const std::int64_t size = ::archive_entry_size(entry);
    room.take(file.path, size);
    file.executable = (::archive_entry_perm(entry) & 0100) != 0;
    file.bytes = content_of(in.get(), file.path, size);
    on_file(std::move(file));
  }
  if (room.empty()) throw BundleError("is an empty archive");
}

}  // namespace attnlab::sharing
