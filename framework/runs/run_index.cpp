#include "framework/runs/run_index.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <tuple>

#include "framework/base/files.h"
#include "framework/base/text.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kForm = "attnlab runs 1\n";
constexpr std::int64_t kResolution =
    2'000'000'000;  // nanoseconds: FAT's, the coarsest that is used
constexpr std::uint64_t kLargest = std::uint64_t{1} << 30;  // of all files together

/// Empty where nothing is to be kept.
std::string index_folder() {
  const char* const choice = std::getenv("ATTNLAB_RUN_INDEX");
  if (choice != nullptr && std::string_view(choice) == "off") return "";
  for (const auto& [variable, below] :
       {std::pair{"XDG_CACHE_HOME", "/attnlab/runs"}, std::pair{"HOME", "/.cache/attnlab/runs"}}) {
    const char* value = std::getenv(variable);
    if (value != nullptr && *value == '/') return std::string(value) + below;
  }
  return "";
}

/// Changes with every build of this library.
std::string build_stamp() {
  static const char kHere = 0;
  Dl_info library{};
  struct stat file {};
  if (::dladdr(&kHere, &library) == 0 || ::stat(library.dli_fname, &file) != 0) return "";
  return fmt::format("{} {} {} {}.{}", ATTNLAB_VERSION, file.st_ino, file.st_size,
                     file.st_mtim.tv_sec, file.st_mtim.tv_nsec);
}

std::string file_of(const std::vector<std::string>& folders) {
  const std::string folder = index_folder(), stamp = build_stamp();
  if (folder.empty() || stamp.empty()) return "";
  std::vector<std::string> searched;
  for (const std::string& one : folders) {
    std::error_code error;
    searched.push_back(fs::canonical(one, error).string());
    if (error) return "";
  }
  std::sort(searched.begin(), searched.end());
  const std::uint64_t name = fingerprint(join(searched, "\n"), fingerprint(stamp));
  return fmt::format("{}/{}.index", folder, hex(name));
}

// ---- a record, member by member; the same words write and read it

class Saver {
 public:
  static constexpr bool kLoads = false;
  explicit Saver(Packer& packer) : packer_(packer) {}

  void text(const std::string& value) { packer_.text(value); }
  template <class T>
  void number(const T& value) {
    packer_.number(value);
  }
  std::size_t count(std::size_t value) {
    packer_.count(value);
    return value;
  }
  void config(const RunConfig& config) {
    count(config.sections().size());
    for (const auto& section : config.sections()) packer_.text(section->text());
  }

 private:
  Packer& packer_;
};

class Loader {
 public:
  static constexpr bool kLoads = true;
  using SectionOf = std::function<std::shared_ptr<const ConfigSection>(std::size_t)>;
  /// @param section_of  gives the section whose text has that number
  Loader(Unpacker& unpacker, SectionOf section_of)
      : unpacker_(unpacker), section_of_(std::move(section_of)) {}

  void text(std::string& value) { value = unpacker_.text(); }
  template <class T>
  void number(T& value) {
    value = unpacker_.number<T>();
  }
  std::size_t count(std::size_t /*known*/) { return unpacker_.count(); }
  void config(RunConfig& config) {
    RunConfig::Sections sections(unpacker_.count());
    for (auto& section : sections) section = section_of_(unpacker_.text_number());
    config = RunConfig(std::move(sections));
  }

 private:
  Unpacker& unpacker_;
  SectionOf section_of_;
};

template <class Way>
void visit(Way& way,
           auto& value) requires std::is_arithmetic_v<std::remove_cvref_t<decltype(value)>> ||
    std::is_enum_v<std::remove_cvref_t<decltype(value)>> {
  way.number(value);
}

template <class Way, class Text>
void visit(Way& way, Text& text) requires std::is_same_v<std::remove_const_t<Text>, std::string> {
  way.text(text);
}

template <class Way, class Info>
void visit(Way& way, Info& info) requires std::is_same_v<std::remove_const_t<Info>, MetricInfo> {
  way.text(info.name);
  way.number(info.better);
  way.text(info.unit);
  way.text(info.of_class);
}

template <class Way, class File>
void visit(Way& way, File& file) requires std::is_same_v<std::remove_const_t<File>, PluginFile> {
  way.text(file.name);
  way.text(file.hash);
}

template <class Way, class List>
void list(Way& way, List& values) {
  const std::size_t count = way.count(values.size());
  if constexpr (Way::kLoads) values.resize(count);
  for (auto& value : values) visit(way, value);
}

template <class Way, class Map>
void map(Way& way, Map& values) {
  const std::size_t count = way.count(values.size());
  if constexpr (Way::kLoads) {
    for (std::size_t i = 0; i < count; ++i) {
      std::string key;
      way.text(key);
      visit(way,
            values.emplace_hint(values.end(), std::move(key), typename Map::mapped_type{})->second);
    }
  } else {
    for (const auto& [key, value] : values) {
      way.text(key);
      visit(way, value);
    }
  }
}

template <class Way, class Record>
void visit(Way& way,
           Record& one) requires std::is_same_v<std::remove_const_t<Record>, EvaluationRecord> {
  for (auto* text : {&one.entry, &one.hash, &one.split, &one.reason, &one.set, &one.weights}) {
    way.text(*text);
  }
  way.number(one.done);
  map(way, one.metrics);
  list(way, one.infos);
  list(way, one.changes);
  way.number(one.seconds);
  way.number(one.written);
}

template <class Way, class Record>
void visit_record(Way& way, Record& run) {
  for (auto* text : {&run.experiment, &run.attention, &run.status.reason, &run.stored}) {
    way.text(*text);
  }
  way.number(run.seed);
  way.config(run.config);
  map(way, run.matched);
  auto& status = run.status;
  way.number(status.state);
  way.number(status.step);
  way.number(status.steps);
  way.number(status.epoch);
  way.number(status.seconds);
  map(way, status.metrics);
  list(way, run.infos);
  map(way, run.environment);
  map(way, run.costs);
  way.number(run.together);
  list(way, run.evaluations);
  list(way, run.evaluation_headlines);
  list(way, run.notes);
  list(way, run.damaged);
}

template <class Way, class Details>
void visit_details(Way& way, Details& details) {
  bool has = details.identity.has_value();
  way.number(has);
  if (has) {
    if constexpr (Way::kLoads) details.identity.emplace();
    auto& identity = *details.identity;
    way.text(identity.configuration);
    way.text(identity.data);
    way.text(identity.framework);
    map(way, identity.plugins);
    list(way, identity.accepted);
  }
  way.number(details.start.first);
  way.text(details.start.second);
  way.number(details.last_step);
}

template <class Way, class Run>
void visit_run(Way& way, Run& run) {
  visit_record(way, run.record);
  bool has = run.details.has_value();
  way.number(has);
  if (!has) return;
  if constexpr (Way::kLoads) run.details.emplace();
  visit_details(way, *run.details);
}

/// Whether all that the configuration is made of can be written as texts.
bool can_be_packed(const RunRecord& run) {
  const auto& sections = run.config.sections();
  return run.config.is_map() && std::none_of(sections.begin(), sections.end(),
                                             [](const auto& one) { return one->text().empty(); });
}

/// Removes the oldest files until all of them together are not too long.
void keep_small(const fs::path& folder) {
  std::vector<std::tuple<fs::file_time_type, std::uint64_t, fs::path>> files;
  std::uint64_t all = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".index") continue;
    const std::uint64_t size = entry.file_size(error);
    files.emplace_back(entry.last_write_time(error), error ? 0 : size, entry.path());
    all += std::get<1>(files.back());
  }
  std::sort(files.begin(), files.end());
  for (const auto& [time, size, path] : files) {
    if (all <= kLargest) break;
    fs::remove(path, error);
    all -= size;
  }
}

}  // namespace

RunIndex::RunIndex(const std::vector<std::string>& folders, std::int64_t now)
    : begun_(now), path_(file_of(folders)) {
  if (is_on()) load();
}

void RunIndex::load() {
  std::error_code error;
  if (!fs::exists(path_, error)) return;
  try {
    text_ = read_text(path_, kLargest);
    take_entries(text_);
  } catch (const Error&) {  // damaged, or not to be read: all is read anew
    entries_.clear();
    texts_.clear();
  }
}

void RunIndex::take_entries(std::string_view text) {
  Unpacker file(text, texts_);
  if (file.take(kForm.size()) != kForm) throw DataError("of another form");
  const auto check = file.number<std::uint64_t>();
  const std::string_view body = text.substr(kForm.size() + sizeof check);
  if (fingerprint(body) != check) throw DataError("damaged");
  texts_.resize(file.count());
  for (std::string_view& one : texts_) one = file.own_text();
  sections_.resize(texts_.size());
  const std::size_t count = file.count();
  entries_.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view folder = file.own_text();
    const auto print = file.number<std::uint64_t>();
    entries_[folder] = {print, file.own_text()};
  }
}

IndexedRun RunIndex::unpacked(const std::string& folder, const Entry& entry, ConfigPool& pool) {
  Unpacker bytes(entry.bytes, texts_);
  Loader loader(bytes, [&](std::size_t text) {
    auto& section = sections_[text];
    if (section == nullptr) section = pool.section(texts_[text]);
    return section;
  });
  IndexedRun run;
  visit_run(loader, run);
  run.record.folder = folder;
  return run;
}

std::optional<IndexedRun> RunIndex::find(const std::string& folder, const FolderState& state,
                                         ConfigPool& pool) {
  const auto entry = entries_.find(folder);
  if (entry == entries_.end() || entry->second.print != state.print) return std::nullopt;
  try {
    IndexedRun run = unpacked(folder, entry->second, pool);
    entry->second.found = true;
    return run;
  } catch (const DataError&) {
    return std::nullopt;
  }
}

void RunIndex::add(const IndexedRun& run, const FolderState& state) {
  const RunRecord& record = run.record;
  if (!is_on() || !record.status.finished() || !can_be_packed(record)) return;
  if (state.youngest >= begun_ - kResolution) return;
  const auto known = entries_.find(record.folder);
  if (known != entries_.end()) known->second.found = false;
  Packer packer(new_texts_);
  Saver saver(packer);
  visit_run(saver, run);
  fresh_.push_back({record.folder, state.print, packer.bytes()});
}

void RunIndex::add_found() {
  ConfigPool pool;
  for (const auto& [folder, entry] : entries_) {
    if (!entry.found) continue;
    const IndexedRun run = unpacked(std::string(folder), entry, pool);
    Packer packer(new_texts_);
    Saver saver(packer);
    visit_run(saver, run);
    fresh_.push_back({run.record.folder, entry.print, packer.bytes()});
  }
}

void RunIndex::save() {
  if (!is_on() || fresh_.size() < kWorth) return;
  try {
    add_found();
    TextTable none;
    Packer body(none);
    body.count(new_texts_.texts().size());
    for (const std::string& text : new_texts_.texts()) body.own_text(text);
    body.count(fresh_.size());
    for (const Fresh& one : fresh_) {
      body.own_text(one.folder);
      body.number(one.print);
      body.own_text(one.bytes);
    }
    if (body.bytes().size() > kLargest / 2) return;
    const fs::path folder = fs::path(path_).parent_path();
    std::error_code error;
    fs::create_directories(folder, error);
    fs::permissions(folder, fs::perms::owner_all, error);  // what runs say may be for nobody else
    AtomicFile file(path_);
    const std::uint64_t check = fingerprint(body.bytes());
    file.write(kForm);
    file.write(&check, sizeof check);
    file.write(body.bytes());
    file.commit();
    keep_small(folder);
  } catch (const Error&) {
    // A full disk, or a folder that is not ours: all is read anew next time.
  }
}

}  // namespace attnlab
