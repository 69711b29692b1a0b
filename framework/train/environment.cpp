#include "framework/train/environment.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "framework/base/cores.h"
#include "framework/base/files.h"
#include "framework/base/json.h"
#include "framework/base/numbers_version.h"
#include "framework/base/parsed_json.h"
#include "framework/base/revision.h"
#include "framework/base/text.h"
#include "framework/costs/costs.h"
#include "framework/experiment/compositions.h"
#include "framework/nn/kernels/dispatch.h"
#include "framework/runs/metric_infos.h"
#include "framework/tensor/blas.h"
#include "framework/train/costs.h"
#include "framework/train/entries.h"

namespace attnlab {
namespace {

using nlohmann::json;

/// The value of the first line "key : value" of a file of /proc; empty without one.
std::string proc_value(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos && trimmed(line.substr(0, colon)) == key) {
      return std::string(trimmed(line.substr(colon + 1)));
    }
  }
  return "";
}

/// The processor's name. Virtual machines give all processors of a maker one name, so that family
/// and model stand behind it where there are such.
std::string processor_name() {
  const char* const file = "/proc/cpuinfo";
  const std::string name = proc_value(file, "model name"), family = proc_value(file, "cpu family");
  if (family.empty()) return name;
  return fmt::format("{}, family {}, model {}", name, family, proc_value(file, "model"));
}

/// Which instructions LibTorch's own kernels use here, "AVX2", as it says of itself.
std::string libtorch_runs_with() {
  constexpr std::string_view kKey = "CPU capability usage: ";
  const std::string text = at::show_config();
  const std::size_t found = text.find(kKey);
  if (found == std::string::npos) return "not known";
  const std::size_t begin = found + kKey.size();
  return text.substr(begin, text.find('\n', begin) - begin);
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
  json out = {{"id", part.id}, {"path", part.path}, {"hash", file_hash(part.path)}};
  const std::map<std::string, std::string> versions = versions_behind(part.path);
  if (!versions.empty()) out["versions"] = versions;
  return out;
}

/// What entries with `when: each` have that the run has not: hashes of plugins' files and of data,
/// by what they are for people.
json of_each(const BuiltRun& run) {
  json all = json::object();
  if (run.each == nullptr) return all;
  const Experiment& own = run.experiment;
  run.each->visit([&](const std::string& entry, const BuiltRun& overlay) {
    const Experiment& other = overlay.experiment;
    const std::vector<const Part*> mine = own.parts();
    for (const Part* part : other.parts()) {
      const auto same = [&](const Part* one) { return one->path == part->path; };
      if (std::any_of(mine.begin(), mine.end(), same)) continue;
      all[fmt::format("the file of {} '{}'", name_of(part->kind), part->name)] =
          file_hash(part->path);
    }
    if (overlay.dataset == run.dataset) return;
    all[fmt::format("the data of evaluation '{}'", entry)] = overlay.dataset->info().fingerprint;
  });
  return all;
}

/// What a process that trains the run works with.
json surroundings(const BuiltRun& run) {
  const Experiment& experiment = run.experiment;
  const DatasetInfo& data = run.dataset->info();
  json out = {
      {"attnlab", ATTNLAB_VERSION},
      {"framework",
       {{"version", ATTNLAB_VERSION},
        {"revision", framework_revision()},
        {"numbers", kNumbersVersion}}},
      {"started", now_utc()},
      {"machine", json::parse(machine_json())},
      {"threads", at::get_num_threads()},
      {"device", run.device.str()},
      {"products", name_of(run.products)},
      {"kernels", {{"attention", asked_attention_kernel()}, {"instructions", kernels_run_with()}}},
      {"libtorch", {{"version", TORCH_VERSION}}},
      {"data", {{"source", data.source}, {"fingerprint", data.fingerprint}}}};
  for (const Part* part : experiment.parts()) out[section_key(*part)] = part_json(*part);
  if (run.world->size() > 1) out["processes"] = run.world->size();
  if (experiment.train.deterministic && !run.device.is_cpu()) out["deterministic"] = true;
  json each = of_each(run);
  if (!each.empty()) out["each"] = std::move(each);
  return out;
}

json read_environment(const std::string& path) {
  try {
    json all = parsed_json_file(path);
    if (!all.is_object() || !all.value("resumed", json::array()).is_array()) {
      throw DataError(fmt::format(
          "{}: damaged: it is not what a run ran on; remove the run's folder to run it again",
          path));
    }
    return all;
  } catch (const json::exception& damage) {
    throw DataError(fmt::format("{}: damaged: {}; remove the run's folder to run it again", path,
                                damage.what()));
  }
}

constexpr const char* kFingerprint = "/data/fingerprint";
constexpr const char* kWorkingFolder = "working_folder";  // in which the run was begun

std::string data_of(const Experiment& experiment) {
  return fmt::format("the data of dataset '{}'", experiment.dataset.name);
}

/// The start whose changes were accepted last; else the first one.
json last_accepted(const json& environment) {
  json last = environment;
  for (const json& resumed : environment.value("resumed", json::array())) {
    if (resumed.contains("accepted")) last = resumed;
  }
  return last;
}

}  // namespace

std::string machine_json() {
  utsname name{};
  ::uname(&name);
  const json out = {{"cpu", processor_name()},
                    {"cores", available_cores()},
                    {"memory", proc_value("/proc/meminfo", "MemTotal")},
                    {"system", fmt::format("{} {} {}", name.sysname, name.release, name.machine)}};
  return out.dump(2);
}

std::vector<std::pair<std::string, std::string>> makers_of_numbers(const BuiltRun& run) {
  return {{"precision of products", std::string(name_of(run.products))},
          {"number of threads", std::to_string(at::get_num_threads())},
          {"processor", processor_name()},
          {"set of instructions", kernels_run_with()},
          {"kernel of attention", asked_attention_kernel()},
          {"set of instructions of LibTorch", libtorch_runs_with()},
          {"BLAS", blas_core()},
          {"LibTorch", TORCH_VERSION}};
}

std::vector<MetricInfo> run_metrics(const BuiltRun& run) {
  std::vector<MetricInfo> all = run.task->metrics();
  for (MetricInfo& info : host_metrics(run.dataset->info().unit)) all.push_back(std::move(info));
  return all;
}

std::string environment_json(const BuiltRun& run) {
  json out = surroundings(run);
  out["libtorch"]["build"] = at::show_config();
  out["libtorch"]["blas_core"] = blas_core();
  out[kParameters] = run.parameter_count();
  out[kFlops] = forward_flops(run);
  if (run.together > 1) out["together"] = run.together;
  if (!run.accepted.empty()) out["accepted"] = run.accepted;
  if (!run.initial_file.empty()) {
    out["init"] = {{"path", run.initial_file},
                   {"hash", file_hash(run.initial_file)},
                   {"unused", run.initial_unused},
                   {"random", run.initial_random}};
    const std::string& map = run.experiment.init->map;
    if (!map.empty()) out["init"]["map"] = file_hash(find_composition(map, "maps"));
  }
  std::error_code error;
  out[kWorkingFolder] = std::filesystem::current_path(error).string();
  add_metrics(run.task->metrics(), run.dataset->info().unit, out);
  return json_text(out);
}

namespace {

constexpr const char* kBeganTogether = "began_together";

/// With how many a run was trained in any of its beginnings; 1 where there was none, or its record
/// cannot be read.
std::int64_t most_together(const std::string& path) {
  std::int64_t most = 1;
  if (!std::filesystem::exists(path)) return most;
  json environment;
  try {
    environment = read_environment(path);
  } catch (const Error&) {
    return most;
  }
  for (const char* key : {"together", kBeganTogether}) {
    const auto found = environment.find(key);
    if (found != environment.end() && found->is_number_integer()) {
      most = std::max(most, found->get<std::int64_t>());
    }
  }
  return most;
}

}  // namespace

void record_environment(const BuiltRun& run, const RunFolder& folder, std::int64_t step) {
  const std::string path = folder.file("environment.json");
  if (step == 0 || !std::filesystem::exists(path)) {
    json first = json::parse(environment_json(run));
    const std::int64_t earlier = most_together(path);
    if (earlier > 1) first[kBeganTogether] = earlier;
    return write_file(path, json_text(first));
  }
  json all = read_environment(path), now = surroundings(run);
  now["step"] = step;
  now["together"] = run.together;
  if (!run.accepted.empty()) now["accepted"] = run.accepted;
  all["resumed"].push_back(std::move(now));
  write_file(path, json_text(all));
}

void look_for_data_of(const RunFolder& folder) {
  std::string begun_in;
  const std::string path = folder.file("environment.json");
  try {
    if (std::filesystem::exists(path)) {
      begun_in = read_environment(path).value(kWorkingFolder, std::string());
    }
  } catch (const Error&) {            // damaged
  } catch (const json::exception&) {  // of another form
  }
  look_for_data_in(begun_in);
}

void record_together(const BuiltRun& run, const RunFolder& folder) {
  const std::string path = folder.file("environment.json");
  json all = read_environment(path);
  (all.contains("resumed") ? all["resumed"].back() : all)["together"] = run.together;
  write_file(path, json_text(all));
}

namespace {

/// @param each  what entries with `when: each` have of their own, too
std::vector<std::string> changes_of(const BuiltRun& run, const RunFolder& folder, bool each) {
  const std::string path = folder.file("environment.json");
  if (!std::filesystem::exists(path)) return {};
  const json before = last_accepted(read_environment(path)), now = surroundings(run);
  std::vector<std::string> changes;
  const auto compare = [&](const std::string& pointer, const std::string& what) {
    const json::json_pointer at(pointer);
    if (before.contains(at) && before.at(at) != now.at(at)) changes.push_back(what + " changed");
  };
  const Experiment& experiment = run.experiment;
  for (const Part* part : experiment.parts()) {
    compare("/" + section_key(*part) + "/hash",
            fmt::format("the file of {} '{}'", name_of(part->kind), part->name));
  }
  compare(kFingerprint, data_of(experiment));
  if (each) {
    const json was = before.value("each", json::object());
    const json is = now.value("each", json::object());
    for (const auto& [what, hash] : is.items()) {
      if (was.contains(what) && was.at(what) != hash) changes.push_back(what + " changed");
    }
  }
  compare("/framework/revision", "the framework");
  compare("/products", fmt::format("the precision of products (now {})", name_of(run.products)));
  compare("/kernels/attention",
          fmt::format("the kernel of attention (ATTNLAB_ATTENTION_KERNEL, now {})",
                      asked_attention_kernel()));
  return changes;
}

}  // namespace

std::vector<std::string> changes_since_start(const BuiltRun& run, const RunFolder& folder) {
  return changes_of(run, folder, /*each=*/true);
}

std::vector<std::string> changes_for_results(const BuiltRun& run, const RunFolder& folder) {
  try {
    return changes_of(run, folder, /*each=*/false);
  } catch (const DataError&) {
    return {"what it began with is not known (environment.json is damaged)"};
  }
}

std::string change_of_data(const BuiltRun& run, const RunFolder& folder) {
  const std::string path = folder.file("environment.json");
  if (!std::filesystem::exists(path)) return "";
  const json before = last_accepted(read_environment(path));
  const json::json_pointer at(kFingerprint);
  if (!before.contains(at) || before.at(at) == run.dataset->info().fingerprint) return "";
  return data_of(run.experiment) + " changed";
}

}  // namespace attnlab
