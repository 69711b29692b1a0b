#include "framework/comparison/comparison.h"
#include "framework/comparison/quantities.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "framework/base/text.h"
#include "framework/comparison/attention_forms.h"
#include "framework/comparison/metric_choice.h"
#include "framework/comparison/ranking.h"
#include "framework/comparison/settings.h"
#include "framework/manifest/attention_section.h"
#include "framework/manifest/python_file.h"
#include "framework/manifest/schema.h"
#include "framework/runs/stored_run.h"

namespace attnlab {
namespace {

std::string chosen_baseline(const RunCollection& collection, const std::string& given,
                            const std::set<std::string>& labels) {
  // One attention alone is compared with nothing.
  if (given.empty() && labels.size() == 1) return *labels.begin();
  std::set<std::string> named;
  for (const SuiteRecord& suite : collection.suites) named.insert(suite.baseline);
  std::string baseline = !given.empty()      ? given
                         : named.size() == 1 ? *named.begin()
                                             : std::string("standard");
  if (labels.count(baseline) > 0) return baseline;
  const std::vector<std::string> names(labels.begin(), labels.end());
  throw ConfigError(fmt::format("no run has the baseline '{}'{} (choose with --baseline)", baseline,
                                suggestion(baseline, names)));
}

/// The message of a composition that was refused, without the place in a run's folder.
std::string without_place(const std::string& message) {
  const std::string line = message.substr(0, message.find('\n'));
  const std::size_t colon = line.find(": ");
  return colon == std::string::npos ? line : line.substr(colon + 2);
}

/// Why there is no run: the experiment cannot be composed with the attention, or none was made.
Gap gap_without_run(const RunRecord& experiment, const RunRecord& attention,
                    const Catalogue* catalogue) {
  Node config = experiment.config.tree();
  config.set("attention", attention.config.at("attention"));
  try {
    if (catalogue == nullptr) return {Absence::no_run, ""};
    for (const Kind kind : {Kind::model, Kind::task, Kind::dataset}) {
      catalogue->find(kind, name_in_run(named_plugin(config.at(name_of(kind))), experiment.folder));
    }
    for (const NamedMechanism& one : mechanisms_in(config.at("attention"))) {
      catalogue->find(Kind::attention, name_in_run(one.name, attention.folder));
    }
    resolve_experiment(config, *catalogue, experiment.experiment);
  } catch (const ConfigError& refusal) {
    return {Absence::incompatible, without_place(refusal.what())};
  } catch (const PluginError&) {  // not on this machine: nothing is known
  }
  return {Absence::no_run, ""};
}

SeedValue value_of(const RunRecord& run, const std::string& metric) {
  return {run.seed, run.value(metric), run.gap(metric)};
}

/// What each row is made of: runs by experiment, attention and seed.
class Records {
 public:
  explicit Records(const RunCollection& collection) {
    for (const RunRecord& run : collection.runs) {
      runs_[{run.experiment, run.attention, run.seed}] = &run;
      seeds_[run.experiment].insert(run.seed);
      of_experiment_.emplace(run.experiment, &run);
      of_attention_.emplace(run.attention, &run);
    }
    for (const AbsentCell& cell : collection.absent) {
      if (seeds_.count(cell.experiment) == 0) continue;
      absent_[{cell.experiment, cell.attention, cell.seed}] = cell.gap;
      seeds_[cell.experiment].insert(cell.seed);  // its row says why, also where no run has it
    }
  }

  /// What a suite says of a cell without a run.
  Gap gap(const std::string& experiment, const std::string& attention, std::int64_t seed) const {
    const auto found = absent_.find({experiment, attention, seed});
    return found == absent_.end() ? Gap{Absence::no_run, ""} : found->second;
  }
  const RunRecord* find(const std::string& experiment, const std::string& attention,
                        std::int64_t seed) const {
    const auto found = runs_.find({experiment, attention, seed});
    return found == runs_.end() ? nullptr : found->second;
  }
  const std::set<std::int64_t>& seeds(const std::string& experiment) const {
    return seeds_.at(experiment);
  }
  const RunRecord& any_of_experiment(const std::string& name) const {
    return *of_experiment_.at(name);
  }
  /// Null where an attention has no run at all.
  const RunRecord* any_of_attention(const std::string& label) const {
    const auto found = of_attention_.find(label);
    return found == of_attention_.end() ? nullptr : found->second;
  }

 private:
  using Key = std::tuple<std::string, std::string, std::int64_t>;
  std::map<Key, const RunRecord*> runs_;
  std::map<Key, Gap> absent_;
  std::map<std::string, std::set<std::int64_t>> seeds_;
  std::map<std::string, const RunRecord*> of_experiment_, of_attention_;
};

/// Means of what was recorded by the runs that are done.
Costs mean_costs(const std::vector<const RunRecord*>& runs) {
  std::map<std::string, std::vector<double>> values;
  for (const RunRecord* run : runs) {
    if (!run->done()) continue;
    for (const auto& [name, value] : run->costs) {
      if (std::isfinite(value)) values[name].push_back(value);
    }
  }
  Costs means;
  for (const auto& [name, list] : values) means[name] = summary_of(list).mean;
  return means;
}

std::map<std::string, Summary> evaluation_summaries(const std::vector<const RunRecord*>& runs) {
  std::map<std::string, std::vector<double>> values;
  for (const RunRecord* run : runs) {
    for (const MetricInfo& headline : run->evaluation_headlines) {
      if (const auto value = run->value(headline.name)) values[headline.name].push_back(*value);
    }
  }
  std::map<std::string, Summary> out;
  for (const auto& [name, list] : values) out[name] = summary_of(list);
  return out;
}

/// The reason that says most where a row has no value at all: the first run's that has one.
Gap gap_of(const std::vector<SeedValue>& seeds) {
  for (const SeedValue& seed : seeds) {
    if (seed.gap.kind != Absence::no_run) return seed.gap;
  }
  return seeds.front().gap;
}

ComparisonRow row_of(const Records& records, const std::string& experiment,
                     const std::string& attention, const Comparison& comparison,
                     const Catalogue* catalogue) {
  ComparisonRow row;
  row.experiment = experiment;
  row.attention = attention;
  row.metric = comparison.metrics.at(experiment);
  std::vector<const RunRecord*> runs;
  std::vector<double> values;
  for (const std::int64_t seed : records.seeds(experiment)) {
    const RunRecord* run = records.find(experiment, attention, seed);
    row.seeds.push_back(
        run != nullptr ? value_of(*run, row.metric.name)
                       : SeedValue{seed, std::nullopt, records.gap(experiment, attention, seed)});
    if (run != nullptr) runs.push_back(run);
    if (row.seeds.back().value) values.push_back(*row.seeds.back().value);
  }
  row.summary = summary_of(values);
  row.interval = interval_of(row.metric, row.summary, 1 - comparison.options.level);
  row.costs = mean_costs(runs);
  row.evaluations = evaluation_summaries(runs);
  const RunRecord* elsewhere = records.any_of_attention(attention);
  if (runs.empty() && elsewhere != nullptr) {
    const Gap gap = gap_without_run(records.any_of_experiment(experiment), *elsewhere, catalogue);
    for (SeedValue& seed : row.seeds) {
      if (seed.gap.kind == Absence::no_run) seed.gap = gap;
    }
  }
  if (values.empty()) row.gap = gap_of(row.seeds);
  return row;
}

Contrast contrast_of(const ComparisonRow& row, const ComparisonRow& baseline,
                     const CompareOptions& options) {
  Contrast out;
  std::vector<double> ours, theirs;
  for (std::size_t i = 0; i < row.seeds.size(); ++i) {  // both rows have the experiment's seeds
    if (!row.seeds[i].value || !baseline.seeds[i].value) continue;
    ours.push_back(*row.seeds[i].value);
    theirs.push_back(*baseline.seeds[i].value);
  }
  const std::vector<double> differences = paired_differences(ours, theirs);
  out.difference = summary_of(differences);
  out.interval = confidence_interval(out.difference, 1 - options.level);
  out.dz = cohen_dz(differences);
  out.rank_biserial = rank_biserial(differences);
  if (options.test == "wilcoxon" && out.rank_biserial) out.above = *out.rank_biserial > 0;
  out.test = paired_test(parse_paired_test(options.test), differences);
  if (out.test) return out;
  if (row.gap) {
    out.gap = row.gap;
  } else if (baseline.gap) {
    out.gap = {Absence::no_baseline, baseline.gap.text()};
  } else if (differences.size() < 2) {
    const std::string reason = fmt::format("{} of the two that a test needs", differences.size());
    out.gap = {Absence::too_few_pairs, reason};
  } else {
    out.gap = {Absence::no_spread, "every pair differs by the same"};
  }
  return out;
}

void add_contrasts(Comparison& comparison) {
  std::map<std::string, const ComparisonRow*> baselines;
  for (const ComparisonRow& row : comparison.rows) {
    if (row.attention == comparison.baseline) baselines[row.experiment] = &row;
  }
  std::vector<Contrast*> tested;
  std::vector<double> p_values;
  for (ComparisonRow& row : comparison.rows) {
    if (row.attention == comparison.baseline) continue;
    row.contrast = contrast_of(row, *baselines.at(row.experiment), comparison.options);
    if (!row.contrast->test) continue;
    tested.push_back(&*row.contrast);
    p_values.push_back(row.contrast->test->p_value);
  }
  comparison.tests = static_cast<std::int64_t>(tested.size());
  if (comparison.options.correct == "holm") p_values = holm(p_values);
  for (std::size_t i = 0; i < tested.size(); ++i) {
    tested[i]->adjusted_p = p_values[i];
    tested[i]->significant = p_values[i] <= comparison.options.level;
  }
}

/// What the suites' publications say of the compared metrics, experiments and attentions.
void add_published(Comparison& comparison, const RunCollection& collection) {
  std::map<std::pair<std::string, std::string>, PublishedNumbers> by_source;
  for (const SuiteRecord& suite : collection.suites) {
    for (const PublishedNumbers& one : suite.published) {
      PublishedNumbers& all = by_source[{one.source, one.metric}];
      all.source = one.source;
      all.metric = one.metric;
      for (const auto& [experiment, row] : one.values) {
        const auto compared = comparison.metrics.find(experiment);
        if (compared == comparison.metrics.end() || compared->second.name != all.metric) continue;
        for (const auto& [attention, value] : row) all.values[experiment][attention] = value;
      }
    }
  }
  const auto concerns = [&](const PublishedNumbers& published) {
    return std::any_of(comparison.rows.begin(), comparison.rows.end(),
                       [&](const ComparisonRow& row) {
                         return published.find(row.experiment, row.attention) != nullptr;
                       });
  };
  for (const auto& [source, published] : by_source) {
    if (concerns(published)) comparison.published.push_back(published);
  }
}

/// The evaluation that a metric is of: "swap/0.01" of "swap/0.01/accuracy" where runs have that
/// point, "swap" of "swap/accuracy", the mean of all; empty: of none.
std::string evaluation_of(const std::string& metric, const std::vector<RunRecord>& runs) {
  std::string found;
  for (const RunRecord& run : runs) {
    for (const EvaluationRecord& one : run.evaluations) {
      const bool longer = one.entry.size() > found.size();
      if (longer && metric.starts_with(one.entry + "/")) found = one.entry;
    }
  }
  return found;
}

/// Whether a difference is one of an evaluation, or of a point that it is the mean of.
bool is_of_evaluation(const std::string& evaluation, const std::string& key) {
  const std::string entry = key.substr(key.find(' ') + 1);
  return !evaluation.empty() && (entry == evaluation || entry.starts_with(evaluation + "/"));
}

/// Columns of evaluations; and where an entry did not change the same in all runs: unfair where it
/// is compared, else a note.
void add_evaluations(Comparison& comparison, const std::vector<RunRecord>& runs) {
  std::set<std::string> names;
  for (const ComparisonRow& row : comparison.rows) {
    for (const auto& [name, summary] : row.evaluations) names.insert(name);
  }
  for (const auto& [experiment, metric] : comparison.metrics) names.erase(metric.name);
  comparison.evaluations = comparison.book.in_order(names);
  for (const ConfigDifference& one : evaluation_differences(runs)) {
    const std::string& metric = comparison.metrics.at(one.experiment).name;
    if (is_of_evaluation(evaluation_of(metric, runs), one.key)) {
      comparison.differences.push_back(one);
    } else {
      comparison.notes.push_back(one.text() + ": their values do not compare");
    }
  }
}

/// What suites leave out of experiments that have no row. (Of runs that cannot be read the
/// collection's own notes tell.)
std::vector<std::string> absences_without_row(const Comparison& comparison,
                                              const RunCollection& collection) {
  std::vector<AbsentCell> cells;
  for (const AbsentCell& cell : collection.absent) {
    if (comparison.metrics.count(cell.experiment) > 0) continue;
    if (cell.gap.kind != Absence::unreadable) cells.push_back(cell);
  }
  std::vector<std::string> lines = absence_lines(cells);
  for (std::string& line : lines) line.insert(0, "not compared: ");
  return lines;
}

void add_tuned(Comparison& comparison, const RunCollection& collection) {
  const auto has_row = [&](const TunedAttention& one) {
    return std::any_of(comparison.rows.begin(), comparison.rows.end(),
                       [&](const ComparisonRow& row) {
                         return row.experiment == one.experiment && row.attention == one.attention;
                       });
  };
  for (const SuiteRecord& suite : collection.suites) {
    if (!suite.tuning) continue;
    for (const TunedAttention& one : suite.tuning->attentions) {
      if (has_row(one)) comparison.tuned.push_back(one);
    }
  }
}

void add_notes(Comparison& comparison, const RunCollection& collection) {
  std::int64_t pairs = 0;
  for (const ComparisonRow& row : comparison.rows) {
    if (row.contrast) pairs = std::max(pairs, row.contrast->difference.count);
  }
  const std::string reach = reach_note(comparison.options, pairs, comparison.tests);
  if (!reach.empty()) comparison.notes.push_back(reach);
  for (const SuiteRecord& suite : collection.suites) {
    if (suite.planned_test.empty() || suite.planned_test != comparison.options.test) continue;
    comparison.notes.push_back(
        "the t test was chosen by the number of seeds of the suite's last call, with which "
        "Wilcoxon's cannot reach the level: it assumes normal differences, which so few seeds "
        "cannot show (--test wilcoxon); if seeds were added or removed after looking at values, it "
        "was not chosen before them");
    break;
  }
  if (const auto note = stored_note(collection.runs)) comparison.notes.push_back(*note);
  if (const auto note = revisions_note(collection.runs)) comparison.notes.push_back(*note);
  for (const ConfigDifference& one : surroundings_of(collection.runs)) {
    comparison.notes.push_back(one.text() +
                               ": speeds do not compare, and last digits may depend on it");
  }
  for (std::string& note : option_notes(collection.runs, comparison.attentions)) {
    comparison.notes.push_back(std::move(note));
  }
  for (std::string& line : absences_without_row(comparison, collection)) {
    comparison.notes.push_back(std::move(line));
  }
  comparison.notes.insert(comparison.notes.end(), collection.notes.begin(), collection.notes.end());
}

}  // namespace

CompareOptions compare_options(const Node& section) {
  std::vector<std::string> problems;
  const Node resolved =
      resolve_options(section, schema_of<CompareOptions>(), "compare", "compare", problems);
  if (!problems.empty()) throw ConfigError(problems);
  return read_options<CompareOptions>(resolved);
}

bool ComparisonRow::improves() const {
  if (!contrast) return false;
  const bool above = contrast->above.value_or(contrast->difference.mean > 0);
  return above == (metric.better == Better::higher);
}

std::string reach_note(const CompareOptions& options, std::int64_t pairs,
                       std::int64_t comparisons) {
  const PairedTest test = parse_paired_test(options.test);
  const std::int64_t times = options.correct == "holm" ? std::max<std::int64_t>(1, comparisons) : 1;
  const double least = smallest_p_value(test, pairs);
  const double adjusted = std::min(1.0, static_cast<double>(times) * least);
  if (pairs < 1 || adjusted <= options.level) return "";
  const auto p_at_least = [](double p) {
    return p < 0.0001 ? fmt::format("{:.2g}", p) : p_text(p);
  };
  std::string text =
      fmt::format("{} {} cannot go below p = {} with the test '{}'", pairs,
                  pairs == 1 ? "paired seed" : "paired seeds", p_at_least(least), options.test);
  if (times > 1) {
    text +=
        fmt::format(", {} after Holm's correction of {} comparisons", p_at_least(adjusted), times);
  }
  text += ": nothing can be significant at the level " + shortest(options.level);
  const std::int64_t fewest = fewest_pairs(test, options.level, times);
  // None is enough, or fewer are: signs of more pairs are drawn, which has a floor of its own.
  return fewest > pairs ? fmt::format("{}; it takes {} seeds", text, fewest) : text;
}

std::string test_for_plan(const CompareOptions& options, std::int64_t pairs,
                          std::int64_t comparisons) {
  CompareOptions ranks = options;
  ranks.test = name_of(PairedTest::wilcoxon);
  const bool reachable = pairs < 2 || reach_note(ranks, pairs, comparisons).empty();
  return reachable ? ranks.test : std::string(name_of(PairedTest::t));
}

Comparison compare_runs(const RunCollection& collection, const CompareOptions& options,
                        const std::string& baseline, const Catalogue* catalogue) {
  std::set<std::string> experiments, labels;
  for (const RunRecord& run : collection.runs) {
    experiments.insert(run.experiment);
    labels.insert(run.attention);
  }
  for (const AbsentCell& cell : collection.absent) {
    if (experiments.count(cell.experiment) > 0) labels.insert(cell.attention);
  }
  Comparison out;
  out.options = options;
  out.baseline = chosen_baseline(collection, baseline, labels);
  out.book = book_of(collection.runs);
  out.metrics = chosen_metrics(collection.runs, out.book, options.metric, options.better);
  const auto common = common_metric(out);
  out.metric = common ? common->name : kHeadline;
  out.experiments.assign(experiments.begin(), experiments.end());
  out.attentions = {out.baseline};
  labels.erase(out.baseline);
  out.attentions.insert(out.attentions.end(), labels.begin(), labels.end());
  const Records records(collection);
  for (const std::string& experiment : out.experiments) {
    for (const std::string& attention : out.attentions) {
      out.rows.push_back(row_of(records, experiment, attention, out, catalogue));
    }
  }
  out.settings = settings_of(collection);
  add_contrasts(out);
  if (options.pair == "example") out.by_example = example_tests(out, collection);
  add_ranking(out);
  out.runs = collection.runs.size();
  out.values = compared_values(collection.runs);
  out.differences = differences_of(collection.runs);
  for (ConfigDifference& one : label_differences(collection.runs, out.attentions)) {
    out.differences.push_back(std::move(one));
  }
  add_evaluations(out, collection.runs);
  out.matched = matched_values(collection.runs);
  add_published(out, collection);
  add_tuned(out, collection);
  add_notes(out, collection);
  return out;
}

}  // namespace attnlab
