#include "framework/comparison/example_tests.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "framework/base/text.h"
#include "framework/comparison/comparison.h"
#include "framework/comparison/quantities.h"
#include "framework/runs/metric_text.h"
#include "framework/runs/predictions.h"

namespace attnlab {
namespace {

/// How far the mean of a metric over examples may lie from its value of the split: batches of
/// another size round otherwise, and an answer between two classes may change.
constexpr double kNearMean = 0.005;

/// The evaluation that a metric is of, and its name there: "fog" and "accuracy" of "fog/accuracy".
/// An empty entry: the run itself.
struct Wanted {
  std::string entry, metric;
};

Wanted wanted_of(const std::string& metric, const std::vector<const RunRecord*>& runs) {
  Wanted out{"", metric};
  for (const RunRecord* run : runs) {
    for (const EvaluationRecord& one : run->evaluations) {
      if (one.entry.size() <= out.entry.size() || !metric.starts_with(one.entry + "/")) continue;
      out = {one.entry, metric.substr(one.entry.size() + 1)};
    }
  }
  return out;
}

/// Whether an evaluation asks what the run's own test asks.
bool is_of_run_itself(const EvaluationRecord& record) {
  return record.set == "{}" && record.split == "test" && record.weights == "last";
}

/// @throws ConfigError with what to do where there is none.
const EvaluationRecord& record_of(const RunRecord& run, const Wanted& wanted) {
  for (const EvaluationRecord& one : run.evaluations) {
    const bool found = wanted.entry.empty() ? is_of_run_itself(one) && !one.predictions.empty()
                                            : one.entry == wanted.entry;
    const bool mean = one.set.starts_with("{\"over\":");
    if (found && one.done && !mean) return one;
  }
  if (wanted.entry.empty()) {
    throw ConfigError(fmt::format(
        "{}: no evaluation that changes nothing kept its predictions of {}; give the experiment "
        "evaluate: {{answers: {{predictions: true}}}} and evaluate the run (attnlab eval {} --with "
        "FILE), or name another evaluation's metric with --metric",
        run.label(), wanted.metric, run.folder));
  }
  for (const EvaluationRecord& one : run.evaluations) {
    if (!one.entry.starts_with(wanted.entry + "/")) continue;
    throw ConfigError(fmt::format(
        "{}: '{}' is the mean over several evaluations; name one of them: --metric {}/{}",
        run.label(), wanted.entry, one.entry, wanted.metric));
  }
  throw ConfigError(fmt::format("{}: lacks a result of evaluation '{}'; attnlab eval {} {}",
                                run.label(), wanted.entry, run.folder, wanted.entry));
}

/// What one run answered.
struct Answers {
  const RunRecord* run = nullptr;
  Predictions predictions;
  const std::vector<double>* scores = nullptr;  ///< of the wanted metric

  bool are_binary() const {
    const auto& weights = predictions.terms;
    return std::all_of(scores->begin(), scores->end(),
                       [](double score) { return score == 0 || score == 1; }) &&
           std::all_of(weights.begin(), weights.end(), [](double weight) { return weight == 1; });
  }
  double mean() const {
    double sum = 0, weight = 0;
    for (std::size_t i = 0; i < scores->size(); ++i) {
      sum += predictions.terms[i] * (*scores)[i];
      weight += predictions.terms[i];
    }
    return sum / weight;
  }
};

/// "accuracy, nll": what was kept.
std::string names_of(const Predictions& predictions) {
  std::vector<std::string> names;
  for (const auto& [name, scores] : predictions.scores) names.push_back(name);
  return names.empty() ? "nothing" : join(names, ", ");
}

/// Metrics such as a perplexity or an average precision are not means over examples: a test of the
/// examples' mean would be about another number than the table shows.
void check_is_mean(const Answers& answers, const EvaluationRecord& record, const Wanted& wanted) {
  const auto found = record.metrics.find(wanted.metric);
  if (found == record.metrics.end()) return;
  const double mean = answers.mean();
  const double flips = answers.are_binary() ? 2 / static_cast<double>(answers.scores->size()) : 0;
  const double near = std::max(kNearMean * std::abs(found->second), flips);
  if (std::abs(mean - found->second) <= near) return;
  throw ConfigError(fmt::format(
      "{}: {} is {} of all examples and {} in the mean over them, so that it cannot be compared by "
      "example; choose a metric that is a mean (--metric): of {}",
      answers.run->label(), wanted.metric, shortest(found->second), shortest(mean),
      names_of(answers.predictions)));
}

void check_scores(const Answers& answers, const Wanted& wanted) {
  if (answers.scores->empty()) {
    throw ConfigError(answers.run->label() + ": its predictions are of no example");
  }
  for (std::size_t i = 0; i < answers.scores->size(); ++i) {
    const double score = (*answers.scores)[i], weight = answers.predictions.terms[i];
    if (std::isfinite(score) && std::isfinite(weight) && weight > 0) continue;
    throw ConfigError(fmt::format(
        "{}: the {} of example {} is {}, with weight {}; such a run cannot be compared by example",
        answers.run->label(), wanted.metric, answers.predictions.examples[i], shortest(score),
        shortest(weight)));
  }
}

/// @param out  stays where it is: scores point into it
void read_answers(const RunRecord& run, const Wanted& wanted, Answers& out) {
  const EvaluationRecord& record = record_of(run, wanted);
  out.run = &run;
  out.predictions = read_predictions(run.folder, record);
  const auto found = out.predictions.scores.find(wanted.metric);
  if (found == out.predictions.scores.end()) {
    throw ConfigError(fmt::format(
        "{}: evaluation '{}' kept no {} of each example (some may have none); it kept {}",
        run.label(), record.entry, wanted.metric, names_of(out.predictions)));
  }
  out.scores = &found->second;
  check_scores(out, wanted);
  check_is_mean(out, record, wanted);
}

/// @throws ConfigError where two runs were not asked the same.
void check_alike(const Answers& a, const Answers& b) {
  const auto refuse = [&](const std::string& why) {
    throw ConfigError(fmt::format(
        "{} and {} were not asked the same examples: {}; only answers to the same examples, in one "
        "order, can be paired. Evaluate both on the same data (attnlab eval RUN --again)",
        a.run->label(), b.run->label(), why));
  };
  const auto &first = a.predictions.examples, &second = b.predictions.examples;
  if (a.predictions.data != b.predictions.data) {
    refuse(fmt::format("their data are {} and {}{}", a.predictions.data, b.predictions.data,
                       a.run->seed == b.run->seed
                           ? ""
                           : " (data of each seed's own: compare one seed at a time)"));
  }
  if (first.size() != second.size()) {
    refuse(fmt::format("they are {} and {}", first.size(), second.size()));
  }
  const auto [one, other] = std::mismatch(first.begin(), first.end(), second.begin());
  if (one != first.end()) {
    refuse(fmt::format("at place {} they are {} and {}", one - first.begin(), *one, *other));
  }
  if (a.predictions.terms != b.predictions.terms) refuse("the same examples weigh differently");
}

std::vector<double> mean_scores(const std::vector<const Answers*>& of) {
  std::vector<double> means(of.front()->scores->size(), 0.0);
  for (const Answers* one : of) {
    for (std::size_t i = 0; i < means.size(); ++i) means[i] += (*one->scores)[i];
  }
  for (double& mean : means) mean /= static_cast<double>(of.size());
  return means;
}

double mean_of(const std::vector<const Answers*>& of) {
  double sum = 0;
  for (const Answers* one : of) sum += one->mean();
  return sum / static_cast<double>(of.size());
}

AloneRight alone_right(const Answers& attention, const Answers& baseline) {
  AloneRight out;
  for (std::size_t i = 0; i < attention.scores->size(); ++i) {
    const double own = (*attention.scores)[i], other = (*baseline.scores)[i];
    out.attention += own > other ? 1 : 0;
    out.baseline += own < other ? 1 : 0;
  }
  return out;
}

/// The runs of one experiment, whose predictions are read once.
class OfExperiment {
 public:
  OfExperiment(const std::string& experiment, const Comparison& comparison,
               const RunCollection& collection)
      : comparison_(comparison), metric_(comparison.metrics.at(experiment)) {
    for (const RunRecord& run : collection.runs) {
      if (run.experiment == experiment && run.done()) runs_.push_back(&run);
    }
    wanted_ = wanted_of(metric_.name, runs_);
  }

  /// Empty where no seed has both.
  std::optional<ExampleTest> test(const std::string& attention) {
    ExampleTest out;
    std::vector<const Answers*> ours, theirs;
    for (const RunRecord* run : runs_) {
      if (run->attention != attention) continue;
      const RunRecord* const baseline = find(comparison_.baseline, run->seed);
      if (baseline == nullptr) continue;
      out.seeds.push_back(run->seed);
      ours.push_back(&answers_of(*run));
      theirs.push_back(&answers_of(*baseline));
    }
    if (ours.empty()) return std::nullopt;
    for (const Answers* one : ours) check_alike(*theirs.front(), *one);
    for (const Answers* one : theirs) check_alike(*theirs.front(), *one);
    out.experiment = ours.front()->run->experiment;
    out.attention = attention;
    out.metric = metric_;
    out.examples = static_cast<std::int64_t>(ours.front()->scores->size());
    out.value = mean_of(ours);
    out.baseline = mean_of(theirs);
    std::vector<double> differences = mean_scores(ours);
    const std::vector<double> without = mean_scores(theirs);
    for (std::size_t i = 0; i < differences.size(); ++i) differences[i] -= without[i];
    out.difference = paired_bootstrap(differences, ours.front()->predictions.terms,
                                      1 - comparison_.options.level);
    out.p_value = out.difference.p_value;
    if (ours.size() == 1 && ours.front()->are_binary() && theirs.front()->are_binary()) {
      out.mcnemar = alone_right(*ours.front(), *theirs.front());
      out.p_value = mcnemar_exact(out.mcnemar->attention, out.mcnemar->baseline);
    }
    return out;
  }

 private:
  const RunRecord* find(const std::string& attention, std::int64_t seed) const {
    const auto found = std::find_if(runs_.begin(), runs_.end(), [&](const RunRecord* run) {
      return run->attention == attention && run->seed == seed;
    });
    return found == runs_.end() ? nullptr : *found;
  }

  const Answers& answers_of(const RunRecord& run) {
    const auto [at, fresh] = answers_.try_emplace(&run);
    if (fresh) read_answers(run, wanted_, at->second);
    return at->second;
  }

  const Comparison& comparison_;
  const MetricInfo& metric_;
  std::vector<const RunRecord*> runs_;
  Wanted wanted_;
  std::map<const RunRecord*, Answers> answers_;
};

std::string seeds_text(const std::vector<std::int64_t>& seeds) {
  std::vector<std::string> names;
  names.reserve(seeds.size());
  for (const std::int64_t seed : seeds) names.push_back(std::to_string(seed));
  return join(names, ", ");
}

/// "better" where the difference is above 0 and higher values are better.
bool improves(const ExampleTest& test) {
  return (test.difference.mean > 0) == (test.metric.better == Better::higher);
}

std::string tests_paragraph(const Comparison& comparison) {
  const std::vector<ExampleTest>& tests = comparison.by_example;
  const auto count = [&](const auto& is) {
    return std::count_if(tests.begin(), tests.end(), is) > 0;
  };
  const bool mcnemar = count([](const ExampleTest& one) { return one.mcnemar.has_value(); });
  const bool bootstrap = count([](const ExampleTest& one) { return !one.mcnemar; });
  const bool seeds = count([](const ExampleTest& one) { return one.seeds.size() > 1; });
  std::vector<std::string> parts;
  if (mcnemar) {
    parts.emplace_back(
        "McNemar's exact test of the examples that only one of the models has right, two-sided");
  }
  if (bootstrap) {
    parts.push_back(fmt::format("{} bootstrap over examples, two-sided",
                                mcnemar ? "elsewhere the paired" : "Paired"));
  }
  std::string text = join(parts, "; ");
  text +=
      fmt::format("; intervals are percentiles of {} bootstrap draws of examples", kBootstrapDraws);
  if (seeds) text += "; of several seeds, each example counts with its mean over them";
  text += comparison.options.correct == "holm"
              ? fmt::format(
                    "; Holm's correction over the {} of this table",
                    tests.size() == 1 ? "comparison" : fmt::format("{} comparisons", tests.size()))
              : "; no correction for several comparisons";
  return fmt::format("{}; level {}. Differences are attention minus baseline.", text,
                     shortest(comparison.options.level));
}

}  // namespace

std::string verdict_text(const ExampleTest& test) {
  return !test.significant ? "not shown" : improves(test) ? "better" : "worse";
}

std::vector<ExampleTest> example_tests(const Comparison& comparison,
                                       const RunCollection& collection) {
  std::vector<ExampleTest> tests;
  for (const std::string& experiment : comparison.experiments) {
    if (comparison.metrics.at(experiment).name.empty()) continue;  // nothing of it is compared
    OfExperiment runs(experiment, comparison, collection);
    for (const std::string& attention : comparison.attentions) {
      if (attention == comparison.baseline) continue;
      if (auto test = runs.test(attention)) tests.push_back(std::move(*test));
    }
  }
  std::vector<double> p_values;
  p_values.reserve(tests.size());
  for (const ExampleTest& one : tests) p_values.push_back(one.p_value);
  if (comparison.options.correct == "holm") p_values = holm(p_values);
  for (std::size_t i = 0; i < tests.size(); ++i) {
    tests[i].adjusted_p = p_values[i];
    tests[i].significant = p_values[i] <= comparison.options.level;
  }
  return tests;
}

void write_example_tests(const Comparison& comparison, const ShownExperiments& shows, Table table,
                         Document& out) {
  const std::vector<ExampleTest>& tests = comparison.by_example;
  if (std::none_of(tests.begin(), tests.end(),
                   [&](const ExampleTest& one) { return shows(one.experiment); })) {
    return;
  }
  const auto common = common_metric(comparison);
  const bool corrected = comparison.options.correct == "holm";
  table.columns = {"experiment", "attention", "seeds", {"examples", true}};
  if (!common) table.columns.emplace_back("metric");
  const auto column = [&](const std::string& heading, const char* help = "") {
    table.columns.emplace_back(heading, /*number=*/true, help);
  };
  column(comparison.baseline, "mean over examples");
  column(common ? metric_heading(*common) : "value", "of the attention, mean over examples");
  column(common ? difference_heading(*common) : "difference", "to the baseline, over examples");
  column(shortest(std::round(1e6 * (1 - comparison.options.level)) / 1e4) + " % interval");
  column("alone right", "examples that the attention has right and the baseline wrong");
  column("alone wrong", "examples that the attention has wrong and the baseline right");
  column("p");
  if (corrected) column("p (Holm)");
  table.columns.emplace_back("verdict");
  out.begin_table(table);
  for (const ExampleTest& one : tests) {
    if (!shows(one.experiment)) continue;
    std::vector<TableCell> cells(1, one.experiment);
    cells.emplace_back(one.attention);
    cells.emplace_back(seeds_text(one.seeds));
    cells.emplace_back(std::to_string(one.examples));
    if (!common) cells.emplace_back(metric_heading(one.metric));
    cells.emplace_back(quantity_of(one.metric, one.baseline));
    cells.emplace_back(quantity_of(one.metric, one.value));
    const Interval& interval = one.difference.interval;
    Quantity difference =
        difference_of(one.metric, one.difference.mean, one.value, std::optional(interval));
    difference.interval.reset();  // it has a column
    cells.emplace_back(difference);
    cells.emplace_back(interval_text(one.metric, interval, one.value));
    cells.back().order = interval.low;
    const auto alone = [&](std::int64_t count) {
      return one.mcnemar ? TableCell(std::to_string(count)) : TableCell();
    };
    const AloneRight right = one.mcnemar.value_or(AloneRight());
    cells.push_back(alone(right.attention));
    cells.push_back(alone(right.baseline));
    cells.push_back(p_cell(one.p_value));
    if (corrected) cells.push_back(p_cell(one.adjusted_p));
    cells.emplace_back(verdict_text(one));
    if (one.significant) cells.back().marks = improves(one) ? kBetter : kWorse;
    out.row(cells);
  }
  out.end_table();
  out.paragraph(tests_paragraph(comparison));
  out.paragraph(
      "Such a test says whether these trained models differ on other examples of the same kind. It "
      "does not say what another training would give: that is what the test over seeds is for.",
      /*joined=*/true);
}

}  // namespace attnlab
