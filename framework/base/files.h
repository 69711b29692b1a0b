// Files written whole or not at all, and read with errors that name them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/error.h"

namespace attnlab {

/// A file that appears under its name only when it is complete: written beside it under a
/// temporary name, flushed to the disk and renamed. Killing the process at any moment, or a power
/// loss, leaves the old file or the new one. The temporary name, "NAME.tmp-HOST-PID" (with zeros
/// before PID where that is taken), says who is writing. Devices, FIFOs and open descriptors
/// (/dev/stdout) are written to.
class AtomicFile {
 public:
  /// @throws FileError when the folder does not exist or cannot be written.
  explicit AtomicFile(std::string path);
  /// Without `commit`, removes what was written.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// @throws FileError with path and reason (a full disk); the temporary file is gone then.
  void write(const void* data, std::size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Makes the file durable and visible, and its name durable. @throws FileError; where the name
  /// alone failed, the new file is there by then.
  void commit();

 private:
  [[noreturn]] void fail(const char* action);
  void discard() noexcept;

  std::string path_;
  std::string temporary_;
  int descriptor_ = -1;
};

/// Removes the temporary files that killed processes of this machine left in a folder: those of
/// living processes and of other machines stay. Only for a folder into which this process is not
/// writing now.
void remove_dead_temporaries(const std::string& folder);

/// Gives a folder's owner all rights to it, for what foreign code closed. A link is not followed.
/// @param at  an open folder, or AT_FDCWD
void open_to_owner(int at, const char* name);

/// Removes a folder and all in it as far as this user may, folders closed to their owner included;
/// no error where there is none. Links are removed, never followed.
void remove_tree(const std::string& folder);

/// Writes a whole file through `AtomicFile`.
void write_file(const std::string& path, std::string_view text);

/// More than any record of a run, a suite or a lab has that is read whole: 64 MiB.
inline constexpr std::uint64_t kLargestRecord = std::uint64_t{64} << 20;
/// The longest metrics.jsonl that is read for curves: 4 GiB.
inline constexpr std::uint64_t kLargestLog = std::uint64_t{4} << 30;

/// A whole file as text. @throws FileError with path and reason; also where it is longer than
/// `most` bytes, which is found out before they are read (a file with holes may be longer than all
/// memory).
std::string read_text(const std::string& path,
                      std::uint64_t most = std::numeric_limits<std::uint64_t>::max());

/// The `fingerprint` of a whole file, or of its first bytes; empty where it has fewer.
/// @throws FileError with path and reason.
std::optional<std::uint64_t> file_fingerprint(const std::string& path,
                                              std::optional<std::uint64_t> bytes = {});

/// Whether something has that path. @throws FileError where that is not known, as below a folder
/// that may not be entered: what protects is not to be taken as absent then.
bool is_there(const std::string& path);

/// The last lines of a text file that may be large, at most `most`, sought in its last MiB; the
/// first may be cut there. Empty lines do not count and are left out. No lines where there is no
/// file.
std::vector<std::string> last_lines(const std::string& path, std::size_t most);

/// A new folder for temporary files, which goes with its contents.
class ScratchFolder {
 public:
  /// @throws FileError.
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// Lines appended to a file, each in one write, so that a kill leaves at most one cut-off line.
class LineWriter {
 public:
  /// @param keep_bytes  length to which an existing file is cut first; negative keeps all of it.
  explicit LineWriter(std::string path, std::int64_t keep_bytes = -1);
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  void line(std::string_view text);
  /// Makes the lines durable: before anything durable says that they are there. @throws FileError.
  void sync();
  /// Bytes in the file.
  std::int64_t size() const { return size_; }

 private:
  std::string path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

/// FNV-1a over bytes: fingerprints of configurations and files (not for secrets).
std::uint64_t fingerprint(std::string_view bytes, std::uint64_t seed = 0xcbf29ce484222325ULL);
/// 16 lower-case hexadecimal digits.
std::string hex(std::uint64_t value);

}  // namespace attnlab
