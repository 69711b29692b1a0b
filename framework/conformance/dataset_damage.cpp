// Damaged copies of a dataset's files: each must end in a DataError, or be another dataset.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "framework/base/files.h"
#include "framework/conformance/dataset_checks.h"

namespace attnlab::conformance {
namespace {

namespace fs = std::filesystem;

/// Files that are damaged, and the largest that is read for it.
constexpr std::size_t kMostFiles = 12;
constexpr std::uintmax_t kLargestFile = std::uintmax_t{256} << 20;
/// From this many bytes on a dataset need not read everything when it is opened.
constexpr std::uintmax_t kLargeData = std::uintmax_t{1} << 30;

struct Damage {
  std::string name;  ///< "cut off in the middle"
  void (*change)(std::string& bytes);
};

void flip(std::string& bytes, std::size_t at) { bytes[at] = static_cast<char>(bytes[at] ^ 0x10); }

constexpr std::size_t kHead = 16;  ///< where files say how large they are

const Damage kDamages[] = {
    {"empty", [](std::string& bytes) { bytes.clear(); }},
    {"without its last byte", [](std::string& bytes) { bytes.pop_back(); }},
    {"cut off in the middle", [](std::string& bytes) { bytes.resize(bytes.size() / 2); }},
    {"with a bit of its first byte flipped", [](std::string& bytes) { flip(bytes, 0); }},
    {"with a bit near its beginning flipped",
     [](std::string& bytes) { flip(bytes, std::min(bytes.size(), kHead / 2) - 1); }},
    {"with all bits near its beginning set",
     [](std::string& bytes) { std::fill_n(bytes.begin(), std::min(bytes.size(), kHead), '\xff'); }},
    {"with a bit in the middle flipped", [](std::string& bytes) { flip(bytes, bytes.size() / 2); }},
    {"with a bit of its last byte flipped",
     [](std::string& bytes) { flip(bytes, bytes.size() - 1); }},
    {"with bytes behind its end", [](std::string& bytes) { bytes += "attnlab"; }},
};

/// The files of a folder and of those below it, in order of their names.
std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path().lexically_relative(folder));
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// A copy of the folder in which all files but one are links.
void link_all_but(const fs::path& from, const std::vector<fs::path>& files,
                  const fs::path& left_out, const fs::path& to) {
  fs::remove_all(to);
  fs::create_directories(to);
  for (const fs::path& file : files) {
    fs::create_directories((to / file).parent_path());
    if (file != left_out) fs::create_symlink(fs::absolute(from / file), to / file);
  }
}

/// Whether two datasets give the same examples, as far as they are looked at.
bool same_examples(const Dataset& a, const Dataset& b) {
  for (const Split split : kSplits) {
    if (a.size(split) != b.size(split)) return false;
    for (const std::int64_t index : sample(a, split, 100000)) {
      if (!same(example_of(a, split, index), example_of(b, split, index))) return false;
    }
  }
  return true;
}

enum class End { refused, another, the_same };

/// Opens a damaged copy and reads of it.
End try_copy(const DatasetFixture& fixture, const std::string& folder, const std::string& what,
             bool reads_all) {
  if (fixture.subject().trying) fixture.subject().trying(what);
  try {
    const std::shared_ptr<const Dataset> copy = fixture.subject().open_folder(folder);
    for (const Split split : kSplits) {
      for (const std::int64_t index : sample(*copy, split)) example_of(*copy, split, index);
    }
    const DatasetInfo& ours = fixture.dataset().info();
    if (copy->info().fingerprint != ours.fingerprint) return End::another;
    expect(!reads_all || same_examples(*copy, fixture.dataset()),
           fmt::format("{} is opened and gives other examples, but the fingerprint stays {}", what,
                       ours.fingerprint));
    return End::the_same;
  } catch (const DataError&) {
    return End::refused;
  } catch (const Failure&) {
    throw;
  } catch (const std::exception& error) {
    throw Failure(fmt::format("{} ends in another exception than a DataError: {}", what,
                              std::string(error.what()).substr(0, 400)));
  }
}

}  // namespace

std::string check_damage(const DatasetFixture& fixture) {
  const std::string folder = fixture.folder();
  if (folder.empty()) throw NotApplicable("it reads no folder of files (option `root`)");
  const std::vector<fs::path> files = files_below(folder);
  std::uintmax_t total = 0;
  for (const fs::path& file : files) total += fs::file_size(folder / file);
  const ScratchFolder scratch;
  std::size_t damaged = 0, refused = 0, copies = 0;
  const auto attempt = [&](const std::string& what) {
    ++copies;
    refused += try_copy(fixture, scratch.path(), what, total <= kLargeData) == End::refused ? 1 : 0;
  };
  for (const fs::path& file : files) {
    const fs::path original = folder / file;
    const std::uintmax_t size = fs::file_size(original);
    if (size == 0 || size > kLargestFile || damaged == kMostFiles) continue;
    ++damaged;
    link_all_but(folder, files, file, scratch.path());
    attempt("a copy without " + file.string());
    const std::string sound = read_text(original);
    for (const Damage& damage : kDamages) {
      std::string bytes = sound;
      damage.change(bytes);
      fs::remove(fmt::format("{}/{}", scratch.path(), file.string()));
      write_file(fmt::format("{}/{}", scratch.path(), file.string()), bytes);
      attempt(fmt::format("a copy with {} {}", file.string(), damage.name));
    }
  }
  expect(damaged > 0, folder + ": holds no file that could be damaged");
  expect(refused > 0, fmt::format("none of {} damaged copies is refused; does the dataset read {}?",
                                  copies, folder));
  return fmt::format("{} of {} damaged copies refused", refused, copies);
}

}  // namespace attnlab::conformance
