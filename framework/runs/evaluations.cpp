#include "framework/runs/evaluations.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <tuple>

#include "framework/base/error.h"
#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/json.h"
#include "framework/base/parsed_json.h"
#include "framework/runs/evaluation_setting.h"
#include "framework/runs/file_time.h"
#include "framework/runs/metric_infos.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kFolder = "evaluations";
constexpr std::int64_t kLatest = std::int64_t{1} << 60;  // some time in the year 38,000

json to_json(const EvaluationRecord& record) {
  json metrics = json::object();
  for (const auto& [name, value] : record.metrics) {
    metrics[name] = finite_or_null(value);
  }
  json out = {{"entry", record.entry},
              {"hash", record.hash},
              {"split", record.split},
              {"state", record.done ? "done" : "failed"},
              {"reason", one_line(without_backtrace(record.reason))},
              {"metrics", std::move(metrics)},
              {"infos", metric_infos_json(record.infos)},
              {"set", json::parse(record.set)},
              {"seconds", record.seconds}};
  if (!record.weights.empty()) out["weights"] = record.weights;
  if (!record.changes.empty()) out["changes"] = record.changes;
  if (!record.predictions.empty()) out["predictions"] = record.predictions;
  return out;
}

/// @throws DataError when another hand than the program's wrote it.
void check_record(json record) {
  const std::string check = record.value("check", "");
  if (check.empty()) return;  // of an earlier version
  record.erase("check");
  if (check == hex(fingerprint(json_text(record)))) return;
  throw DataError(
      "its content does not fit its check: it was edited, or a disk fails; attnlab eval with "
      "--again measures it again");
}

EvaluationRecord from_json(const json& in) {
  check_record(in);
  EvaluationRecord record;
  record.entry = in.at("entry").get<std::string>();
  record.hash = in.at("hash").get<std::string>();
  record.split = in.at("split").get<std::string>();
  const std::string state = in.at("state").get<std::string>();
  if (state != "done" && state != "failed") {
    throw DataError(fmt::format("unknown state '{}'", state));
  }
  record.done = state == "done";
  record.reason = in.value("reason", "");
  for (const auto& [name, value] : in.at("metrics").items()) {
    record.metrics[name] = value.is_null() ? std::nan("") : value.get<double>();
  }
  record.infos = read_metric_infos(in.at("infos"));
  record.set = in.value("set", json::object()).dump();
  record.seconds = in.value("seconds", 0.0);
  record.weights = in.value("weights", "");
  record.changes = in.value("changes", std::vector<std::string>{});
  record.predictions = in.value("predictions", "");
  record.written = in.value("written", std::int64_t{0});
  if (record.written < 0 || record.written > kLatest) throw DataError("it was never written then");
  return record;
}

std::int64_t microseconds(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
}

/// Keeps the newest of each entry.
void keep_newest(std::vector<EvaluationRecord>& all, Evaluations& out) {
  std::sort(all.begin(), all.end(), [](const EvaluationRecord& a, const EvaluationRecord& b) {
    return std::tie(a.entry, b.written, b.hash) < std::tie(b.entry, a.written, a.hash);
  });
  for (EvaluationRecord& one : all) {
    const std::string& entry = one.entry;
    if (out.records.empty() || out.records.back().entry != entry) {
      out.records.push_back(std::move(one));
    } else if (out.replaced.empty() || out.replaced.back() != entry) {
      out.replaced.push_back(entry);
    }
  }
}

}  // namespace

std::int64_t written_of(const std::string& path) {
  try {
    const std::int64_t written = from_json(parsed_json_file(path)).written;
    if (written > 0) return written;
  } catch (const json::exception&) {  // damaged: it is as old as its file
  } catch (const Error&) {
  }
  return microseconds_of_file(path);
}

std::int64_t written_after(std::int64_t earlier) {
  return std::max(microseconds(std::chrono::system_clock::now()), earlier + 1);
}

std::string evaluation_file(const std::string& entry, const std::string& hash) {
  const bool plain = std::none_of(entry.begin(), entry.end(),
                                  [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (entry.empty() || !plain || entry.front() == '.') {
    throw ConfigError(fmt::format(
        "evaluate: '{}' cannot be part of a file's name; choose letters, digits, - and _", entry));
  }
  // It may come from a file that somebody sent.
  const bool digits = !hash.empty() && hash.size() <= 64 &&
                      hash.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!digits) {
    throw ConfigError(fmt::format(
        "evaluate: '{}' cannot be part of a file's name; a result's hash is hexadecimal digits",
        one_line(hash, 100)));
  }
  std::string name = entry;  // "swap/0.01" of an entry with `over`
  std::replace(name.begin(), name.end(), '/', '~');
  return fmt::format("{}/{}-{}.json", kFolder, name, hash);
}

namespace {

void write_json(const std::string& run_folder, const EvaluationRecord& record, json out) {
  const std::string path =
      fmt::format("{}/{}", run_folder, evaluation_file(record.entry, record.hash));
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (error) {
    throw FileError(fmt::format("{}: cannot create its folder: {}", path, error.message()));
  }
  out["written"] = record.written > 0 ? record.written : written_after(0);
  out["check"] = hex(fingerprint(json_text(out)));
  write_file(path, json_text(out));
}

}  // namespace

void write_evaluation(const std::string& run_folder, const EvaluationRecord& record) {
  write_json(run_folder, record, to_json(record));
}

void write_evaluation(const std::string& run_folder, const EvaluationRecord& record,
                      const EvaluationSetting& setting) {
  json out = to_json(record);
  out["task"] = json::parse(setting.task);
  out["seed"] = setting.seed;
  write_json(run_folder, record, std::move(out));
}

Evaluations read_evaluations(const std::string& run_folder) {
  Evaluations out;
  const fs::path folder = fs::path(run_folder) / kFolder;
  std::error_code error;
  if (!fs::exists(folder, error)) return out;
  std::vector<EvaluationRecord> all;
  fs::directory_iterator entries(folder, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const fs::path& path = entries->path();
    if (path.extension() != ".json") continue;  // one that is being written has another ending
    try {
      EvaluationRecord record = from_json(parsed_json_file(path.string()));
      if (record.written == 0) record.written = microseconds_of_file(path);
      record.file = path.filename().string();
      all.push_back(std::move(record));
    } catch (const json::exception& damage) {
      out.damaged.push_back(fmt::format("{}: damaged: {}", path.string(), damage.what()));
    } catch (const DataError& damage) {
      out.damaged.push_back(fmt::format("{}: damaged: {}", path.string(), damage.what()));
    } catch (const Error& failure) {
      out.damaged.push_back(failure.what());
    }
  }
  if (error) out.damaged.push_back(fmt::format("{}: {}", folder.string(), error.message()));
  std::sort(out.damaged.begin(), out.damaged.end());
  keep_newest(all, out);
  return out;
}

}  // namespace attnlab
