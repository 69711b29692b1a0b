#include "framework/comparison/power.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/constants/constants.hpp>
#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/non_central_t.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>

#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/comparison/quantities.h"
#include "framework/runs/metric_text.h"

namespace attnlab {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostPairs = 1'000'000;

/// How many pairs of the t test one pair of a test is worth.
double efficiency_of(PairedTest test) {
  return test == PairedTest::wilcoxon ? 3 / boost::math::constants::pi<double>() : 1;
}

double power_of(PairedTest test, double effect, std::int64_t pairs, double level) {
  if (smallest_p_value(test, pairs) > level) return 0;  // also of many: signs are drawn there
  const double worth = efficiency_of(test) * static_cast<double>(pairs);
  return worth > 1 ? paired_t_power(effect, worth, level) : 0;
}

}  // namespace

double paired_t_power(double effect, double pairs, double level) {
  const double freedom = pairs - 1, shift = std::abs(effect) * std::sqrt(pairs);
  const boost::math::students_t_distribution<double> null(freedom);
  const double critical = boost::math::quantile(boost::math::complement(null, level / 2));
  constexpr double kFar = 1000;  // the series does not converge there
  if (shift > kFar) {
    // Of t = (shift + z) / s the normal z no longer counts (below 1e-6): t is above where s, of
    // which freedom * s^2 is chi-squared, is below shift / critical.
    const double ratio = shift / critical;
    if (ratio > 10) return 1;
    const boost::math::chi_squared_distribution<double> chi(freedom);
    return boost::math::cdf(chi, freedom * ratio * ratio);
  }
  const boost::math::non_central_t_distribution<double> t(freedom, shift);
  return boost::math::cdf(boost::math::complement(t, critical)) + boost::math::cdf(t, -critical);
}

bool more_pairs_reach(PairedTest test, double level) {
  return smallest_p_value(test, kMostPairs) <= level;
}

std::optional<std::int64_t> pairs_for(PairedTest test, double effect, double level, double power) {
  std::int64_t low = fewest_pairs(test, level);
  if (low == 0) return std::nullopt;
  std::int64_t high = kMostPairs;
  if (!more_pairs_reach(test, level)) {  // but some do: those whose signs are not drawn
    high = low;
    while (smallest_p_value(test, high + 1) <= level) ++high;
  }
  if (power_of(test, effect, high, level) < power) return std::nullopt;
  while (low < high) {  // power rises with pairs
    const std::int64_t middle = low + (high - low) / 2;
    if (power_of(test, effect, middle, level) < power) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

std::optional<double> detectable_effect(PairedTest test, std::int64_t pairs, double level,
                                        double power) {
  if (smallest_p_value(test, pairs) > level) return std::nullopt;
  double low = 0, high = 1;
  while (power_of(test, high, pairs, level) < power) high *= 2;
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2;
    (power_of(test, middle, pairs, level) < power ? low : high) = middle;
  }
  return high;
}

double upper_deviation(double deviation, std::int64_t count) {
  constexpr double kBelow = 0.2;
  const double freedom = static_cast<double>(count - 1);
  const boost::math::chi_squared_distribution<double> chi(freedom);
  return deviation * std::sqrt(freedom / boost::math::quantile(chi, kBelow));
}

namespace {

/// Differences of two rows over the seeds that both have a value of.
std::vector<double> differences_of(const ComparisonRow& a, const ComparisonRow& b) {
  std::vector<double> left, right;
  for (std::size_t i = 0; i < a.seeds.size(); ++i) {
    if (!a.seeds[i].value || !b.seeds[i].value) continue;
    left.push_back(*a.seeds[i].value);
    right.push_back(*b.seeds[i].value);
  }
  return paired_differences(left, right);
}

double corrected_level(const PowerReport& report) {
  return report.options.level / static_cast<double>(report.comparisons);
}

PowerRow row_of(const ComparisonRow& attention, const ComparisonRow& other,
                const PowerReport& report) {
  PowerRow row;
  row.experiment = attention.experiment;
  row.attention = attention.attention;
  row.other = other.attention;
  row.differences = summary_of(differences_of(attention, other));
  if (row.differences.count < 2) {
    row.gap = fmt::format("{} of the two pairs that a deviation needs", row.differences.count);
    return row;
  }
  const double deviation = row.differences.deviation;
  if (!(deviation > 0) || !std::isfinite(deviation)) {
    row.gap = "every pair differs by the same";
    return row;
  }
  row.upper = upper_deviation(deviation, row.differences.count);
  const PairedTest test = parse_paired_test(report.options.test);
  const double difference = report.difference / metric_scale(report.metric);
  const auto seeds = [&](double spread, double level) {
    return pairs_for(test, difference / spread, level, report.power);
  };
  row.seeds = seeds(deviation, report.options.level);
  row.seeds_at_most = seeds(row.upper, report.options.level);
  row.corrected = seeds(deviation, corrected_level(report));
  row.corrected_at_most = seeds(row.upper, corrected_level(report));
  const auto effect =
      detectable_effect(test, row.differences.count, report.options.level, report.power);
  if (effect) row.detectable = *effect * deviation;
  return row;
}

/// @param level  at which the seeds are counted
TableCell seeds_cell(const PowerReport& report, double level,
                     const std::optional<std::int64_t>& seeds,
                     const std::optional<std::int64_t>& at_most) {
  const bool more = more_pairs_reach(parse_paired_test(report.options.test), level);
  const std::string absent = more ? "> " + std::to_string(kMostPairs) : "none";
  const auto text = [&](const std::optional<std::int64_t>& count) {
    return count ? std::to_string(*count) : absent;
  };
  TableCell cell(fmt::format("{} (up to {})", text(seeds), text(at_most)));
  if (seeds) cell.order = static_cast<double>(*seeds);
  return cell;
}

std::string with_unit(const MetricInfo& metric, double difference) {
  const std::string unit = difference_unit(metric);
  return shortest(difference) + (unit.empty() ? "" : " " + unit);
}

std::string method_text(const PowerReport& report) {
  const std::string& test = report.options.test;
  if (test == "wilcoxon") {
    return "Wilcoxon's signed-rank test: pairs count 3/pi as much as the paired t test's, its "
           "asymptotic relative efficiency where differences are normal (Hodges and Lehmann 1956); "
           "for no distribution is it below 0.864";
  }
  if (test == "permutation") {
    return "the sign-flip permutation test, by the power of the paired t test, to which its "
           "asymptotic relative efficiency is 1 (Hoeffding 1952)";
  }
  return "the paired t test, by Student's noncentral distribution (Owen 1965); differences are "
         "assumed to be normal";
}

void write_power(const PowerReport& report, Document& out) {
  const bool corrected = report.options.correct == "holm" && report.comparisons > 1;
  out.title(fmt::format("Seeds that a difference of {} in {} needs",
                        with_unit(report.metric, report.difference), report.metric.name));
  if (!report.fair) out.warning(kNotFair);
  const std::string unit = difference_unit(report.metric);
  const auto heading = [&](const char* what) {
    return unit.empty() ? std::string(what) : fmt::format("{} ({})", what, unit);
  };
  Table table;
  table.columns = {
      "experiment",   "attention", "against", {"pairs", true}, {heading("sd of difference"), true},
      {"seeds", true}};
  if (corrected) {
    table.columns.emplace_back(fmt::format("seeds (Holm, {})", report.comparisons), true);
  }
  table.columns.emplace_back(heading("shown by these pairs"), true);
  std::vector<std::string> gaps;
  for (const PowerRow& row : report.rows) {
    std::vector<TableCell>& cells = table.rows.emplace_back();
    cells = {row.experiment, row.attention, row.other, std::to_string(row.differences.count)};
    if (!row.gap.empty()) {
      cells.resize(table.columns.size());
      gaps.push_back(
          fmt::format("{}: {} against {}: {}", row.experiment, row.attention, row.other, row.gap));
      continue;
    }
    const auto number = [&](double value) {
      Quantity out = difference_of(report.metric, value, value);
      out.sign = false;
      return TableCell(out);
    };
    cells.push_back(number(row.differences.deviation));
    cells.push_back(seeds_cell(report, report.options.level, row.seeds, row.seeds_at_most));
    if (corrected) {
      cells.push_back(
          seeds_cell(report, corrected_level(report), row.corrected, row.corrected_at_most));
    }
    cells.push_back(row.detectable ? number(*row.detectable) : TableCell("none"));
  }
  out.table(table);
  out.paragraph(fmt::format("Power {} at the level {}, two-sided, pairs by seed: {}.",
                            shortest(report.power), shortest(report.options.level),
                            method_text(report)));
  out.paragraph(
      "\"Up to\": with the upper limit (confidence 0.8) of the deviation (Browne 1995), because "
      "the deviation of so few pairs is uncertain. Plan with that number.",
      /*joined=*/true);
  if (corrected) {
    out.paragraph(fmt::format("Holm: at the level of the correction's first step, {} / {}, which "
                              "the smallest p of so many comparisons must reach.",
                              shortest(report.options.level), report.comparisons),
                  /*joined=*/true);
  }
  const PairedTest test = parse_paired_test(report.options.test);
  if (!more_pairs_reach(test, corrected_level(report))) {
    out.paragraph(fmt::format("\"None\": no number of seeds is enough. Signs of many pairs are "
                              "drawn at random, and their p is never below {:.2g}.",
                              smallest_p_value(test, kMostPairs)),
                  /*joined=*/true);
  }
  if (gaps.empty()) return;
  out.heading("What is missing");
  out.list(gaps);
}

json optional_json(const std::optional<std::int64_t>& value) {
  return value ? json(*value) : json(nullptr);
}

}  // namespace

PowerReport power_report(const Comparison& comparison, double difference, double power) {
  if (!(difference > 0) || !std::isfinite(difference)) {
    throw ConfigError(fmt::format(
        "--difference: expected a number above 0, found {}; it is the difference that would matter",
        shortest(difference)));
  }
  if (!(power > 0 && power < 1)) {
    throw ConfigError(
        fmt::format("--power: expected a number between 0 and 1, found {}", shortest(power)));
  }
  const auto metric = common_metric(comparison);
  if (!metric) {
    throw ConfigError(fmt::format(
        "the experiments are judged by different metrics, so one difference does not apply to all: "
        "{}; choose one with --metric, or give the folder of one experiment",
        metric_phrase(comparison)));
  }
  // Planned runs have a test of each attention in each experiment, which those at hand may not.
  const std::size_t tests = (comparison.attentions.size() - 1) * comparison.experiments.size();
  PowerReport report{comparison.options,
                     *metric,
                     difference,
                     power,
                     std::max<std::int64_t>(1, static_cast<std::int64_t>(tests)),
                     {},
                     comparison.differences.empty()};
  if (report.options.correct != "holm") report.comparisons = 1;
  for (std::size_t i = 0; i < comparison.rows.size(); ++i) {
    for (std::size_t j = i + 1; j < comparison.rows.size(); ++j) {
      const ComparisonRow &other = comparison.rows[i], &attention = comparison.rows[j];
      if (other.experiment == attention.experiment) {
        report.rows.push_back(row_of(attention, other, report));
      }
    }
  }
  if (!report.rows.empty()) return report;
  throw ConfigError("these runs are of one attention: a difference needs two");
}

std::string power_text(const PowerReport& report) {
  TextDocument out(TableStyle::text);
  write_power(report, out);
  return out.take();
}

std::string power_json(const PowerReport& report) {
  const double scale = metric_scale(report.metric);
  const PairedTest test = parse_paired_test(report.options.test);
  json out = {{"metric", report.metric.name},
              {"unit", difference_unit(report.metric)},
              {"difference", report.difference},
              {"power", report.power},
              {"level", report.options.level},
              {"test", report.options.test},
              {"correct", report.options.correct},
              {"comparisons", report.comparisons},
              {"more_seeds_reach", more_pairs_reach(test, report.options.level)},
              {"more_seeds_reach_corrected", more_pairs_reach(test, corrected_level(report))},
              {"method", method_text(report)},
              {"fair", report.fair},
              {"rows", json::array()}};
  for (const PowerRow& row : report.rows) {
    json entry = {{"experiment", row.experiment},
                  {"attention", row.attention},
                  {"against", row.other},
                  {"pairs", row.differences.count}};
    if (!row.gap.empty()) {
      entry["absent"] = row.gap;
    } else {
      entry["sd"] = scale * row.differences.deviation;
      entry["sd_upper"] = scale * row.upper;
      entry["seeds"] = optional_json(row.seeds);
      entry["seeds_at_most"] = optional_json(row.seeds_at_most);
      entry["corrected"] = optional_json(row.corrected);
      entry["corrected_at_most"] = optional_json(row.corrected_at_most);
      entry["detectable"] = row.detectable ? json(scale * *row.detectable) : json(nullptr);
    }
    out["rows"].push_back(std::move(entry));
  }
  return json_text(out);
}

}  // namespace attnlab
