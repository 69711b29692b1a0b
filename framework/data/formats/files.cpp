#include "framework/data/formats/files.h"

#include <fmt/format.h>

#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/data/formats/detail/look_only.h"
#include "framework/data/formats/detail/promised_size.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

thread_local bool look_only = false;

std::mutex run_guard;
std::string run_folder;  ///< `look_for_data_in`

/// What keeps a folder from being the one, or nothing.
std::string what_is_missing(const std::string& folder, const DataSearch& search) {
  std::error_code error;
  if (!fs::exists(folder, error)) return error ? error.message() : "no such folder";
  if (!fs::is_directory(folder, error)) return "is not a folder";
  std::vector<std::string> missing;
  for (const std::string& file : search.files) {
    const std::string path = fmt::format("{}/{}", folder, file);
    if (fs::exists(path, error)) continue;
    const bool packed = fs::exists(path + ".gz", error);
    if (packed && search.packed) continue;
    missing.push_back(packed ? fmt::format("{0} (unpack {0}.gz)", file) : file);
  }
  return missing.empty() ? "" : "lacks " + join(missing, ", ");
}

/// @param root  of the search, as it is found
/// @throws OptionError where files lie in `root` as well as in the folder of that name below it:
///         either may be meant.
void refuse_two_sets(const DataSearch& search, const std::string& root) {
  const std::string below = fmt::format("{}/{}", root, search.name);
  if (search.files.empty() || !what_is_missing(below, search).empty()) return;
  std::error_code error;
  if (fs::equivalent(root, below, error)) return;
  for (const std::string& file : search.files) {
    const std::string plain = fmt::format("{}/{}", root, file);
    const std::string path = search.packed ? with_or_without_gz(plain) : plain;
    if (!fs::exists(path, error)) continue;
    throw OptionError(search.option,
                      fmt::format("{} is there, and {} has such files, too; set it to {} if these "
                                  "are meant, else move that folder elsewhere",
                                  path, below, below));
  }
}

/// A gzip stream that is open for the lifetime of this.
class Inflater {
 public:
  Inflater() {
    if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) throw Error("zlib: out of memory");
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  z_stream stream{};
};

bool is_gzip(std::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b';
}

void refuse_more_than_promised(const std::string& path, std::string_view out,
                               const PromisedSize& promised) {
  const auto size = promised ? promised(out) : std::nullopt;
  if (!size || out.size() <= *size) return;
  throw DataError(
      fmt::format("{}: it should hold {} bytes, and the gzip stream goes on after them; "
                  "fetch the file again",
                  path, *size));
}

/// Of formats that promise no size: a few megabytes of gzip can hold gigabytes, data do not.
void refuse_bomb(const std::string& path, std::size_t packed, std::size_t unpacked) {
  constexpr std::size_t kAlways = std::size_t{1} << 28, kMostPacking = 100;
  if (unpacked <= kAlways || unpacked / kMostPacking <= packed) return;
  throw DataError(
      fmt::format("{}: {} bytes of gzip have given {} already, more than real data do; if you "
                  "trust the file, decompress it yourself (gunzip)",
                  path, packed, unpacked));
}

/// Decompresses the gzip member that begins at `offset` and moves `offset` to its end.
/// @param used  bytes of `out` that are filled, behind which it comes; `out` may be longer, so that
///              it grows in the same steps over all members
void inflate_member(const std::string& path, std::string_view bytes, std::size_t& offset,
                    std::string& out, std::size_t& used, const PromisedSize& promised) {
  Inflater inflater;
  z_stream& stream = inflater.stream;
  // zlib counts input in 32 bits; larger files are handed over in pieces.
  constexpr std::size_t kPiece = std::size_t{1} << 30;
  int status = Z_OK;
  while (status != Z_STREAM_END) {
    // Grown by what has come out so far: no size that the file claims is believed.
    if (used == out.size()) out.resize(std::max<std::size_t>(used + used / 2, 1 << 16));
    const std::size_t input = std::min(bytes.size() - offset, kPiece);
    const std::size_t room = std::min(out.size() - used, kPiece);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + offset));
    stream.avail_in = static_cast<uInt>(input);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + used);
    stream.avail_out = static_cast<uInt>(room);
    status = inflate(&stream, Z_NO_FLUSH);
    offset += input - stream.avail_in;
    used += room - stream.avail_out;
    refuse_more_than_promised(path, std::string_view(out).substr(0, used), promised);
    refuse_bomb(path, offset, used);
    if (status == Z_OK || status == Z_STREAM_END) continue;
    if (status == Z_MEM_ERROR) throw Error(path + ": out of memory while decompressing");
    if (status == Z_BUF_ERROR && offset == bytes.size()) {
      throw DataError(fmt::format(
          "{}: the gzip stream is cut off at byte {} (the file's end); fetch the file again", path,
          offset));
    }
    throw DataError(
        fmt::format("{}: the gzip stream is damaged near byte {} ({}); fetch the file again", path,
                    offset, stream.msg != nullptr ? stream.msg : "zlib error"));
  }
}

}  // namespace

LookOnly::LookOnly() { look_only = true; }

LookOnly::~LookOnly() { look_only = false; }

void look_for_data_in(const std::string& folder) {
  const std::lock_guard<std::mutex> lock(run_guard);
  run_folder = folder;
}

std::string data_path(const std::string& path) {
  const auto is_there = [](const std::string& place) {
    std::error_code error;
    return fs::exists(place, error) || fs::exists(place + ".gz", error);
  };
  if (path.empty() || fs::path(path).is_absolute() || is_there(path)) return path;
  const std::lock_guard<std::mutex> lock(run_guard);
  const std::string from_run = fmt::format("{}/{}", run_folder, path);
  return !run_folder.empty() && is_there(from_run) ? from_run : path;
}

std::string find_data_folder(const DataSearch& search) {
  std::vector<std::string> tried;
  std::vector<std::string> places;
  const char* home = std::getenv("ATTNLAB_DATA");
  if (!search.root.empty()) {
    const std::string root = data_path(search.root);
    refuse_two_sets(search, root);
    places = {root, fmt::format("{}/{}", root, search.name)};
  } else {
    if (home != nullptr && *home != '\0') {
      places.push_back(fmt::format("{}/{}", home, search.name));
    } else {
      tried.push_back(fmt::format("  $ATTNLAB_DATA/{}: ATTNLAB_DATA is not set", search.name));
    }
    places.push_back("/usr/share/datasets/" + search.name);
    places.push_back("/usr/local/share/datasets/" + search.name);
  }
  for (const std::string& place : places) {
    const std::string missing = what_is_missing(place, search);
    if (missing.empty() && look_only) throw DataFound{place};
    if (missing.empty()) return place;
    tried.push_back(fmt::format("  {}: {}", place, missing));
  }
  std::string remedy = search.hint.empty() ? "" : search.hint + ", or ";
  remedy += search.root.empty()
                ? fmt::format("set the option `{}` to the folder with the files", search.option)
                : fmt::format("correct the option `{}`", search.option);
  // A name may be a default, or empty, where a folder is given.
  const std::string meant = search.root.empty()
                                ? fmt::format("of '{}'", search.name)
                                : fmt::format("in '{}' (option `{}`)", search.root, search.option);
  throw DataMissingError(
      fmt::format("the data {} are not here; looked in\n{}\n{}", meant, join(tried, "\n"), remedy));
}

std::string with_or_without_gz(const std::string& path) {
  std::error_code error;
  return !fs::exists(path, error) && fs::exists(path + ".gz", error) ? path + ".gz" : path;
}

std::string read_data_file(const std::string& path) { return read_data_file(path, nullptr); }

std::string read_data_file(const std::string& path, const PromisedSize& promised) {
  if (std::error_code error; !fs::exists(path, error)) {
    throw DataMissingError(path + ": is not there; fetch it, with the files beside it");
  }
  std::string bytes = read_text(path);
  if (!is_gzip(bytes)) return bytes;
  std::string out;
  std::size_t offset = 0, used = 0;
  while (offset < bytes.size()) {  // gzip files may hold several members, one after another
    if (!is_gzip(std::string_view(bytes).substr(offset))) {
      throw DataError(
          fmt::format("{}: {} bytes that are not gzip follow the compressed stream at byte {}; "
                      "fetch the file again",
                      path, bytes.size() - offset, offset));
    }
    inflate_member(path, bytes, offset, out, used, promised);
  }
  out.resize(used);
  return out;
}

std::uint64_t content_fingerprint(std::string_view bytes, std::uint64_t seed) {
  // FNV-1a's step on 64-bit words, in four lanes that do not wait for each other. Every step is a
  // bijection of its lane, so a change of one word always changes the result of the lane.
  constexpr std::uint64_t kPrime = 0x9e3779b97f4a7c15ULL;
  const auto step = [](std::uint64_t hash, std::uint64_t word) {
    hash = (hash ^ word) * kPrime;
    return hash ^ (hash >> 32);
  };
  std::uint64_t lanes[4] = {seed + 1, seed + 2, seed + 3, seed + 4};
  std::size_t at = 0;
  for (; at + 32 <= bytes.size(); at += 32) {
    std::uint64_t words[4];
    std::memcpy(words, bytes.data() + at, 32);
    for (int i = 0; i < 4; ++i) lanes[i] = step(lanes[i], words[i]);
  }
  std::uint64_t hash = fingerprint(bytes.substr(at), seed + bytes.size());
  for (const std::uint64_t lane : lanes) hash = step(hash, lane);
  return hash;
}

}  // namespace attnlab
