#include "framework/sharing/reproduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "framework/base/foreign_text.h"
#include "framework/comparison/statistics.h"
#include "framework/document/text.h"
#include "framework/sharing/configured_entries.h"
#include "framework/sharing/result_locks.h"

namespace attnlab::sharing {
namespace {

/// Relative: what the same computation in another order may give.
constexpr double kRounding = 1e-6;

/// Of the data, among what a run recorded of its environment.
constexpr const char* kFingerprint = "data.fingerprint";

/// Rows of metrics that do not decide, on a terminal.
constexpr std::size_t kMostRows = 20;

using Cell = std::vector<const RunPair*>;

/// All runs of a cell, those there and here.
std::vector<const RunRecord*> runs_of(const Cell& cell) {
  std::vector<const RunRecord*> runs;
  for (const RunPair* pair : cell) {
    runs.push_back(&pair->there);
    if (pair->here) runs.push_back(&*pair->here);
  }
  return runs;
}

/// How the seeds of one metric ended.
struct SeedOutcomes {
  std::vector<std::string> apart;  ///< with a value on one side alone: "seed 1: 0.5 there, ..."
  std::int64_t alike = 0;          ///< diverged, or not finite, on both sides
  std::int64_t neither = 0;        ///< without a value on both sides for another reason
  std::int64_t not_run = 0;
};

/// The entry of `evaluate:` that a metric is of; empty: the run's own. Names of entries may hold
/// slashes ("swap/0.01"), so that the longest one counts.
std::string entry_of(const std::string& metric, const RunRecord& run) {
  std::string longest;
  for (const EvaluationRecord& one : run.evaluations) {
    if (one.entry.size() > longest.size() && metric.starts_with(one.entry + "/")) {
      longest = one.entry;
    }
  }
  return longest;
}

/// The same of a cell, in which one run may have a result that another lacks.
std::string entry_of(const std::string& metric, const Cell& cell) {
  std::string longest;
  for (const RunRecord* run : runs_of(cell)) {
    const std::string entry = entry_of(metric, *run);
    if (entry.size() > longest.size()) longest = entry;
  }
  return longest;
}

/// Whether a run's configuration has the entry, or the list of values that it is a point of.
bool is_configured(const std::string& entry, const RunRecord& run) {
  const Node* const evaluate = run.config.is_map() ? run.config.find("evaluate") : nullptr;
  return evaluate != nullptr && evaluate->is_map() &&
         evaluate->find(entry.substr(0, entry.find('/'))) != nullptr;
}

bool has_other_data(const RunPair& pair, const std::string& entry) {
  if (pair.other_data) return true;
  if (entry.empty()) return false;
  return std::any_of(
      pair.other_data_of.begin(), pair.other_data_of.end(),
      [&](const std::string& one) { return one == entry || one.starts_with(entry + "/"); });
}

bool is_below(const std::string& point, const std::string& entry) {
  return point.starts_with(entry + "/");
}

/// Whether two results of one name asked another thing. Means of an earlier attnlab do not say of
/// which points they are.
bool differ_in_settings(const EvaluationRecord& there, const EvaluationRecord& here, bool mean) {
  if (there.split != here.split) return true;
  const bool said = !there.weights.empty() && !here.weights.empty();
  if (said && there.weights != here.weights) return true;
  const bool unknown = mean && (there.set == "{}" || here.set == "{}");
  return there.set != here.set && !unknown;
}

/// Of an entry, or of one of the points that it is the mean of.
bool has_other_settings(const RunPair& pair, const std::string& entry) {
  const auto& all = pair.there.evaluations;
  for (const EvaluationRecord& there : all) {
    if (there.entry != entry && !is_below(there.entry, entry)) continue;
    const bool mean = std::any_of(all.begin(), all.end(), [&](const EvaluationRecord& one) {
      return is_below(one.entry, there.entry);
    });
    for (const EvaluationRecord& here : pair.here->evaluations) {
      if (here.entry == there.entry && differ_in_settings(there, here, mean)) return true;
    }
  }
  return false;
}

/// What a run cost says nothing of what it found.
bool is_cost(const std::string& metric, const RunRecord& run) {
  return run.costs.count(metric) > 0 || metric == "host_share" || metric == "gpu_utilisation";
}

struct Metric {
  std::string name;
  bool decides;
  bool without_result = false;  ///< it stands for an evaluation that has none
};

/// Names in order, each once.
class Metrics {
 public:
  void add(const std::string& name, bool decides, bool without_result = false) {
    if (seen_.insert(name).second) all_.push_back({name, decides, without_result});
  }
  std::vector<Metric> take() { return std::move(all_); }

 private:
  std::set<std::string> seen_;
  std::vector<Metric> all_;
};

/// Entries of a cell's configuration that none of its runs has a result of, though one is done.
std::vector<std::string> entries_without_result(const std::vector<const RunRecord*>& runs) {
  std::vector<std::string> names;
  if (std::none_of(runs.begin(), runs.end(), [](const auto* run) { return run->done(); })) {
    return names;
  }
  for (const std::string& entry : configured_entries(*runs.front())) {
    const bool there = std::any_of(runs.begin(), runs.end(), [&](const RunRecord* run) {
      const auto& all = run->evaluations;
      return std::any_of(all.begin(), all.end(), [&](const EvaluationRecord& one) {
        return one.done && one.entry == entry;
      });
    });
    if (!there) names.push_back(entry);
  }
  return names;
}

/// All that a cell's runs measured, headlines first. Of an evaluation over a list of values the
/// mean decides, not each of its points.
std::vector<Metric> metrics_of(const Cell& cell) {
  const std::vector<const RunRecord*> runs = runs_of(cell);
  const std::vector<MetricInfo>& infos = runs.front()->infos;
  Metrics all;
  all.add(infos.empty() ? "" : infos.front().name, true);
  for (const RunRecord* run : runs) {
    for (const MetricInfo& headline : run->evaluation_headlines) {
      const std::string entry = entry_of(headline.name, *run);
      if (entry.find('/') == std::string::npos) {
        all.add(headline.name, is_configured(entry, *runs.front()));
      }
    }
  }
  for (const std::string& entry : entries_without_result(runs)) {
    all.add("evaluation " + entry, false, true);
  }
  for (const RunRecord* run : runs) {
    const auto add = [&](const std::string& name) {
      if (run->status.metrics.count(name) > 0 && !is_cost(name, *run)) all.add(name, false);
    };
    for (const MetricInfo& info : run->infos) add(info.name);
    for (const auto& [name, value] : run->status.metrics) add(name);
  }
  return all.take();
}

std::string end_text(const RunRecord& run, const std::string& metric) {
  const auto value = run.value(metric);
  return value ? fmt::format("{:.6g}", *value) : std::string(name_of(run.gap(metric).kind));
}

SeedOutcomes ends_of(const Cell& cell, Reproduced& one) {
  SeedOutcomes ends;
  for (const RunPair* pair : cell) {
    if (!pair->here) {
      ++ends.not_run;
      continue;
    }
    ++one.seeds;
    const auto there = pair->there.value(one.metric), here = pair->here->value(one.metric);
    if (there) one.there.push_back(*there);
    if (here) one.here.push_back(*here);
    if (there && here) continue;
    const Absence kind = pair->there.gap(one.metric).kind;
    const bool is_finding = kind == Absence::diverged || kind == Absence::not_finite;
    if (there || here) {
      ends.apart.push_back(fmt::format("seed {}: {} there, {} here", pair->there.seed,
                                       end_text(pair->there, one.metric),
                                       end_text(*pair->here, one.metric)));
    } else if (is_finding && pair->here->gap(one.metric).kind == kind) {
      ++ends.alike;
    } else {
      ++ends.neither;
    }
  }
  return ends;
}

/// Of seeds that all have a value on both sides.
void judge_numbers(Reproduced& one) {
  if (one.there == one.here) {
    one.verdict = "identical";
    one.why = "every seed gives the same number";
    return;
  }
  const Summary there = summary_of(one.there), here = summary_of(one.here);
  const double apart = std::abs(there.mean - here.mean);
  const double error =
      std::sqrt((there.deviation * there.deviation + here.deviation * here.deviation) /
                static_cast<double>(one.there.size()));
  const bool spread = apart <= 2 * error;
  const bool rounding = apart <= kRounding * std::max(std::abs(there.mean), std::abs(here.mean));
  one.verdict = spread || rounding ? "agrees" : "DIFFERS";
  if (!spread && rounding) {
    one.why = "to rounding";
  } else if (one.there.size() == 1) {
    one.why = "one seed has no spread to judge by; run more seeds";
  } else {
    one.why = fmt::format("{:.2g} apart, twice the standard error is {:.2g}", apart, 2 * error);
  }
}

void judge(const SeedOutcomes& ends, Reproduced& one) {
  if (!ends.apart.empty()) {
    one.verdict = "DIFFERS";
    one.why = ends.apart.front();
    if (ends.apart.size() > 1) one.why += fmt::format("; {} more", ends.apart.size() - 1);
  } else if (!one.there.empty()) {
    judge_numbers(one);
  } else if (ends.alike > 0 && ends.neither == 0) {
    one.verdict = "agrees";
    one.why = "no seed has a finite value there and here";
  } else {
    one.verdict = "no value";
    one.why = one.seeds == 0 ? "none could be run" : "no seed has a value here and there";
  }
  if (!one.there.empty() && ends.alike > 0) {
    one.why += fmt::format("; {} without a finite value there and here", ends.alike);
  }
  if (!one.there.empty() && ends.neither > 0) {
    one.why += fmt::format("; {} without a value there and here", ends.neither);
  }
  if (one.seeds > 0 && ends.not_run > 0) {
    one.why += fmt::format("; {} could not be run", ends.not_run);
  }
}

Reproduced compare_metric(const Cell& cell, const Metric& metric) {
  const RunRecord& first = cell.front()->there;
  Reproduced one;
  one.experiment = first.experiment;
  one.attention = first.attention;
  one.metric = metric.name;
  one.decides = metric.decides;
  const SeedOutcomes ends = ends_of(cell, one);
  if (metric.without_result) {
    one.verdict = "not compared";
    one.why = "the configuration asks for it, and there is no result there or here";
    return one;
  }
  const std::string entry = entry_of(metric.name, cell);
  if (!entry.empty() && !is_configured(entry, first)) {
    one.verdict = "not repeated";
    one.why = "this evaluation was added to the finished run";
    return one;
  }
  const auto others = std::count_if(cell.begin(), cell.end(), [&](const RunPair* pair) {
    return !entry.empty() && pair->here && has_other_settings(*pair, entry);
  });
  if (others > 0) {
    one.decides = false;
    one.verdict = "other settings";
    one.why = fmt::format("{} of its runs had another evaluation under this name there", others);
    return one;
  }
  judge(ends, one);
  for (const RunPair* pair : cell) {
    if (pair->here && has_other_data(*pair, entry)) ++one.other_data;
  }
  if (one.other_data > 0) {
    one.why = fmt::format("{} of its runs had other data than there; by the numbers: {}, {}",
                          one.other_data, one.verdict, one.why);
    one.verdict = "OTHER DATA";
  }
  return one;
}

std::string summary(const std::vector<double>& values) {
  if (values.empty()) return "-";
  const Summary all = summary_of(values);
  return values.size() == 1 ? fmt::format("{:.6g}", all.mean)
                            : fmt::format("{:.5g} ± {:.2g}", all.mean, all.deviation);
}

std::string table(const std::vector<const Reproduced*>& some) {
  Table rows{"", {"experiment", "attention", "metric", "seeds", "there", "here", "verdict", "why"}};
  for (const Reproduced* one : some) {
    rows.rows.push_back({one->experiment, one->attention, one->metric, std::to_string(one->seeds),
                         summary(one->there), summary(one->here), one->verdict, one->why});
  }
  return table_text(rows, TableStyle::text);
}

std::string recorded(const RunRecord& run, const std::string& what) {
  const auto found = run.environment.find(what);
  return found == run.environment.end() ? "" : found->second;
}

/// Runs by a sentence that is true of each.
using Sentences = std::map<std::string, std::vector<std::string>>;

void note_own(const RunRecord& run, const char* side, const std::string& label, Sentences& out) {
  for (const std::string& note : run.notes) {
    out[fmt::format("{}: {}", side, one_line(note, kLongestMessageLine))].push_back(label);
  }
}

void note_surroundings(const RunPair& pair, const std::string& label, Sentences& out) {
  for (const auto& [key, what] :
       {std::pair("products", "products are"), std::pair("device", "the device is"),
        std::pair("kernel", "the kernel of attention is"), std::pair("libtorch", "LibTorch is")}) {
    const std::string there = recorded(pair.there, key), here = recorded(*pair.here, key);
    if (there.empty() || here.empty() || there == here) continue;
    out[fmt::format("{} {} there, {} here", what, one_line(there, 100), one_line(here, 100))]
        .push_back(label);
  }
}

bool name_data(const std::optional<ResultLocks>& there, const std::optional<ResultLocks>& here) {
  return there && here && !there->data.empty() && !here->data.empty();
}

void note_locks(const RunPair& pair, const std::string& label, Sentences& out) {
  const auto there = read_locks(pair.there.folder), here = read_locks(pair.here->folder);
  if (!there || !here) {
    const char* const where = there ? "here" : here ? "there" : "there and here";
    out[fmt::format("no lock {}; plugins, revision and data of evaluations were not compared",
                    where)]
        .push_back(label);
  }
  const bool recorded_by_both =
      !recorded(pair.there, kFingerprint).empty() && !recorded(*pair.here, kFingerprint).empty();
  if (name_data(there, here) || recorded_by_both) return;
  out["there or here it is not recorded which data these were; they were not compared"].push_back(
      label);
}

}  // namespace

void compare_data(RunPair& pair) {
  const auto there = read_locks(pair.there.folder), here = read_locks(pair.here->folder);
  const auto differ = [](const auto& a, const auto& b) {
    return !a.empty() && !b.empty() && a != b;
  };
  pair.other_data = name_data(there, here) ? there->data != here->data
                                           : differ(recorded(pair.there, kFingerprint),
                                                    recorded(*pair.here, kFingerprint));
  if (!there || !here) return;
  for (const auto& [entry, data] : there->evaluations) {
    const auto found = here->evaluations.find(entry);
    if (found != here->evaluations.end() && differ(data, found->second)) {
      pair.other_data_of.insert(entry);
    }
  }
}

std::vector<std::string> notes_of(const std::vector<RunPair>& runs) {
  Sentences all;
  for (const RunPair& pair : runs) {
    const std::string label = one_line(pair.there.label());
    note_own(pair.there, "there", label, all);
    if (!pair.here) continue;
    note_own(*pair.here, "here", label, all);
    note_surroundings(pair, label, all);
    note_locks(pair, label, all);
  }
  std::vector<std::string> notes;
  notes.reserve(all.size());
  for (const auto& [text, labels] : all) {
    notes.push_back(fmt::format("{}: {}", first_of(labels), text));
  }
  return notes;
}

std::vector<Reproduced> compare_results(const std::vector<RunPair>& runs) {
  std::map<std::pair<std::string, std::string>, Cell> cells;
  for (const RunPair& run : runs) {
    cells[{run.there.experiment, run.there.attention}].push_back(&run);
  }
  std::vector<Reproduced> out;
  for (const auto& [name, cell] : cells) {
    for (const Metric& metric : metrics_of(cell)) out.push_back(compare_metric(cell, metric));
  }
  return out;
}

std::string reproduction_text(const std::vector<Reproduced>& all, bool whole) {
  std::vector<const Reproduced*> deciding, others;
  std::size_t agree = 0, left_out = 0;
  for (const Reproduced& one : all) {
    if (one.decides) {
      deciding.push_back(&one);
    } else if (!whole && one.agrees()) {
      ++agree;
    } else if (!whole && others.size() == kMostRows) {
      ++left_out;
    } else {
      others.push_back(&one);
    }
  }
  std::string text = table(deciding);
  if (!others.empty()) text += "\nother metrics, which do not decide:\n" + table(others);
  if (left_out > 0) text += fmt::format("{} more metrics are not shown here\n", left_out);
  if (agree > 0) text += fmt::format("{} other metrics agree, or are identical\n", agree);
  return text;
}

}  // namespace attnlab::sharing
