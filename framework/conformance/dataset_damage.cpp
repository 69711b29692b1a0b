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

/// What is in a folder and in those below it, in order of names relative to it.
struct Listing {
  std::vector<fs::path> folders, files;
};

/// Adds what is below a folder; also in linked folders, for datasets read them.
/// @param below  the folder's name within `top`
/// @param above  the folders on the way to it: a link back to one of them leads to nothing new
void add_below(const fs::path& top, const fs::path& below, std::vector<fs::path>& above,
               Listing& found) {
  above.push_back(fs::canonical(top / below));
  for (const fs::directory_entry& entry : fs::directory_iterator(top / below)) {
    const fs::path name = below / entry.path().filename();
    std::error_code error;  // of a link to nothing
    if (entry.is_regular_file(error)) {
      found.files.push_back(name);
    } else if (entry.is_directory(error) &&
               std::find(above.begin(), above.end(), fs::canonical(entry.path())) == above.end()) {
      found.folders.push_back(name);
      add_below(top, name, above, found);
    }
  }
  above.pop_back();
}

Listing listing_of(const fs::path& folder) {
  Listing found;
  std::vector<fs::path> above;
  for (fs::path up = fs::canonical(folder); up != up.root_path();) {
    above.push_back(up = up.parent_path());
  }
  add_below(folder, fs::path(), above, found);
  std::sort(found.files.begin(), found.files.end());
  return found;
}

/// A copy of a folder in which all files are links.
void link_all(const fs::path& from, const Listing& listing, const fs::path& to) {
  for (const fs::path& folder : listing.folders) fs::create_directories(to / folder);
  for (const fs::path& file : listing.files) {
    fs::create_symlink(fs::absolute(from / file), to / file);
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

/// Where a whole copy is refused or another dataset, damaged ones are for that reason alone.
void expect_sound_copy(const DatasetFixture& fixture, const std::string& folder,
                       const std::string& copy) {
  const std::string what = "an undamaged copy of " + folder;
  if (fixture.subject().trying) fixture.subject().trying(what);
  std::string found;
  try {
    found = fixture.subject().open_folder(copy)->info().fingerprint;
  } catch (const std::exception& error) {
    throw Failure(
        fmt::format("{}, of links to its files, cannot be opened as `root`, so damaged ones show "
                    "nothing: {}",
                    what, std::string(error.what()).substr(0, 400)));
  }
  const std::string& ours = fixture.dataset().info().fingerprint;
  expect(found == ours,
         fmt::format("{}, of links to its files, has the fingerprint {}, and the folder itself {}: "
                     "it must not depend on where data lie",
                     what, found, ours));
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
  } catch (const ConfigError&) {
    return End::refused;  // of fewer examples a share may be none
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
  const Listing listing = listing_of(folder);
  std::uintmax_t total = 0;
  for (const fs::path& file : listing.files) total += fs::file_size(folder / file);
  const ScratchFolder scratch;
  link_all(folder, listing, scratch.path());
  expect_sound_copy(fixture, folder, scratch.path());
  std::size_t damaged = 0, refused = 0, noticed = 0, copies = 0;
  const auto attempt = [&](const std::string& what) {
    const End end = try_copy(fixture, scratch.path(), what, total <= kLargeData);
    ++copies;
    refused += end == End::refused ? 1 : 0;
    noticed += end == End::the_same ? 0 : 1;
  };
  for (const fs::path& file : listing.files) {
    const fs::path original = folder / file, copy = fs::path(scratch.path()) / file;
    const std::uintmax_t size = fs::file_size(original);
    if (size == 0 || size > kLargestFile || damaged == kMostFiles) continue;
    ++damaged;
    fs::remove(copy);  // always before it is written: a link leads to the user's own file
    attempt("a copy without " + file.string());
    const std::string sound = read_text(original);
    for (const Damage& damage : kDamages) {
      std::string bytes = sound;
      damage.change(bytes);
      fs::remove(copy);
      write_file(copy.string(), bytes);
      attempt(fmt::format("a copy with {} {}", file.string(), damage.name));
    }
    fs::remove(copy);
    fs::create_symlink(fs::absolute(original), copy);
  }
  expect(damaged > 0, folder + ": holds no file that could be damaged");
  if (noticed == 0 && fixture.source_folder().empty()) {
    throw NotApplicable(fmt::format(
        "its `source` names no folder, and it reads none of the files of {} that were damaged",
        folder));
  }
  // Data that leave out what is damaged refuse nothing, and are other data then.
  expect(noticed > 0,
         fmt::format("none of {} damaged copies is refused or has another fingerprint; does the "
                     "dataset read {}?",
                     copies, folder));
  return fmt::format("{} of {} damaged copies refused", refused, copies);
}

}  // namespace attnlab::conformance
