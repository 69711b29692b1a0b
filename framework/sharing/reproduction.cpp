#include "framework/sharing/reproduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "framework/comparison/statistics.h"
#include "framework/comparison/table.h"

namespace attnlab::sharing {
namespace {

/// Relative: what the same computation in another order may give.
constexpr double kRounding = 1e-6;

/// Rows of metrics that do not decide, on a terminal.
constexpr std::size_t kMostRows = 20;

using Cell = std::vector<const RunPair*>;

/// How the seeds of one metric ended.
struct Ends {
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

/// What a run cost says nothing of what it found.
bool is_cost(const std::string& metric, const RunRecord& run) {
  return run.costs.count(metric) > 0 || metric == "host_share";
}

struct Metric {
  std::string name;
  bool decides;
};

/// Names in order, each once.
class Metrics {
 public:
  void add(const std::string& name, bool decides) {
    if (seen_.insert(name).second) all_.push_back({name, decides});
  }
  std::vector<Metric> take() { return std::move(all_); }

 private:
  std::set<std::string> seen_;
  std::vector<Metric> all_;
};

/// All that a cell's runs measured, headlines first. Of an evaluation over a list of values the
/// mean decides, not each of its points.
std::vector<Metric> metrics_of(const Cell& cell) {
  std::vector<const RunRecord*> runs;
  for (const RunPair* pair : cell) {
    runs.push_back(&pair->there);
    if (pair->here) runs.push_back(&*pair->here);
  }
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

Ends ends_of(const Cell& cell, Reproduced& one) {
  Ends ends;
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

void judge(const Ends& ends, Reproduced& one) {
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
  const Ends ends = ends_of(cell, one);
  const std::string entry = entry_of(metric.name, first);
  if (!entry.empty() && !is_configured(entry, first)) {
    one.verdict = "not repeated";
    one.why = "this evaluation was added to the finished run";
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
  std::vector<std::vector<std::string>> rows = {
      {"experiment", "attention", "metric", "seeds", "there", "here", "verdict", "why"}};
  for (const Reproduced* one : some) {
    rows.push_back({one->experiment, one->attention, one->metric, std::to_string(one->seeds),
                    summary(one->there), summary(one->here), one->verdict, one->why});
  }
  return table_text(rows, TableStyle::text);
}

}  // namespace

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
