// attnlab eval: evaluates a run as the entries of `evaluate:` say, and the run itself.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/json.h"
#include "framework/base/links.h"
#include "framework/document/text.h"
#include "framework/runs/metric_infos.h"
#include "framework/runs/metric_text.h"
#include "framework/runs/run_lock.h"
#include "framework/train/entries.h"
#include "framework/train/environment.h"
#include "runner/engine/engine.h"
#include "runner/engine/eval_examples.h"
#include "runner/engine/open_run.h"
#include "runner/usages.h"

namespace attnlab {
namespace {

/// What was asked for.
struct EvalJob {
  RunFolder folder;
  Experiment experiment;
  std::vector<EvaluationEntry> entries;
  EntriesRequest request;
  bool clean = false;  ///< evaluate the run itself
  bool entries_too = true;
  std::string examples;  ///< where each example's own metrics go; empty: nowhere
  bool accept = false;   ///< although the run's data changed
};

/// Results in the order of their coming.
struct Results {
  std::vector<EvaluationRecord> records;
  bool all = true;

  void add(const EvaluationRecord& record) {
    all &= record.done;
    records.push_back(record);
  }
};

EvalJob eval_job(const Arguments& arguments, const Catalogue& catalogue) {
  EvalJob job{RunFolder(arguments.words[0]), {}, {}, {}, false, true,
              arguments.text("examples", "")};
  job.experiment = job.folder.experiment(catalogue);
  const bool with = arguments.has("with");
  const Experiment source =
      with ? with_evaluations(job.experiment, arguments.text("with", ""), catalogue)
           : job.experiment;
  job.entries = evaluations_of(source, catalogue);
  job.request.again = arguments.has("again");
  job.accept = arguments.has("accept-changes");
  for (std::size_t i = 1; i < arguments.words.size(); ++i) {
    const std::string& name = arguments.words[i];
    if (name == kClean) {
      job.clean = true;
    } else {
      job.request.names.push_back(name);
    }
  }
  const bool named = arguments.words.size() > 1;
  job.entries_too = named ? !job.request.names.empty() : !job.entries.empty();
  if (!named) job.clean = !with && (job.entries.empty() || job.request.again);
  if (job.entries_too && !job.folder.status().finished()) {
    throw ConfigError(
        fmt::format("{0}: the run is {1}; evaluations are of finished runs (attnlab run {0} "
                    "--resume goes on with it)",
                    job.folder.path(), name_of(job.folder.status().state)));
  }
  return job;
}

EvaluationRecord clean_record(const BuiltRun& run, const Metrics& metrics) {
  EvaluationRecord record;
  record.entry = kClean;
  record.split = "test";
  record.done = true;
  record.metrics = metrics;
  record.infos = run_metrics(run);
  return record;
}

/// The run's own metrics, those of its task alone.
Metrics recorded_metrics(const BuiltRun& run, const RunFolder& folder) {
  Metrics metrics;
  const RunStatus status = folder.status();
  for (const MetricInfo& info : run.task->metrics()) {
    const auto found = status.metrics.find(info.name);
    if (found != status.metrics.end()) metrics.insert(*found);
  }
  return metrics;
}

Results carry_out(const EvalJob& job, Registry& registry) {
  look_for_data_of(job.folder);
  BuiltRun run = build_run(job.experiment, job.experiment.seeds.at(0), registry);
  if (const std::string note = note_on_products(run); !note.empty()) {
    std::cerr << "attnlab eval: " << note << "\n";
  }
  check_data(run, job.folder, job.accept);
  if (const std::string note = note_on_changes(run, job.folder, job.entries_too); !note.empty()) {
    std::cerr << "attnlab eval: " << note << "\n";
  }
  load_model(run, job.folder);
  if (const RunStatus status = job.folder.status(); !status.finished()) {
    std::cerr << fmt::format(
        "attnlab eval: the run is {}, at step {} of {}: these are numbers of an unfinished run "
        "(attnlab run {} --resume goes on with it)\n",
        name_of(status.state), status.step, status.steps, job.folder.path());
  }
  Results results;
  if (job.clean) {
    refuse_links(job.folder.path());
    results.add(clean_record(run, evaluate_test(run, stop_requested())));
    const nlohmann::json json = results.records.back().metrics;
    write_file(job.folder.file("evaluation.json"), json_text(json));
  } else if (job.folder.status().finished()) {
    results.add(clean_record(run, recorded_metrics(run, job.folder)));
  }
  if (job.entries_too) {
    const RunLock lock(job.folder.path());
    evaluate_entries(run, job.folder, job.entries, job.request, registry, stop_requested(),
                     [&](const EvaluationRecord& record, bool) { results.add(record); });
  }
  if (job.examples.empty()) return results;
  if (results.all) {
    const auto entries = job.entries_too ? chosen_entries(job.entries, job.request.names)
                                         : std::vector<EvaluationEntry>();
    write_examples(job.examples, run, job.folder, entries, job.clean, registry);
  } else {
    std::cerr << fmt::format(
        "attnlab eval: {}: is not written, as an evaluation failed; name those that did not\n",
        one_line(job.examples));
  }
  return results;
}

void print_json(const Results& results) {
  nlohmann::json out = nlohmann::json::object();
  for (const EvaluationRecord& record : results.records) {
    const std::string prefix = record.entry == kClean ? "" : record.entry + "/";
    for (const auto& [name, value] : record.metrics) out[prefix + name] = value;
  }
  std::cout << json_text(out);
}

std::string cell_text(const EvaluationRecord& record, const std::string& metric) {
  const auto found = record.metrics.find(metric);
  if (found == record.metrics.end()) return "-";
  return metric_text(metric_or_plain(record.infos, metric), found->second);
}

/// A row an entry, a column a metric.
void print_table(const Results& results) {
  std::vector<std::string> heading = {"evaluation"};
  for (const EvaluationRecord& record : results.records) {
    for (const auto& [name, value] : record.metrics) {
      if (std::find(heading.begin(), heading.end(), name) == heading.end()) heading.push_back(name);
    }
  }
  Table rows{"", {heading.begin(), heading.end()}};
  for (const EvaluationRecord& record : results.records) {
    std::vector<TableCell>& row = rows.rows.emplace_back(1, record.entry);
    for (std::size_t i = 1; i < heading.size(); ++i)
      row.emplace_back(cell_text(record, heading[i]));
  }
  std::cout << table_text(rows, TableStyle::text);
}

void print_failures(const Results& results, std::ostream& out, const char* before) {
  for (const EvaluationRecord& record : results.records) {
    if (record.done) continue;
    out << before << record.entry << " failed: " << one_line(without_backtrace(record.reason))
        << "\n";
  }
}

}  // namespace

int eval_command(const Words& words) {
  Usage usage = eval_usage();
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  Registry registry(Catalogue::of_this_program());
  const EvalJob job = eval_job(arguments, registry.catalogue());
  Results results;
  try {
    results = carry_out(job, registry);
  } catch (const Interrupted&) {
    return kInterrupted;
  }
  if (arguments.has("json")) {
    print_json(results);
    print_failures(results, std::cerr, "attnlab eval: ");
  } else {
    std::cout << RunFolder::label(job.experiment, job.experiment.seeds.at(0)) << "\n";
    print_table(results);
    print_failures(results, std::cout, "");
  }
  return results.all ? kDone : kRunFailed;
}

}  // namespace attnlab
