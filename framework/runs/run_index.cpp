#include "framework/runs/run_index.h"

#include <algorithm>
#include <filesystem>

#include "framework/base/text.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kResolution = 2'000'000'000;  // nanoseconds: FAT's, the coarsest in use

/// What is searched, whatever it is called; empty where that is not known.
std::string key_of(const std::vector<std::string>& folders) {
  std::vector<std::string> searched;
  for (const std::string& one : folders) {
    std::error_code error;
    searched.push_back(fs::canonical(one, error).string());
  }
  std::sort(searched.begin(), searched.end());
  return join(searched, "\n");
}

// ---- a record, member by member

class RecordSaver : public Saver {
 public:
  /// @param sections  gets the texts of the configuration's sections
  RecordSaver(Packer& packer, TextTable& sections) : Saver(packer), sections_(sections) {}

  void config(const RunConfig& config) {
    count(config.sections().size());
    for (const auto& one : config.sections()) packer_.count(sections_.number_of(one->text()));
  }

 private:
  TextTable& sections_;
};

class RecordLoader : public Loader {
 public:
  RecordLoader(Unpacker& unpacker, const RunConfig::Sections& sections)
      : Loader(unpacker), sections_(sections) {}

  void config(RunConfig& config) {
    RunConfig::Sections sections(unpacker_.count());
    for (auto& one : sections) one = sections_[unpacker_.place(sections_.size())];
    config = RunConfig(std::move(sections));
  }

 private:
  const RunConfig::Sections& sections_;
};

void pack_infos(auto& way, auto& infos) {
  pack_list(way, infos, [&](auto& info) {
    way.text(info.name);
    way.number(info.better);
    way.text(info.unit);
    way.text(info.of_class);
  });
}

void pack_evaluation(auto& way, auto& one) {
  for (auto* text : {&one.entry, &one.hash, &one.split, &one.reason, &one.set, &one.weights,
                     &one.predictions, &one.file}) {
    way.text(*text);
  }
  way.number(one.done);
  pack_map(way, one.metrics, [&](auto& value) { way.number(value); });
  pack_infos(way, one.infos);
  pack_texts(way, one.changes);
  way.number(one.seconds);
  way.number(one.written);
}

void pack_status(auto& way, auto& status) {
  way.number(status.state);
  way.number(status.step);
  way.number(status.steps);
  way.number(status.epoch);
  way.number(status.seconds);
  way.number(status.processor_seconds);
  way.number(status.device_seconds);
  pack_map(way, status.metrics, [&](auto& value) { way.number(value); });
  way.text(status.reason);
}

void pack_record(auto& way, auto& run) {
  for (auto* text : {&run.experiment, &run.attention, &run.stored}) way.text(*text);
  way.number(run.seed);
  way.config(run.config);
  pack_map(way, run.matched, [&](auto& value) { way.text(value); });
  pack_status(way, run.status);
  pack_infos(way, run.infos);
  pack_map(way, run.environment, [&](auto& value) { way.text(value); });
  pack_map(way, run.costs, [&](auto& value) { way.number(value); });
  way.number(run.together);
  pack_list(way, run.evaluations, [&](auto& one) { pack_evaluation(way, one); });
  pack_infos(way, run.evaluation_headlines);
  pack_texts(way, run.notes);
  pack_texts(way, run.damaged);
}

void pack_identity(auto& way, auto& identity) {
  for (auto* text : {&identity.configuration, &identity.data, &identity.framework}) {
    way.text(*text);
  }
  pack_map(way, identity.plugins, [&](auto& file) {
    way.text(file.name);
    way.text(file.hash);
  });
  pack_texts(way, identity.accepted);
}

/// @param pack  called with the value, where there is one
void pack_optional(auto& way, auto& value, const auto& pack) {
  bool has = value.has_value();
  way.number(has);
  if (!has) return;
  if constexpr (std::remove_reference_t<decltype(way)>::kLoads) value.emplace();
  pack(*value);
}

void pack_run(auto& way, auto& run) {
  pack_record(way, run.record);
  pack_optional(way, run.details, [&](auto& details) {
    pack_optional(way, details.identity, [&](auto& identity) { pack_identity(way, identity); });
    way.number(details.start.first);
    way.text(details.start.second);
    way.number(details.last_step);
  });
}

void append_texts(const TextTable& table, Packer& content) {
  content.count(table.texts().size());
  for (const std::string& text : table.texts()) content.own_text(text);
}

/// Whether all that the configuration is made of can be written as texts.
bool can_be_packed(const RunRecord& run) {
  const auto& sections = run.config.sections();
  return run.config.is_map() && std::none_of(sections.begin(), sections.end(),
                                             [](const auto& one) { return one->text().empty(); });
}

}  // namespace

RunIndex::RunIndex(const std::vector<std::string>& folders, std::int64_t now, ConfigPool& pool)
    : begun_(now), file_("index", key_of(folders)), text_(file_.read()) {
  if (text_.empty()) return;
  try {
    take_entries(pool);
  } catch (const DataError&) {  // all is read anew
    entries_.clear();
  }
}

void RunIndex::take_entries(ConfigPool& pool) {
  Unpacker file(text_, texts_);
  sections_.resize(file.count());
  for (auto& one : sections_) one = pool.section(file.own_text());
  texts_.resize(file.count());
  for (std::string_view& one : texts_) one = file.own_text();
  const std::size_t count = file.count();
  entries_.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view folder = file.own_text();
    const auto print = file.number<std::uint64_t>();
    entries_[folder] = {print, file.own_text()};
  }
}

IndexedRun RunIndex::unpacked(const std::string& folder, const Entry& entry) const {
  Unpacker bytes(entry.bytes, texts_);
  RecordLoader loader(bytes, sections_);
  IndexedRun run;
  pack_run(loader, run);
  run.record.folder = folder;
  return run;
}

std::optional<IndexedRun> RunIndex::find(const std::string& folder,
                                         const FolderState& state) const {
  const auto entry = entries_.find(folder);
  if (entry == entries_.end() || entry->second.print != state.print) return std::nullopt;
  try {
    return unpacked(folder, entry->second);
  } catch (const DataError&) {
    return std::nullopt;
  }
}

bool RunIndex::is_settled(const FolderState& state) const {
  return state.youngest < begun_ - kResolution;
}

void RunIndex::add(const IndexedRun& run, const FolderState& state) {
  const RunRecord& record = run.record;
  if (!is_on() || !record.status.finished() || !can_be_packed(record)) return;
  if (!is_settled(state)) return;
  append(run, state.print);
}

void RunIndex::append(const IndexedRun& run, std::uint64_t print) {
  Packer packer(new_texts_);
  RecordSaver saver(packer, new_sections_);
  pack_run(saver, run);
  fresh_.push_back({run.record.folder, print, packer.bytes()});
}

void RunIndex::add_kept() {
  for (const auto& [folder, entry] : entries_) {
    if (!entry.kept) continue;
    append(unpacked(std::string(folder), entry), entry.print);
  }
}

void RunIndex::save() {
  if (!is_on() || fresh_.size() < kWorth) return;
  try {
    add_kept();
  } catch (const DataError&) {  // they are read anew next time
  }
  TextTable none;
  Packer content(none);
  append_texts(new_sections_, content);
  append_texts(new_texts_, content);
  content.count(fresh_.size());
  for (const Fresh& one : fresh_) {
    content.own_text(one.folder);
    content.number(one.print);
    content.own_text(one.bytes);
  }
  file_.write(content.bytes());
}

}  // namespace attnlab
