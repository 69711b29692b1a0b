#include "framework/runs/run_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "framework/base/error.h"
#include "framework/base/foreign_text.h"
#include "framework/base/json.h"
#include "framework/base/parsed_json.h"
#include "framework/base/text.h"
#include "framework/runs/stored_run.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kParts[] = {"model", "attention", "task", "dataset"};

/// Null without a file.
json read_environment_file(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return nullptr;
  json in;
  try {
    in = parsed_json_file(path);
  } catch (const json::exception& damage) {
    throw DataError(fmt::format("{}: damaged: {}", path, damage.what()));
  }
  if (!in.is_object()) throw DataError(path + ": damaged: it holds no JSON object");
  return in;
}

/// The members that say under which conditions a run was made.
void read_conditions(const json& in, RunResult& run) {
  const auto take = [&](const std::string& key, const std::string& pointer) {
    const json::json_pointer at(pointer);
    if (in.contains(at)) run.environment[key] = plain_text(in.at(at));
  };
  take("data.fingerprint", "/data/fingerprint");
  for (const std::string part : kParts) take(part + ".plugin", fmt::format("/{}/hash", part));
  for (const auto& [key, part] : in.items()) {  // of some layers
    if (!key.starts_with("attention.layers.") || !part.is_object() || !part.contains("hash")) {
      continue;
    }
    run.environment["attention.plugin"] += ", " + plain_text(part.at("hash"));
  }
  take("machine.cpu", "/machine/cpu");
  take("device", "/device");
  // What all had before it was said. Of a run that has not begun nothing is known.
  if (!in.empty()) run.environment["products"] = in.value("products", "float32");
  take("kernel", "/kernels/attention");
  take("instructions", "/kernels/instructions");
  take("processes", "/processes");
  take("threads", "/threads");
  take("together", "/together");
  take("libtorch", "/libtorch/version");
  take("attnlab", "/attnlab");
  take("framework.revision", "/framework/revision");
  if (in.contains("together")) run.together = in.at("together").get<std::int64_t>();
  if (const auto began = in.value("began_together", std::int64_t{1}); began > run.together) {
    run.notes.push_back(
        fmt::format("begun as one of {} that were trained together, and restarted {}", began,
                    run.together == 1 ? "alone" : "with fewer"));
  }
  const auto text = [](const json& of, const char* pointer) {
    const json::json_pointer at(pointer);
    return of.contains(at) ? plain_text(of.at(at)) : "";
  };
  constexpr std::pair<const char*, const char*> kOfAStart[] = {
      {"the instructions of {}", "/kernels/instructions"},
      {"{} threads", "/threads"},
      {"the processor {}", "/machine/cpu"},
      {"LibTorch {}", "/libtorch/version"}};
  std::int64_t most = run.together;
  if (in.contains("accepted")) {
    run.notes.push_back(fmt::format("begun although, by --accept-changes, {} since it was filed",
                                    join(in.at("accepted").get<std::vector<std::string>>(), ", ")));
  }
  for (const json& resumed : in.value("resumed", json::array())) {
    const auto step = resumed.value("step", std::int64_t{0});
    for (const auto& [what, pointer] : kOfAStart) {
      const std::string first = text(in, pointer), now = text(resumed, pointer);
      if (first.empty() || now.empty() || now == first) continue;
      run.notes.push_back(fmt::format(
          "begun with {}, went on at step {} with {}: numbers may differ in their last digits",
          fmt::format(fmt::runtime(what), first), step, fmt::format(fmt::runtime(what), now)));
    }
    if (resumed.contains("accepted")) {
      run.notes.push_back(
          fmt::format("went on at step {} although, by --accept-changes, {}", step,
                      join(resumed.at("accepted").get<std::vector<std::string>>(), ", ")));
    }
    if (resumed.value("together", run.together) < run.together) {
      run.notes.push_back(fmt::format(
          "begun as one of {} that were trained together, and trained {} from step {} on",
          run.together, resumed.at("together") == 1 ? "alone" : "with fewer", step));
    }
    most = std::max(most, resumed.value("together", most));
  }
  run.together = most;  // what was measured is of a process that had as many
}

/// Only the largest memory of the whole process is known.
void forget_shared_memory(RunResult& run) {
  if (run.together < 2 || run.status.metrics.erase(kPeakMemory) == 0) return;
  run.notes.push_back(
      fmt::format("trained together with others in one process ({} runs): {} is that of all and is "
                  "left out, and speed is a share of theirs",
                  run.together, kPeakMemory));
}

void add_evaluation(const EvaluationRecord& record, RunResult& run) {
  for (const auto& [name, value] : record.metrics) {
    run.status.metrics[fmt::format("{}/{}", record.entry, name)] = value;
  }
  for (MetricInfo info : record.infos) {
    info.name = fmt::format("{}/{}", record.entry, info.name);
    run.infos.push_back(std::move(info));
  }
  if (record.done && !record.infos.empty()) {
    MetricInfo headline = record.infos.front();
    headline.name = fmt::format("{}/{}", record.entry, headline.name);
    run.evaluation_headlines.push_back(std::move(headline));
  }
}

/// Results of other code or data than the run's, all of one kind in one note.
void note_changes(const std::vector<EvaluationRecord>& records, RunResult& run) {
  std::map<std::string, std::vector<std::string>> entries;  // by what had changed
  for (const EvaluationRecord& record : records) {
    if (record.done && !record.changes.empty()) {
      entries[one_line(join(record.changes, ", "))].push_back(record.entry);
    }
  }
  for (const auto& [changes, names] : entries) {
    run.notes.push_back(
        fmt::format("evaluation {}: since the run began, {}", join(names, ", "), changes));
  }
}

/// Results that are missing, all of one reason in one note.
void note_failures(const std::vector<EvaluationRecord>& records, RunResult& run) {
  std::map<std::string, std::vector<std::string>> entries;  // by reason
  for (const EvaluationRecord& record : records) {
    if (!record.done) entries[one_line(record.reason)].push_back(record.entry);
  }
  for (const auto& [reason, names] : entries) {
    run.notes.push_back(fmt::format("evaluation {}: failed: {}", join(names, ", "), reason));
  }
}

void add_evaluations(const std::string& folder, RunResult& run) {
  Evaluations all = read_evaluations(folder);
  for (const EvaluationRecord& record : all.records) {
    if (record.done) add_evaluation(record, run);
  }
  for (const std::string& entry : all.replaced) {
    run.notes.push_back(
        fmt::format("evaluation {}: results of several settings; the newest count", entry));
  }
  note_changes(all.records, run);
  note_failures(all.records, run);
  for (const std::string& file : all.damaged) {
    run.notes.push_back("an evaluation cannot be read: " + file);
  }
  run.evaluations = std::move(all.records);
  run.damaged = std::move(all.damaged);
}

Absence absence_of(RunState state) {
  switch (state) {
    case RunState::pending:
      return Absence::pending;
    case RunState::running:
      return Absence::running;
    case RunState::interrupted:
      return Absence::interrupted;
    case RunState::failed:
      return Absence::failed;
    case RunState::diverged:
      return Absence::diverged;
    case RunState::done:
      break;
  }
  return Absence::no_value;
}

}  // namespace

std::vector<std::string> RunResult::not_finite() const {
  std::vector<std::string> names;
  if (!done()) return names;
  for (const auto& [name, value] : status.metrics) {
    if (!std::isfinite(value)) names.push_back(name);
  }
  return names;
}

std::optional<double> RunResult::value(const std::string& metric) const {
  const auto found = status.metrics.find(metric);
  if (!done() || found == status.metrics.end() || !std::isfinite(found->second)) {
    return std::nullopt;
  }
  return found->second;
}

Gap RunResult::gap(const std::string& metric) const {
  if (!done()) return {absence_of(status.state), status.reason};
  const auto found = status.metrics.find(metric);
  if (found != status.metrics.end()) {
    if (std::isfinite(found->second)) return {};
    return {Absence::not_finite,
            fmt::format("the run is done, and its {} is not a finite number", metric)};
  }
  for (const EvaluationRecord& one : evaluations) {
    if (one.done || metric.rfind(one.entry + "/", 0) != 0) continue;
    return {Absence::failed, fmt::format("evaluation {}: {}", one.entry, one.reason)};
  }
  return {Absence::no_value, ""};
}

std::set<std::string> RunResult::details() const {
  std::set<std::string> out;
  for (const EvaluationRecord& one : evaluations) {
    for (const auto& [name, value] : one.metrics) out.insert(fmt::format("{}/{}", one.entry, name));
  }
  for (const MetricInfo& headline : evaluation_headlines) out.erase(headline.name);
  return out;
}

RunResult read_result(const std::string& folder) {
  RunResult run;
  const RunFolder files(folder);
  run.status = files.status();
  const std::string path = files.file("environment.json");
  json environment = read_environment_file(path);
  if (environment.is_null()) environment = json::object();
  try {
    if (environment.contains("metrics")) run.infos = read_metric_infos(environment.at("metrics"));
    read_conditions(environment, run);
    forget_shared_memory(run);
    run.costs = read_costs(environment, run.status.metrics);
  } catch (const json::exception& damage) {
    throw DataError(fmt::format("{}: damaged: {}", path, damage.what()));
  } catch (const DataError& damage) {
    throw DataError(fmt::format("{}: damaged: {}", path, damage.what()));
  }
  run.stored = stored_source(folder);
  if (!run.stored.empty()) {
    // Of another build: restoring has compared versions, and hashes of files say nothing more.
    for (const std::string part : kParts) run.environment.erase(part + ".plugin");
  }
  add_evaluations(folder, run);
  return run;
}

}  // namespace attnlab
