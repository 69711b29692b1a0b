#include "framework/train/environment.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "framework/base/cores.h"
#include "framework/base/files.h"
#include "framework/runs/metric_infos.h"
#include "framework/train/costs.h"

namespace attnlab {
namespace {

using nlohmann::json;

constexpr const char* kCounted = "examples";

/// The value of the first line "key : value" of a file of /proc; empty without one.
std::string proc_value(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const std::size_t colon = line.find(':');
    const std::size_t start = line.find_first_not_of(" \t", colon + 1);
    if (colon != std::string::npos && start != std::string::npos) return line.substr(start);
  }
  return "";
}

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

json part_json(const Part& part) {
  return {{"id", part.id}, {"path", part.path}, {"hash", file_hash(part.path)}};
}

}  // namespace

std::string machine_json() {
  utsname name{};
  ::uname(&name);
  const json out = {
      {"cpu", proc_value("/proc/cpuinfo", "model name")},
      {"cores", available_cores()},
      {"memory", proc_value("/proc/meminfo", "MemTotal")},
      {"system", std::string(name.sysname) + " " + name.release + " " + name.machine}};
  return out.dump(2);
}

std::vector<MetricInfo> task_metrics(const BuiltRun& run) { return run.task->metrics(); }

std::vector<MetricInfo> run_metrics(const BuiltRun& run) {
  std::vector<MetricInfo> all = task_metrics(run);
  for (MetricInfo& info : host_metrics(kCounted)) all.push_back(std::move(info));
  return all;
}

std::string environment_json(const BuiltRun& run) {
  const Experiment& experiment = run.experiment;
  const DatasetInfo& data = run.dataset->info();
  json out = {{"attnlab", ATTNLAB_VERSION},
              {"started", now_utc()},
              {"machine", json::parse(machine_json())},
              {"threads", at::get_num_threads()},
              {"device", run.device.str()},
              {"libtorch", {{"version", TORCH_VERSION}, {"build", at::show_config()}}},
              {"model", part_json(experiment.model)},
              {"attention", part_json(experiment.attention)},
              {"task", part_json(experiment.task)},
              {"dataset", part_json(experiment.dataset)},
              {"data", {{"source", data.source}, {"fingerprint", data.fingerprint}}},
              {"parameters", run.parameter_count()},
              {"flops", forward_flops(run)}};
  if (run.together > 1) out["together"] = run.together;
  add_metrics(task_metrics(run), kCounted, out);
  return out.dump(2) + "\n";
}

}  // namespace attnlab
