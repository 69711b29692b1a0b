// attnlab plugin test: the conformance kit, each check in a process of its own, so that a plugin
// that crashes or hangs is a failed check.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <mutex>

#include "framework/base/clock.h"
#include "framework/base/cores.h"
#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/base/threads.h"
#include "framework/conformance/check_list.h"
#include "framework/experiment/experiment.h"
#include "framework/manifest/python_file.h"
#include "runner/commands.h"
#include "runner/process.h"
#include "runner/sharing_command.h"
#include "runner/tested_plugin.h"

namespace attnlab {
namespace {

namespace po = boost::program_options;
namespace fs = std::filesystem;

constexpr const char* kHelp = R"(usage: attnlab plugin COMMAND

  attnlab plugin test ID|PATH [key=value ...]   check a plugin against its contract
  attnlab plugin pack FOLDER|FILE.py            one file that another lab can install
  attnlab plugin install FILE|FOLDER|URL|NAME   install plugins of other labs, checked
  attnlab plugin upgrade [NAME ...]             newer versions from the added indices
  attnlab plugin remove NAME ...                remove installed plugins
  attnlab plugin rollback NAME ...              go back to the version before
  attnlab plugin verify [NAME|FILE ...]         are installed plugins unchanged?
  attnlab plugin rebuild [NAME ...]             build again after an update
  attnlab plugin search WORD                    find bundles in the added indices

`attnlab plugin COMMAND --help` tells more.
)";

/// The first thing that is tried; without it no check has a meaning.
constexpr const char* kLoad = "load";

/// How one check ended.
struct TestReport {
  std::string check;
  std::string outcome = "failed";
  std::string message;
  double seconds = 0;
};

/// What is tested, and how.
struct Job {
  std::string path;
  Words options;           ///< key=value
  std::string experiment;  ///< whose parts it is tried with; empty: made-up ones
  double time_limit = 60;
  std::string logs;  ///< a folder
};

/// A file is named by its ending; everything else is a plugin's name.
std::string path_of(const std::string& word) {
  if (is_python_name(word)) return word;
  if (word.ends_with(".so")) {
    if (!fs::exists(word)) throw PluginError(word + ": there is no such file");
    return word;
  }
  return find_plugin(Catalogue::of_this_program(), word).path;
}

/// Why a process gave no result.
/// @param trying  what it was about, if it said so: "a copy with images.bin cut off in the middle"
std::string cause_of_death(const ProcessResult& result, const Job& job, const std::string& trying,
                           const std::string& log) {
  const std::string said = log_tail(log, 3);
  const std::string rest =
      (trying.empty() ? "" : ", trying " + trying) + (said.empty() ? "" : ": " + said);
  if (result.timed_out) {
    return fmt::format("still running after {} (--time-limit), killed{}", duration(job.time_limit),
                       rest);
  }
  if (result.signal != 0) return signal_text(result.signal) + rest;
  return fmt::format("ended with exit code {} without a result{}", result.exit_code, rest);
}

TestReport run_one(const std::string& check, const Job& job) {
  Words words = {"plugin", "check", job.path, check};
  words.insert(words.end(), job.options.begin(), job.options.end());
  if (!job.experiment.empty()) words.push_back("--experiment=" + job.experiment);
  const std::string log = fmt::format("{}/{}", job.logs, check);
  TestReport report;
  report.check = check;
  bool reported = false;
  std::string trying;
  const auto on_line = [&](const std::string& line) {
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) return;  // the plugin prints, too
    if (const auto told = json.find("trying"); told != json.end() && told->is_string()) {
      trying = *told;
    }
    if (json.value("check", nlohmann::json()) != check) return;
    const auto said = [&](const char* name) { return json.value(name, nlohmann::json()); };
    if (!said("outcome").is_string() || !said("message").is_string() ||
        !said("seconds").is_number()) {
      return;
    }
    report.outcome = json.at("outcome");
    report.message = json.at("message");
    report.seconds = json.at("seconds");
    reported = true;
  };
  const auto start = Clock::now();
  const ProcessResult result = run_self(
      words, log, on_line, {.time_limit = job.time_limit, .environment = {{"TMPDIR", job.logs}}});
  if (reported && result.ok()) return report;
  // A result that is followed by a crash is none: something is wrong with how the plugin ends.
  report.outcome = "failed";
  report.message = cause_of_death(result, job, trying, log);
  report.seconds = seconds_since(start);
  return report;
}

/// Runs the checks, several at a time, and shows each in its turn.
std::vector<TestReport> run_all(const std::vector<std::string>& checks, const Job& job,
                                std::size_t jobs,
                                const std::function<void(const TestReport&)>& show) {
  std::vector<TestReport> reports(checks.size());
  std::vector<bool> done(checks.size(), false);
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < checks.size() && !interrupted(); i = next++) {
      TestReport report;
      try {
        report = run_one(checks[i], job);
      } catch (const std::exception& error) {
        report.check = checks[i];
        report.message = error.what();
      }
      const std::lock_guard lock(mutex);
      reports[i] = std::move(report);
      done[i] = true;
      changed.notify_all();
    }
    const std::lock_guard lock(mutex);
    changed.notify_all();
  };
  std::vector<std::jthread> workers;  // joined on every way out
  try {
    for (std::size_t i = 0; i < std::min(jobs, checks.size()); ++i) {
      workers.push_back(start_thread(work));
    }
  } catch (const ThreadError&) {
    next = checks.size();
    throw;
  }
  for (std::size_t i = 0; i < checks.size(); ++i) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done[i] || interrupted(); });
    if (!done[i] || interrupted()) break;
    show(reports[i]);
  }
  return reports;
}

std::size_t count(const std::vector<TestReport>& reports, const std::string& outcome) {
  return static_cast<std::size_t>(
      std::count_if(reports.begin(), reports.end(),
                    [&](const TestReport& report) { return report.outcome == outcome; }));
}

// ---- what is printed

std::string indented(std::string text, const std::string& indent) {
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos;) {
    text.insert(++at, indent);
  }
  return indent + text;
}

void print_row(const TestReport& report) {
  const bool failed = report.outcome == "failed";
  char row[96];
  std::snprintf(row, sizeof row, "  %-14s  %-18s  %7.2f s",
                failed ? "FAILED" : report.outcome.c_str(), report.check.c_str(), report.seconds);
  std::cout << row;
  if (failed) {
    std::cout << "\n" << indented(message_text(report.message), "      ");
  } else if (!report.message.empty()) {
    std::cout << "  " << message_text(report.message);
  }
  std::cout << "\n" << std::flush;
}

std::string about(Kind kind, const std::string& check) {
  for (const conformance::CheckInfo& info : conformance::checks_of(kind)) {
    if (info.name == check) return std::string(info.about);
  }
  return fmt::format("the library can be loaded and the {} built", name_of(kind));
}

void print_summary(const std::vector<TestReport>& reports, Kind kind, const std::string& command,
                   double seconds) {
  std::vector<std::string> parts;
  for (const char* outcome : {"passed", "failed", "not applicable", "skipped"}) {
    const std::size_t number = count(reports, outcome);
    if (number > 0) parts.push_back(fmt::format("{} {}", number, outcome));
  }
  std::cout << "\n" << join(parts, ", ") << " in " << duration(seconds) << "\n";
  for (const TestReport& report : reports) {
    if (report.outcome != "failed") continue;
    std::cout << "\n" << report.check << ": " << about(kind, report.check);
    if (report.check != kLoad) {
      std::cout << "\n  again: " << command << " --only " << report.check;
    }
    std::cout << "\n";
  }
}

void print_json(const std::vector<TestReport>& reports, const Part& part, const Manifest& manifest,
                double seconds) {
  const Kind kind = manifest.kind;
  nlohmann::json out = {{"plugin", part.id},
                        {"kind", name_of(kind)},
                        {"version", manifest.version},
                        {"path", part.path},
                        {"options", to_flow(part.options)},
                        {"seconds", seconds},
                        {"checks", nlohmann::json::array()}};
  for (const char* outcome : {"passed", "failed", "not applicable", "skipped"}) {
    out["counts"][outcome] = count(reports, outcome);
  }
  for (const TestReport& report : reports) {
    out["checks"].push_back({{"check", report.check},
                             {"about", about(kind, report.check)},
                             {"outcome", report.outcome},
                             {"message", report.message},
                             {"seconds", report.seconds}});
  }
  std::cout << json_text(out);
}

// ---- the command line

Usage test_usage() {
  Usage usage;
  usage.synopsis =
      "attnlab plugin test ID|PATH [key=value ...] [--experiment EXPERIMENT] [--only CHECK ...]\n"
      "       [--list] [--time-limit SECONDS] [--jobs N] [--json]";
  usage.about =
      "Checks an attention, a model, a task or a dataset against its contract, each check in a\n"
      "process of its own. ID is a name (quest), lab/name or kind/name, PATH a plugin's .so or "
      ".py\n"
      "anywhere;\n"
      "key=value sets its options. The exit code is 1 when a check fails. docs/conformance.md "
      "says\n"
      "what each check does.";
  usage.options.add_options()(
      "experiment", po::value<std::string>()->value_name("EXPERIMENT"),
      "use this experiment's data (for a task also its model) and options instead of made-up ones")(
      "only", po::value<Words>()->value_name("CHECK")->composing(),
      "run only this check; may be given several times")("list", "list the checks, run none")(
      "time-limit", po::value<double>()->value_name("SECONDS")->default_value(60, "60"),
      "a check that runs longer fails")(
      "jobs", po::value<std::int64_t>()->value_name("N")->default_value(0, "0"),
      "checks at a time; 0: one per core, at most 8")("json", "results as JSON");
  usage.fewest_words = usage.most_words = 1;
  usage.takes_overrides = true;
  return usage;
}

std::vector<std::string> wanted_checks(const Arguments& arguments, Kind kind) {
  std::vector<std::string> all;
  for (const conformance::CheckInfo& info : conformance::checks_of(kind)) {
    all.emplace_back(info.name);
  }
  if (!arguments.has("only")) return all;
  const Words only = arguments.options["only"].as<Words>();
  for (const std::string& check : only) {
    if (std::find(all.begin(), all.end(), check) != all.end()) continue;
    throw ConfigError(
        fmt::format("--only: there is no check '{}'{}", check, suggestion(check, all)));
  }
  std::erase_if(all, [&](const std::string& check) {
    return std::find(only.begin(), only.end(), check) == only.end();
  });
  return all;
}

std::size_t jobs_of(const Arguments& arguments) {
  const std::int64_t given = arguments.options["jobs"].as<std::int64_t>();
  if (given < 0 || given > 64) {
    throw ConfigError(fmt::format("--jobs: expected 0 to 64, found {}", given));
  }
  if (given > 0) return static_cast<std::size_t>(given);
  return static_cast<std::size_t>(std::min<std::int64_t>(available_cores(), 8));
}

double time_limit_of(const Arguments& arguments) {
  constexpr double kMost = 1e6;  // what a clock counts is far beyond
  const double seconds = arguments.options["time-limit"].as<double>();
  if (seconds > 0 && seconds <= kMost) return seconds;
  throw ConfigError(fmt::format("--time-limit: expected seconds above 0, at most {:.0f}, found {}",
                                kMost, shortest(seconds)));
}

int list_checks(Kind kind) {
  for (const conformance::CheckInfo& info : conformance::checks_of(kind)) {
    std::cout << fmt::format("{:<18}  {}\n", info.name, info.about);
  }
  return kDone;
}

/// What to type to run the same again.
std::string command_text(const Arguments& arguments) {
  std::string text = "attnlab plugin test " + shell_word(arguments.words[0]);
  for (const std::string& change : arguments.overrides) text += " " + shell_word(change);
  const std::string experiment = arguments.text("experiment", "");
  return experiment.empty() ? text
                            : fmt::format("{} --experiment {}", text, shell_word(experiment));
}

int test_command(const Words& words) {
  Usage usage = test_usage();
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const std::size_t jobs = jobs_of(arguments);
  const double time_limit = time_limit_of(arguments);
  const std::string file = path_of(arguments.words[0]),
                    experiment = arguments.text("experiment", "");
  const Catalogue catalogue = Catalogue::of_file(file);
  const Manifest& manifest = *catalogue.candidates().front().manifest;
  const Kind kind = manifest.kind;
  if (arguments.has("list")) return list_checks(kind);
  const std::vector<std::string> checks = wanted_checks(arguments, kind);
  const std::string path = catalogue.candidates().front().path;
  const Part part = tested_plugin(path, arguments.overrides, experiment).part;

  const SignalsNoted noted;
  const ScratchFolder logs;  // of the checks' own files, too, which a killed one leaves
  const Job job{path, arguments.overrides, experiment, time_limit, logs.path()};
  const bool json = arguments.has("json");
  const auto show = [&](const TestReport& report) {
    if (!json) print_row(report);
  };
  if (!json) {
    std::cout << manifest.id << " " << manifest.version << "  "
              << one_line(path, kLongestMessageLine) << "\n"
              << "options  " << one_line(to_flow(part.options), kLongestMessageLine) << "\n\n"
              << std::flush;
  }
  const auto start = Clock::now();
  std::vector<TestReport> reports = run_all({kLoad}, job, 1, show);
  if (count(reports, "passed") == 1) {
    for (TestReport& report : run_all(checks, job, jobs, show))
      reports.push_back(std::move(report));
  }
  if (interrupted()) return kInterrupted;
  const double seconds = seconds_since(start);
  if (json) {
    print_json(reports, part, manifest, seconds);
  } else {
    print_summary(reports, kind, command_text(arguments), seconds);
  }
  return count(reports, "failed") == 0 ? kDone : kRunFailed;
}

}  // namespace

int plugin_command(const Words& words) {
  if (!words.empty() && words[0] == "check") {  // one check, for `test`
    return engine_command("plugin check", Words(words.begin() + 1, words.end()));
  }
  Subcommands commands;
  for (const std::string name :
       {"pack", "install", "upgrade", "remove", "verify", "rollback", "rebuild", "search"}) {
    commands.emplace_back(
        name, [name](const Words& rest) { return sharing_command("plugin " + name, rest); });
  }
  commands.emplace_back("test", test_command);
  return run_subcommand("plugin", kHelp, words, commands);
}

}  // namespace attnlab
