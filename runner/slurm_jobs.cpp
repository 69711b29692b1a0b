#include "runner/slurm_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <sstream>

#include "framework/base/files.h"
#include "framework/base/json.h"
#include "framework/base/parsed_json.h"
#include "framework/base/text.h"
#include "runner/process.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// The states of jobs that have ended and do not come back; every other one is active.
constexpr std::array<std::string_view, 10> kEnded = {
    "BOOT_FAIL", "CANCELLED",     "COMPLETED", "DEADLINE", "FAILED",
    "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",  "TIMEOUT"};

std::string jobs_file(const std::string& suite_folder) {
  return slurm_folder(suite_folder) + "/jobs.json";
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

SlurmJob parse_job(const json& in) {
  SlurmJob job;
  constexpr std::int64_t kMost = 1'000'000'000;  // the next one is one more
  const json& number = in.at("number");
  if (number.is_number_integer()) job.number = number.get<std::int64_t>();
  if (job.number < 1 || job.number > kMost) {
    throw DataError(fmt::format("a job's number is {}, not 1 to {}", number.dump(), kMost));
  }
  job.name = in.at("name").get<std::string>();
  // Earlier versions recorded the first line, whatever it was; the job's name finds it then.
  job.id = submitted_id(in.at("id").get<std::string>());
  for (const json& task : in.at("cells")) {
    job.tasks.push_back(
        {task.at("folder").get<std::string>(), task.at("label").get<std::string>()});
  }
  return job;
}

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream text(line);
  for (std::string field; std::getline(text, field, '|');) fields.push_back(field);
  return fields;
}

/// "OUT_OF_MEMORY" as "out of memory", "CANCELLED by 1000" as "cancelled by 1000".
std::string for_people(std::string state) {
  for (char& c : state) c = c == '_' ? ' ' : static_cast<char>(std::tolower(c));
  return state;
}

/// Tasks that have left the queue, by "12_3", from Slurm's accounting; empty where there is none.
std::map<std::string, std::string> ask_accounting(const std::vector<SlurmJob>& jobs) {
  std::vector<std::string> ids;
  for (const SlurmJob& job : jobs) {
    if (!job.id.empty()) ids.push_back(job.id);
  }
  if (ids.empty()) return {};
  const Captured answer = capture({"sacct", "--noheader", "--parsable2", "--allocations",
                                   "--format=JobID,State", "--jobs=" + join(ids, ",")});
  if (!answer.ok()) return {};
  std::map<std::string, std::string> states;
  std::istringstream lines(answer.out);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> fields = fields_of(line);
    if (fields.size() == 2) states[fields[0]] = fields[1];
  }
  return states;
}

std::string active_text(const TaskState& task) {
  if (task.state == "PENDING") {
    return fmt::format("queued as job {}{}", task.id,
                       task.reason.empty() ? "" : fmt::format(" ({})", task.reason));
  }
  if (task.state == "RUNNING") return fmt::format("running as job {} on {}", task.id, task.nodes);
  return fmt::format("{} as job {}", for_people(task.state), task.id);
}

/// Of a run that has no result although its task has ended.
std::string ended_text(const std::string& id, const std::string& state) {
  if (state.empty()) return fmt::format("job {} is no longer in Slurm's queue", id);
  if (state == "COMPLETED") return fmt::format("job {} ended without a result", id);
  return fmt::format("job {} ended: {}", id, for_people(state));
}

/// Whether a run's folder says all there is to say, unless its task is active.
bool has_result(const std::string& folder) {
  try {
    const RunStatus status = RunFolder(folder).status();
    return status.finished() || status.state == RunState::failed;
  } catch (const DataError&) {
    return true;  // damaged: for others to report
  }
}

/// What Slurm says, asked once for all tasks of a suite.
class Answers {
 public:
  explicit Answers(const std::vector<SlurmJob>& jobs) {
    try {
      queue_ = ask_queue(jobs);
      accounting_ = ask_accounting(jobs);
    } catch (const Error& error) {
      problem_ = error.what();
    }
  }

  /// @returns empty where the run's folder says it all.
  std::string text(const TaskPlace& place, const std::string& suite_folder,
                   const std::string& run_folder) const {
    const std::string task = std::to_string(place.task);
    const std::string id =
        fmt::format("{}_{}", place.job->id.empty() ? place.job->name : place.job->id, task);
    const auto queued = queue_.find({place.job->name, place.task});
    if (queued != queue_.end() && queued->second.active()) return active_text(queued->second);
    if (has_result(run_folder)) return "";
    if (!problem_.empty()) return fmt::format("submitted as job {}; {}", id, problem_);
    if (place.job->id.empty() && queued == queue_.end()) {
      return fmt::format("submitted as job {}, which is not in Slurm's queue", id);
    }
    std::string state = queued != queue_.end() ? queued->second.state : "";
    const auto recorded = accounting_.find(id);
    if (state.empty() && recorded != accounting_.end()) state = recorded->second;
    return fmt::format("{}; its output: {}", ended_text(id, state),
                       output_file(suite_folder, *place.job, task));
  }

 private:
  Queue queue_;
  std::map<std::string, std::string> accounting_;
  std::string problem_;
};

}  // namespace

std::string slurm_folder(const std::string& suite_folder) { return suite_folder + "/slurm"; }

std::string job_folder(const std::string& suite_folder, const SlurmJob& job) {
  return fmt::format("{}/{}", slurm_folder(suite_folder), job.number);
}

std::string output_file(const std::string& suite_folder, const SlurmJob& job,
                        const std::string& task) {
  return fmt::format("{}/task-{}.txt", job_folder(suite_folder, job), task);
}

std::string submitted_id(const std::string& printed) {
  std::string id;
  std::istringstream lines(printed);
  for (std::string line; std::getline(lines, line);) {
    line.resize(std::min(line.size(), line.find(';')));  // "12;cluster"
    const std::string word(trimmed(line));
    if (is_number(word)) id = word;
  }
  return id;
}

std::vector<SlurmJob> read_jobs(const std::string& suite_folder) {
  const std::string path = jobs_file(suite_folder);
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  const std::string text = read_text(path, kLargestRecord);
  try {
    std::vector<SlurmJob> jobs;
    const json all = parsed_json(text);
    for (const json& job : all.at("jobs")) jobs.push_back(parse_job(job));
    return jobs;
  } catch (const std::exception& damage) {
    throw DataError(
        fmt::format("{}: damaged: {}; look at squeue for jobs of this suite, then delete the file",
                    path, damage.what()));
  }
}

void write_jobs(const std::string& suite_folder, const std::vector<SlurmJob>& jobs) {
  json all = json::array();
  for (const SlurmJob& job : jobs) {
    json cells = json::array();
    for (const SlurmTask& task : job.tasks) {
      cells.push_back({{"folder", task.folder}, {"label", task.label}});
    }
    all.push_back({{"number", job.number}, {"name", job.name}, {"id", job.id}, {"cells", cells}});
  }
  write_file(jobs_file(suite_folder), json_text(json({{"jobs", all}})));
}

std::map<std::string, TaskPlace> latest_tasks(const std::vector<SlurmJob>& jobs) {
  std::map<std::string, TaskPlace> latest;
  for (const SlurmJob& job : jobs) {
    for (std::size_t i = 0; i < job.tasks.size(); ++i) latest[job.tasks[i].folder] = {&job, i};
  }
  return latest;
}

bool TaskState::active() const {
  return std::find(kEnded.begin(), kEnded.end(), state) == kEnded.end();
}

Queue ask_queue(const std::vector<SlurmJob>& jobs) {
  std::map<std::string, std::string> ids;  // by name
  std::vector<std::string> names;
  for (const auto& [folder, place] : latest_tasks(jobs)) {
    if (ids.emplace(place.job->name, place.job->id).second) names.push_back(place.job->name);
  }
  if (names.empty()) return {};
  const Captured answer = capture({"squeue", "--noheader", "--array", "--states=all",
                                   "--format=%F|%K|%T|%j|%N|%r", "--name=" + join(names, ",")});
  if (!answer.found) {
    throw ConfigError(
        "Slurm cannot be asked: there is no program 'squeue' in PATH; do this on a "
        "machine of the cluster");
  }
  if (!answer.ok()) throw Error("Slurm cannot be asked: " + last_words(answer));
  Queue queue;
  std::istringstream lines(answer.out);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> fields = fields_of(line);
    std::size_t task = 0;  // of an array
    if (fields.size() < 5 || !is_number(fields[1]) ||
        std::from_chars(fields[1].data(), fields[1].data() + fields[1].size(), task).ec !=
            std::errc()) {
      continue;
    }
    // By an earlier version, a folder that was deleted and made again has a job of the same name.
    const std::string& id = ids[fields[3]];
    if (!id.empty() && id != fields[0]) continue;
    queue[{fields[3], task}] = {fmt::format("{}_{}", fields[0], fields[1]), fields[2], fields[4],
                                fields.size() > 5 ? fields[5] : ""};
  }
  return queue;
}

std::string id_in_queue(const SlurmJob& job) {
  for (const auto& [place, task] : ask_queue({job})) {
    if (place.first == job.name) return task.id.substr(0, task.id.find('_'));
  }
  return "";
}

std::string vain_file(const std::string& job_folder, const std::string& task) {
  return fmt::format("{}/vain-{}.txt", job_folder, task);
}

std::int64_t count_vain(const std::string& file, std::int64_t before, std::int64_t after) {
  std::int64_t step = 0, count = 0;
  if (is_there(file)) std::istringstream(read_text(file)) >> step >> count;
  if (step != before) count = 0;
  count = after > before ? 0 : std::clamp<std::int64_t>(count, 0, kVainStops) + 1;
  write_file(file, fmt::format("{} {}\n", after, count));
  return count;
}

std::map<std::string, std::string> slurm_states(const std::string& suite_folder) {
  const std::vector<SlurmJob> jobs = read_jobs(suite_folder);
  if (jobs.empty()) return {};
  const Answers answers(jobs);
  std::map<std::string, std::string> states;
  for (const auto& [below, place] : latest_tasks(jobs)) {
    std::string folder = suite_folder;
    folder += "/" + below;
    const std::string text = answers.text(place, suite_folder, folder);
    if (!text.empty()) states[folder] = text;
  }
  return states;
}

}  // namespace attnlab
