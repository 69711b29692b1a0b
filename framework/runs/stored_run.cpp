#include "framework/runs/stored_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <sstream>
#include <tuple>

#include "framework/base/files.h"
#include "framework/base/json.h"
#include "framework/base/links.h"
#include "framework/base/parsed_json.h"
#include "framework/base/text.h"
#include "framework/experiment/names.h"
#include "framework/runs/frozen_run.h"
#include "framework/runs/lock_file.h"
#include "framework/runs/metric_infos.h"
#include "framework/runs/run_records.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kSource = "/stored.json";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

json numbers_json(const std::map<std::string, double>& numbers) {
  json out = json::object();
  for (const auto& [name, value] : numbers) out[name] = finite_or_null(value);
  return out;
}

std::map<std::string, double> read_numbers(const json& in) {
  std::map<std::string, double> out;
  for (const auto& [name, value] : in.items()) {
    out[name] = value.is_null() ? std::nan("") : value.get<double>();
  }
  return out;
}

/// What run_result.cpp reads; nothing that names people, hosts or folders.
json kept_environment(const json& in) {
  json out = json::object();
  const auto keep = [&](const char* pointer) {
    const json::json_pointer at(pointer);
    if (in.contains(at)) out[at] = in.at(at);
  };
  for (const char* pointer :
       {"/attnlab", "/framework/revision", "/machine/cpu", "/device", "/products", "/kernels",
        "/threads", "/together", "/began_together", "/accepted", "/libtorch/version",
        "/data/fingerprint", "/parameters", "/flops", "/metrics", "/costs", "/started"}) {
    keep(pointer);
  }
  for (const json& start : in.value("resumed", json::array())) {
    json kept = json::object();
    for (const char* pointer : {"/step", "/accepted", "/together", "/kernels", "/threads",
                                "/machine/cpu", "/libtorch/version"}) {
      const json::json_pointer at(pointer);
      if (start.contains(at)) kept[at] = start.at(at);
    }
    out["resumed"].push_back(std::move(kept));
  }
  return out;
}

/// Of all that a stored run says.
std::string check_of(json stored) {
  stored.erase("check");
  return hex(fingerprint(json_text(stored, 1)));
}

json evaluation_json(const EvaluationRecord& one) {
  json out = {{"entry", one.entry},
              {"hash", one.hash},
              {"split", one.split},
              {"set", json::parse(one.set)},
              {"metrics", numbers_json(one.metrics)},
              {"infos", metric_infos_json(one.infos)},
              {"seconds", one.seconds}};
  if (!one.weights.empty()) out["weights"] = one.weights;
  if (!one.changes.empty()) out["changes"] = one.changes;
  return out;
}

EvaluationRecord read_evaluation(const json& in) {
  EvaluationRecord one;
  one.entry = in.at("entry");
  one.hash = in.at("hash");
  evaluation_file(one.entry, one.hash);  // refuses what would be written elsewhere
  one.split = in.at("split");
  one.set = in.at("set").dump();
  one.metrics = read_numbers(in.at("metrics"));
  one.infos = read_metric_infos(in.at("infos"));
  one.seconds = in.at("seconds");
  one.weights = in.value("weights", "");
  one.changes = in.value("changes", std::vector<std::string>{});
  one.done = true;
  return one;
}

json identity_member(const StoredRun& run) {
  json plugins = json::object();
  for (const auto& [kind, file] : run.identity.plugins) {
    plugins[kind] = {{"hash", file.hash}, {"name", file.name}};
    const auto known = run.plugins.find(kind);
    if (known == run.plugins.end()) continue;
    plugins[kind]["id"] = known->second.id;
    plugins[kind]["version"] = known->second.version;
  }
  return {{"configuration", run.identity.configuration},
          {"data", run.identity.data},
          {"framework", run.identity.framework},
          {"numbers", run.numbers},
          {"plugins", std::move(plugins)},
          {"judges", run.judges},
          {"evaluations", run.entries}};
}

void read_identity_member(const json& in, StoredRun& run) {
  run.identity.configuration = in.at("configuration");
  run.identity.data = in.at("data");
  run.identity.framework = in.at("framework");
  for (const auto& [kind, file] : in.at("plugins").items()) {
    run.identity.plugins[kind] = {file.at("name"), file.at("hash")};
    if (!file.contains("version")) continue;
    run.plugins[kind] = {file.at("id"), file.at("version")};
  }
  // Of earlier files these are not known, and what they are needed for is refused.
  run.numbers = in.value("numbers", kUnknownNumbers);
  run.judges = in.value("judges", PluginVersions{});
  run.entries = in.value("evaluations", std::map<std::string, PluginVersions>{});
}

/// stored.json of a run's folder; empty of a run that was made here.
/// @throws DataError for a damaged one.
std::optional<json> read_source(const std::string& run_folder) {
  const std::string path = run_folder + kSource;
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  try {
    json in = parsed_json_file(path);
    in.at("from").get<std::string>();
    in.at("identity").at("plugins");
    return in;
  } catch (const json::exception& damage) {
    throw DataError(
        fmt::format("{}: damaged: {}; remove the run's folder to restore or run it again", path,
                    damage.what()));
  }
}

ConfigError lacks(const std::string& run_folder, const std::string& what) {
  return {Place{run_folder, 0, 0}, what};
}

PluginVersions versions_of(const std::vector<LockedPart>& parts) {
  PluginVersions out;
  for (const LockedPart& part : parts) out[part.kind + " " + part.id] = part.version;
  return out;
}

/// The sections that identity.json must name, and those of other mechanisms that it does name.
std::vector<std::string> sections_of(const Identity& identity) {
  std::vector<std::string> keys;
  for (const Kind kind : {Kind::model, Kind::attention, Kind::task, Kind::dataset}) {
    keys.emplace_back(name_of(kind));
  }
  for (const auto& [key, file] : identity.plugins) {
    if (key.starts_with("attention.layers.")) keys.push_back(key);
  }
  return keys;
}

/// Takes the parts of a run out of what its lock names: those whose files identity.json names. What
/// is left are its judges.
void take_parts(const std::string& run_folder, std::vector<LockedPart> own, StoredRun& out) {
  std::set<std::pair<std::string, std::string>> taken;  // one plugin may serve several layers
  for (const std::string& key : sections_of(out.identity)) {
    const auto file = out.identity.plugins.find(key);
    const auto found = std::find_if(own.begin(), own.end(), [&](const LockedPart& part) {
      return file != out.identity.plugins.end() && part.kind == key.substr(0, key.find('.')) &&
             part.hash == file->second.hash;
    });
    if (found == own.end()) {
      throw lacks(run_folder, fmt::format("its lock.json does not name the {} that identity.json "
                                          "names: its version is not known; run it again",
                                          key));
    }
    out.plugins[key] = {found->id, found->version};
    taken.emplace(found->kind, found->hash);
  }
  std::erase_if(own, [&](const LockedPart& part) {
    return taken.count({part.kind, part.hash}) > 0;
  });
  out.judges = versions_of(own);
}

/// The version of the numbers of the attnlab that trained a run; unknown where it went on under
/// another one.
std::int64_t numbers_of(const json& environment) {
  const json::json_pointer at("/framework/numbers");
  const std::int64_t first = environment.value(at, kUnknownNumbers);
  for (const json& resumed : environment.value("resumed", json::array())) {
    if (resumed.value(at, kUnknownNumbers) != first) return kUnknownNumbers;
  }
  return first;
}

/// Versions of the plugins that made a run and its evaluations, from its lock.
void read_versions(const std::string& run_folder, StoredRun& out) {
  const std::optional<LockedParts> locked = locked_parts(run_folder);
  if (!locked) {
    throw lacks(run_folder,
                "has no lock.json (a run of an earlier attnlab): which versions of its plugins "
                "made it is not known; run it again");
  }
  take_parts(run_folder, locked->own, out);
  for (const EvaluationRecord& one : out.evaluations) {
    const auto found = locked->evaluations.find(one.entry);
    const bool mean = std::any_of(
        out.evaluations.begin(), out.evaluations.end(),
        [&](const EvaluationRecord& other) { return other.entry.starts_with(one.entry + "/"); });
    if (found == locked->evaluations.end() && mean) continue;  // its points have theirs
    if (found == locked->evaluations.end()) {
      throw lacks(run_folder, fmt::format("its lock.json does not name the plugins of its "
                                          "evaluation '{}'; attnlab eval {} adds them",
                                          one.entry, run_folder));
    }
    out.entries[one.entry] = versions_of(found->second);
  }
}

constexpr int kStoredDepth = 2;  // EXPERIMENT/ATTENTION/SEED-HASH.json

/// One that cannot be read does not hide the others.
/// @param depth  how many folders lie between this one and the files
void add_stored_files(const fs::path& folder, int depth, std::vector<std::string>& files,
                      std::vector<std::string>& unreadable) {
  std::error_code error, unknown;
  fs::directory_iterator at(folder, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    if (depth > 0) {
      const bool own = at->is_directory(unknown) && !at->is_symlink(unknown);
      if (own) add_stored_files(at->path(), depth - 1, files, unreadable);
    } else if (at->path().extension() == ".json" && at->is_regular_file(unknown)) {
      files.push_back(at->path().string());
    }
  }
  if (!error || error == std::errc::no_such_file_or_directory) return;
  unreadable.push_back(fmt::format("{}: cannot be read: {}; check its permissions", folder.string(),
                                   error.message()));
}

}  // namespace

std::string StoredRun::name() const {
  // Without the hashes of plugin files: two builds of one source store one file.
  const std::string what = fmt::format("{};data={};framework={}", identity.configuration,
                                       identity.data, identity.framework);
  return fmt::format("{}/{}/{}-{}.json", experiment, attention, seed,
                     hex(fingerprint(what)).substr(0, 8));
}

StoredRun stored_of(const std::string& run_folder) {
  const RunRecord record = read_run(run_folder);
  if (!record.status.finished()) {
    throw lacks(run_folder,
                fmt::format("is {}; only finished runs are stored", name_of(record.status.state)));
  }
  const auto identity = read_identity(run_folder);
  if (!identity) {
    throw lacks(run_folder,
                "has no identity.json (a run of an earlier attnlab): it cannot be compared with "
                "another machine's");
  }
  for (const std::string* name : {&record.experiment, &record.attention}) {
    const std::string problem = name_problem(*name);
    if (!problem.empty()) throw lacks(run_folder, problem);
  }
  StoredRun out;
  out.experiment = record.experiment;
  out.attention = record.attention;
  out.seed = record.seed;
  out.identity = *identity;
  for (const EvaluationRecord& one : record.evaluations) {
    if (one.done) out.evaluations.push_back(one);
  }
  // What was restored here is stored again as what it was, not as a run of this machine's plugins.
  if (const auto source = stored_plugins(run_folder)) {
    out.identity = source->identity;
    out.numbers = source->numbers;
    out.plugins = source->plugins;
    out.judges = source->judges;
    out.entries = source->entries;
  } else {
    read_versions(run_folder, out);
  }
  const RunFolder folder(run_folder);
  out.config = read_text(folder.file("config.yaml"), kLargestRecord);
  out.status = folder.status();  // without the evaluations' metrics, which stand by themselves
  std::error_code error;
  if (fs::exists(folder.file("environment.json"), error)) {
    const std::string path = folder.file("environment.json");
    try {
      const json environment = parsed_json_file(path);
      out.environment = kept_environment(environment).dump();
      if (stored_source(run_folder).empty()) out.numbers = numbers_of(environment);
    } catch (const json::exception& damage) {
      throw DataError(fmt::format("{}: damaged: {}", path, damage.what()));
    }
  }
  return out;
}

std::string stored_json(const StoredRun& run) {
  const RunStatus& status = run.status;
  json out = {{"schema", 1},
              {"experiment", run.experiment},
              {"attention", run.attention},
              {"seed", run.seed},
              {"identity", identity_member(run)},
              {"config", lines_of(run.config)},
              {"status",
               {{"state", name_of(status.state)},
                {"step", status.step},
                {"steps", status.steps},
                {"epoch", status.epoch},
                {"seconds", status.seconds},
                {"reason", status.reason},
                {"metrics", numbers_json(status.metrics)}}},
              {"environment", json::parse(run.environment)},
              {"evaluations", json::array()}};
  add_used_time(status, out["status"]);
  for (const EvaluationRecord& one : run.evaluations) {
    out["evaluations"].push_back(evaluation_json(one));
  }
  out["check"] = check_of(out);
  return json_text(out, 1);
}

StoredRun read_stored(const std::string& file) try {
  const json in = parsed_json_file(file);
  if (in.at("schema") != 1) throw DataError("it is of another form than this attnlab reads");
  if (in.contains("check") && in.at("check") != check_of(in)) {  // earlier versions wrote none
    throw DataError("its content does not fit its check: it was edited, or a disk fails");
  }
  StoredRun run;
  run.file = file;
  run.experiment = in.at("experiment");
  run.attention = in.at("attention");
  run.seed = in.at("seed");
  read_identity_member(in.at("identity"), run);
  run.config = join(in.at("config").get<std::vector<std::string>>(), "\n") + "\n";
  const json& status = in.at("status");
  run.status.state = parse_state(status.at("state").get<std::string>());
  run.status.step = status.at("step");
  run.status.steps = status.at("steps");
  run.status.epoch = status.at("epoch");
  run.status.seconds = status.at("seconds");
  read_used_time(status, run.status);
  run.status.reason = status.at("reason");
  run.status.metrics = read_numbers(status.at("metrics"));
  run.environment = in.at("environment").dump();
  std::set<std::string> files;
  for (const json& one : in.at("evaluations")) {
    run.evaluations.push_back(read_evaluation(one));
    // Which of them counts would change as the run is restored.
    const std::string& entry = run.evaluations.back().entry;
    if (files.insert(evaluation_file(entry, "0")).second) continue;
    throw DataError(fmt::format("it has two evaluations '{}'", entry));
  }
  if (!run.status.finished()) throw DataError("it is of a run that is not finished");
  return run;
} catch (const FileError&) {
  throw;
} catch (const std::exception& damage) {
  throw DataError(
      fmt::format("{}: not a stored run: {}; store the run again", file, damage.what()));
}

std::vector<std::string> stored_files(const std::string& folder,
                                      std::vector<std::string>& unreadable) {
  std::vector<std::string> files;
  add_stored_files(folder, kStoredDepth, files, unreadable);
  std::sort(files.begin(), files.end());
  return files;
}

void restore(const StoredRun& run, const RunFolder& folder, const Experiment& experiment,
             const Identity& identity) {
  std::error_code error;
  fs::create_directories(folder.path(), error);
  if (error) {
    throw FileError(
        fmt::format("{}: cannot create the run's folder: {}", folder.path(), error.message()));
  }
  refuse_links(folder.path());
  const json source = {{"from", run.file}, {"identity", identity_member(run)}};
  write_file(folder.path() + kSource, json_text(source));
  fs::remove(folder.file("lock.json"), error);  // of a process that was killed before it ran this
  for (const EvaluationRecord& one : run.evaluations) write_evaluation(folder.path(), one);
  write_file(folder.file("environment.json"), json::parse(run.environment).dump(2) + "\n");
  folder.write_status(run.status);
  freeze_without_lock(folder, experiment, run.seed, identity);
  folder.write_status(run.status);  // again, as it holds checks of the files that it finds
}

bool is_restored(const std::string& run_folder) { return is_there(run_folder + kSource); }

void remove_restored(const std::string& run_folder) {
  if (!is_restored(run_folder)) return;
  std::error_code error;
  for (const char* name :
       {"/config.yaml", "/status.json", "/environment.json", "/evaluations", kSource}) {
    fs::remove_all(run_folder + name, error);
    if (!error) continue;
    throw FileError(fmt::format("{}{}: cannot remove it: {}; remove the folder by hand", run_folder,
                                name, error.message()));
  }
}

std::string stored_source(const std::string& run_folder) {
  const auto source = read_source(run_folder);
  return source ? source->at("from").get<std::string>() : "";
}

std::optional<StoredRun> stored_plugins(const std::string& run_folder) try {
  const auto source = read_source(run_folder);
  if (!source) return std::nullopt;
  StoredRun out;
  out.file = source->at("from");
  read_identity_member(source->at("identity"), out);
  return out;
} catch (const json::exception& damage) {
  throw DataError(
      fmt::format("{}{}: damaged: {}; remove the run's folder to restore or run it again",
                  run_folder, kSource, damage.what()));
}

std::optional<std::string> stored_note(const std::vector<RunRecord>& runs) {
  struct Extent {
    std::set<std::string> experiments;
    std::set<std::int64_t> seeds;
    std::int64_t runs = 0;
    bool operator<(const Extent& other) const {
      return std::tie(experiments, seeds, runs) <
             std::tie(other.experiments, other.seeds, other.runs);
    }
  };
  std::map<std::string, Extent> extents;  // by attention
  for (const RunRecord& run : runs) {
    if (run.stored.empty()) continue;
    Extent& extent = extents[run.attention];
    extent.experiments.insert(run.experiment);
    extent.seeds.insert(run.seed);
    ++extent.runs;
  }
  if (extents.empty()) return std::nullopt;
  // Attentions of the same runs stand together: a suite over domains has many of both.
  std::map<Extent, std::vector<std::string>> alike;
  for (const auto& [attention, extent] : extents) alike[extent].push_back(attention);
  std::vector<std::string> parts;
  parts.reserve(alike.size());
  for (const auto& [extent, attentions] : alike) {
    std::vector<std::string> seeds;
    for (const std::int64_t seed : extent.seeds) seeds.push_back(std::to_string(seed));
    parts.push_back(fmt::format("{}{} ({}: {} {}, {} {})", join(attentions, ", "),
                                attentions.size() > 1 ? ", each" : "",
                                join({extent.experiments.begin(), extent.experiments.end()}, ", "),
                                extent.runs, extent.runs == 1 ? "run" : "runs",
                                seeds.size() == 1 ? "seed" : "seeds", join(seeds, ", ")));
  }
  return "stored results, not made here: " + join(parts, "; ");
}

}  // namespace attnlab
