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
  using Saver::Saver;
  void config(const RunConfig& config) {
    count(config.sections().size());
    for (const auto& section : config.sections()) packer_.text(section->text());
  }
};

class RecordLoader : public Loader {
 public:
  RecordLoader(Unpacker& unpacker, ConfigPool& pool) : Loader(unpacker), pool_(pool) {}

  void config(RunConfig& config) {
    RunConfig::Sections sections(unpacker_.count());
    for (auto& section : sections) section = pool_.section(unpacker_.text());
    config = RunConfig(std::move(sections));
  }

 private:
  ConfigPool& pool_;
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
  for (auto* text : {&one.entry, &one.hash, &one.split, &one.reason, &one.set, &one.weights}) {
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

std::string packed(const IndexedRun& run, TextTable& texts) {
  Packer packer(texts);
  RecordSaver saver(packer);
  pack_run(saver, run);
  return packer.bytes();
}

/// Whether all that the configuration is made of can be written as texts.
bool can_be_packed(const RunRecord& run) {
  const auto& sections = run.config.sections();
  return run.config.is_map() && std::none_of(sections.begin(), sections.end(),
                                             [](const auto& one) { return one->text().empty(); });
}

}  // namespace

RunIndex::RunIndex(const std::vector<std::string>& folders, std::int64_t now)
    : begun_(now), file_("index", key_of(folders)), text_(file_.read()) {
  if (text_.empty()) return;
  try {
    take_entries();
  } catch (const DataError&) {  // all is read anew
    entries_.clear();
  }
}

void RunIndex::take_entries() {
  Unpacker file(text_, texts_);
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

IndexedRun RunIndex::unpacked(const std::string& folder, const Entry& entry,
                              ConfigPool& pool) const {
  Unpacker bytes(entry.bytes, texts_);
  RecordLoader loader(bytes, pool);
  IndexedRun run;
  pack_run(loader, run);
  run.record.folder = folder;
  return run;
}

std::optional<IndexedRun> RunIndex::find(const std::string& folder, const FolderState& state,
                                         ConfigPool& pool) const {
  const auto entry = entries_.find(folder);
  if (entry == entries_.end() || entry->second.print != state.print) return std::nullopt;
  try {
    return unpacked(folder, entry->second, pool);
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
  fresh_.push_back({record.folder, state.print, packed(run, new_texts_)});
}

void RunIndex::add_kept() {
  ConfigPool pool;
  for (const auto& [folder, entry] : entries_) {
    if (!entry.kept) continue;
    const IndexedRun run = unpacked(std::string(folder), entry, pool);
    fresh_.push_back({run.record.folder, entry.print, packed(run, new_texts_)});
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
  content.count(new_texts_.texts().size());
  for (const std::string& text : new_texts_.texts()) content.own_text(text);
  content.count(fresh_.size());
  for (const Fresh& one : fresh_) {
    content.own_text(one.folder);
    content.number(one.print);
    content.own_text(one.bytes);
  }
  file_.write(content.bytes());
}

}  // namespace attnlab
