#include "framework/runs/run_folder.h"

#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <filesystem>
#include <optional>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/json.h"
#include "framework/base/links.h"
#include "framework/base/parsed_json.h"
#include "framework/config/frozen.h"
#include "framework/config/origins.h"
#include "framework/runs/file_time.h"
#include "framework/runs/frozen_run.h"
#include "framework/runs/kept_python.h"
#include "framework/runs/lock_file.h"
#include "framework/runs/stored_run.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kStates[] = {"pending", "running",  "interrupted",
                                        "done",    "diverged", "failed"};

constexpr const char* kConfig = "config.yaml";
constexpr const char* kCheckpoint = "checkpoint.safetensors";
constexpr const char* kBest = "best.safetensors";
constexpr const char* kLines = "metrics.jsonl";
constexpr const char* kEnvironment = "environment.json";
constexpr const char* kIdentity = "identity.json";

/// Files that a run writes before its end, and the members of its status that say so.
constexpr std::pair<const char*, const char*> kOfOneBegun[] = {
    {kCheckpoint, "checkpoint"}, {kEnvironment, "environment"}, {kBest, "best"}};

/// More than a metrics.jsonl has of years of training: 64 GiB.
constexpr std::uint64_t kLongestLines = std::uint64_t{64} << 30;

/// Of a file's bytes; empty where there is none.
/// @throws DataError where it is longer than it may be: reading one with holes may take an hour
std::string check_of(const std::string& path, std::uint64_t most = kLargestRecord) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return "";
  if (fs::file_size(path, error) <= most || error) return hex(*file_fingerprint(path));
  throw DataError(fmt::format("{} is longer than {} MiB, which no run's is", path, most >> 20));
}

/// Of identity.json, without what `--accept-revision` adds to it later; empty where it has none.
std::string check_of_identity(const RunFolder& folder) {
  try {
    auto identity = read_identity(folder.path());
    if (!identity) return "";
    identity->accepted.clear();
    return hex(fingerprint(identity_json(*identity)));
  } catch (const Error&) {
    return "";
  }
}

/// Of the files that say what a finished run's numbers are of; without those that are not there.
json checks_of(const RunFolder& folder) {
  json checks = {{kConfig, check_of(folder.file(kConfig))},
                 {kEnvironment, check_of(folder.file(kEnvironment))},
                 {kIdentity, check_of_identity(folder)}};
  for (auto at = checks.begin(); at != checks.end();) at = *at == "" ? checks.erase(at) : ++at;
  return checks;
}

/// What a status says of the files beside it still holds. (A result without its checkpoint is
/// whole: people may delete that to save space.)
void check_files(const RunFolder& folder, const RunStatus& status, const json& in) {
  const std::string lines = in.value("lines", "");
  if (!lines.empty() && lines != check_of(folder.file(kLines), kLongestLines)) {
    throw DataError(fmt::format("{} is missing or was changed since the run ended", kLines));
  }
  if (status.finished()) {
    const json then = in.value("files", json::object()), now = checks_of(folder);
    for (const auto& [name, check] : then.items()) {
      if (now.value(name, json()) == check) continue;
      throw DataError(fmt::format("{} is missing or was changed since the run ended", name));
    }
    return;
  }
  std::error_code error;
  for (const auto& [name, key] : kOfOneBegun) {
    if (!in.value(key, false) || fs::exists(folder.file(name), error)) continue;
    throw DataError(fmt::format("{} is missing, which the run had written", name));
  }
}

/// @throws DataError when another hand than the program's wrote it.
void check_itself(json status) {
  const std::string check = status.value("check", "");
  if (check.empty()) return;  // of an earlier version
  status.erase("check");
  if (check != hex(fingerprint(json_text(status)))) {
    throw DataError("its content does not fit its check: it was edited, or a disk fails");
  }
}

void make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error) return;
  throw FileError(fmt::format("{}: cannot create the run's folder: {}", path, error.message()));
}

/// When a run was begun first, by its environment.json; nothing where that does not say.
std::optional<std::int64_t> recorded_start(const RunFolder& folder) {
  try {
    const json environment = parsed_json_file(folder.file(kEnvironment));
    const auto text = environment.at("started").get<std::string>();
    std::tm parts{};
    const char* const end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
    if (end != nullptr && *end == '\0') return ::timegm(&parts);
  } catch (const json::exception&) {  // damaged, or of another form
  } catch (const Error&) {            // not there, or not to be read
  }
  return std::nullopt;
}

RunStatus parse_status(const json& in) {
  RunStatus status;
  status.state = parse_state(in.at("state").get<std::string>());
  status.step = in.at("step").get<std::int64_t>();
  status.steps = in.at("steps").get<std::int64_t>();
  status.epoch = in.at("epoch").get<double>();
  status.seconds = in.at("seconds").get<double>();
  read_used_time(in, status);
  status.reason = in.value("reason", "");
  for (const auto& [name, value] : in.at("metrics").items()) {
    status.metrics[name] = value.is_null() ? std::nan("") : value.get<double>();
  }
  return status;
}

}  // namespace

std::string_view name_of(RunState state) { return kStates[static_cast<std::size_t>(state)]; }

RunState parse_state(const std::string& name) {
  for (std::size_t i = 0; i < std::size(kStates); ++i) {
    if (name == kStates[i]) return static_cast<RunState>(i);
  }
  throw DataError(fmt::format("unknown state '{}'", name));
}

void add_used_time(const RunStatus& status, json& record) {
  if (status.processor_seconds > 0) record["processor_seconds"] = status.processor_seconds;
  if (status.device_seconds > 0) record["device_seconds"] = status.device_seconds;
}

void read_used_time(const json& record, RunStatus& status) {
  status.processor_seconds = record.value("processor_seconds", 0.0);
  status.device_seconds = record.value("device_seconds", 0.0);
}

RunFolder RunFolder::of(const std::string& root, const Experiment& experiment, std::int64_t seed,
                        const Identity& identity) {
  return RunFolder(fmt::format("{}/{}/{}/{}-{}", root, experiment.name, experiment.attention.label,
                               seed, identity.hash().substr(0, 8)));
}

RunFolder RunFolder::of(const std::string& root, const Experiment& experiment, std::int64_t seed) {
  return of(root, experiment, seed, identity_of(experiment, ""));
}

std::string RunFolder::place() const {
  const fs::path path(path_), attention = path.parent_path();
  return (attention.parent_path().filename() / attention.filename() / path.filename()).string();
}

RunStart RunFolder::start() const {
  const std::optional<std::int64_t> recorded = recorded_start(*this);
  return {recorded ? *recorded : microseconds_of_file(file(kConfig)) / 1'000'000, place()};
}

std::string RunFolder::label(const Experiment& experiment, std::int64_t seed) {
  return fmt::format("{}/{}/{}", experiment.name, experiment.attention.label, seed);
}

bool RunFolder::exists() const {
  std::error_code error;
  return fs::exists(file("config.yaml"), error);
}

void RunFolder::freeze(const Experiment& experiment, std::int64_t seed) const {
  if (!exists()) freeze(experiment, seed, identity_of(experiment, ""));
}

void RunFolder::freeze(const Experiment& experiment, std::int64_t seed,
                       const Identity& identity) const {
  if (exists()) return;
  make_folder(path_);
  refuse_links(path_);
  remove_restored(path_);  // of a process that was killed: else it would count for this run
  write_file(file(kLockFile), lock_text({&experiment}, {identity.data}));
  freeze_without_lock(*this, experiment, seed, identity);
}

void freeze_without_lock(const RunFolder& folder, const Experiment& experiment, std::int64_t seed,
                         const Identity& identity) {
  if (folder.exists()) return;
  make_folder(folder.path());
  Node config = experiment.resolved;
  Node seeds = Node::list();
  seeds.items().push_back(Node::scalar(std::to_string(seed)));
  config.set("seeds", seeds);
  keep_python_files(experiment, folder.path());
  write_file(folder.file("origins.txt"), origins_text(config));
  write_file(folder.file("identity.json"), identity_json(identity));
  write_file(folder.file("config.yaml"), to_yaml(config));  // last: it makes the folder a run's
}

RunStatus RunFolder::status() const {
  const std::string path = file("status.json");
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  if (!exists() && is_restored(path_)) return {};  // by a process that was killed before its end
  try {
    const json in = parsed_json_file(path);
    check_itself(in);
    RunStatus status = parse_status(in);
    check_files(*this, status, in);
    return status;
  } catch (const std::exception& damage) {
    throw DataError(fmt::format("{}: damaged: {}; remove the run's folder to run it again", path,
                                damage.what()));
  }
}

void RunFolder::write_status(const RunStatus& status) const {
  json metrics = json::object();
  for (const auto& [name, value] : status.metrics) {
    metrics[name] = finite_or_null(value);
  }
  json out = {{"state", name_of(status.state)}, {"step", status.step},
              {"steps", status.steps},          {"epoch", status.epoch},
              {"seconds", status.seconds},      {"metrics", metrics}};
  add_used_time(status, out);
  if (!status.reason.empty()) out["reason"] = one_line(without_backtrace(status.reason));
  std::error_code error;
  for (const auto& [name, key] : kOfOneBegun) {
    if (fs::exists(file(name), error)) out[key] = true;
  }
  if (status.finished()) {
    const std::string lines = check_of(file(kLines), kLongestLines);
    if (!lines.empty()) out["lines"] = lines;
    out["files"] = checks_of(*this);
  }
  out["check"] = hex(fingerprint(json_text(out)));
  write_file(file("status.json"), json_text(out));
}

Experiment RunFolder::experiment(const Catalogue& catalogue) const {
  if (!exists()) {
    throw ConfigError(Place{path_, 0, 0}, "is not a run folder (it has no config.yaml)");
  }
  return frozen_experiment(frozen_file(file("config.yaml")), catalogue, "config");
}

}  // namespace attnlab
