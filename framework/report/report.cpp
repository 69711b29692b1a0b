#include "framework/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/base/unicode.h"
#include "framework/comparison/attention_forms.h"
#include "framework/config/compose.h"
#include "framework/config/difference.h"
#include "framework/document/markup.h"
#include "framework/experiment/keys.h"
#include "framework/report/run_files.h"

namespace attnlab {
namespace {

constexpr std::size_t kLogLines = 12, kLogBytes = 2000;

/// Without the escape sequences that colour a terminal.
std::string without_colours(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\x1b') {
      out += text[i];
    } else if (i + 1 < text.size() && text[i + 1] == '[') {
      i = std::min(text.find_first_of("ABCDEFGHJKSTfmnsulh", i + 2), text.size());
    }
  }
  return out;
}

/// The last lines of a log; empty without one.
std::string tail_of(const std::string& path) {
  std::string text = join(last_lines(path, kLogLines), "\n");
  if (text.size() > kLogBytes) {
    const std::size_t cut = text.size() - kLogBytes, line_end = text.find('\n', cut);
    text.erase(0, line_end == std::string::npos ? cut : line_end + 1);
  }
  return valid_utf8(without_colours(text));
}

/// The configuration of one run of each experiment that stands by itself, without what says which
/// run it is.
std::map<std::string, Node> configs_by_experiment(const Report& report) {
  std::map<std::string, const RunRecord*> chosen;
  for (const RunRecord& run : report.collection.runs) {
    const bool baseline = run.attention == report.comparison.baseline;
    if (!report.shows(run.experiment)) continue;
    if (chosen.count(run.experiment) == 0 || baseline) chosen[run.experiment] = &run;
  }
  std::map<std::string, Node> configs;
  for (const auto& [experiment, run] : chosen) {
    configs[experiment] = counted(run->config.tree(), Role::identity);
    configs[experiment].erase("attention");
  }
  return configs;
}

void add_settings(Report& report) {
  const std::map<std::string, Node> configs = configs_by_experiment(report);
  if (configs.empty()) return;
  std::vector<std::string> keys;
  std::set<std::string> known;
  for (const auto& [name, config] : configs) {
    for (const Difference& one : differences(configs.begin()->second, config)) {
      if (known.insert(one.key).second) keys.push_back(one.key);
    }
  }
  for (const std::string& key : keys) {
    ExperimentSetting setting{key, {}};
    for (const auto& [name, config] : configs) {
      const Node* value = find_key(config, key);
      setting.values.emplace_back(name, value == nullptr ? "-" : to_flow(*value));
    }
    report.settings.push_back(std::move(setting));
  }
}

void add_attentions(Report& report) {
  for (const std::string& label : report.comparison.attentions) {
    const std::vector<AttentionForm> forms = attention_forms(report.collection.runs, label);
    for (const AttentionForm& form : forms) {
      Node options = form.run->config.at("attention");
      options.erase("as");
      report.attentions.emplace_back(
          forms.size() == 1 ? label : fmt::format("{} ({})", label, first_of(form.experiments)),
          to_flow(options));
    }
  }
}

std::string title_of(const Comparison& comparison) {
  if (comparison.attentions.size() == 1) {
    const auto common = common_metric(comparison);
    return comparison.baseline + (common ? ": " + common->name : "");
  }
  const std::size_t others = comparison.attentions.size() - 1;
  const std::string against =
      others == 1 ? comparison.attentions[1] : fmt::format("{} attentions", others);
  return fmt::format("{} against {}", against, comparison.baseline);
}

}  // namespace

Report build_report(RunCollection collection, Comparison comparison, const Catalogue& catalogue) {
  Report report;
  report.collection = std::move(collection);
  report.comparison = std::move(comparison);
  report.title = title_of(report.comparison);
  report.slices = slices_of(report.collection);
  report.cells = pooled_cells(report.collection.runs, report.slices);
  report.ladders = ladders_of(report.cells);
  report.histograms = histograms_of(report.collection.runs, report.slices, report.comparison.book);
  read_run_files(report);
  for (const std::string& log : report.lost_logs) {
    report.comparison.notes.push_back(log +
                                      " cannot be read, or is longer than 4 GiB: its run has "
                                      "no curves here");
  }
  // Heads of single runs; there are too many at the points of a large grid.
  std::erase_if(report.biases,
                [&](const BiasFigure& bias) { return !report.shows(bias.experiment); });
  const auto keep_shown = [&](auto& pictures, const auto& pictures_of) {
    pictures = pictures_of(report.collection.runs, report.comparison.notes);
    std::erase_if(pictures, [&](const auto& one) { return !report.shows(one.origin.experiment); });
  };
  keep_shown(report.graphs, graph_pictures_of);
  keep_shown(report.clouds, cloud_pictures_of);
  keep_shown(report.boxes, box_pictures_of);
  keep_shown(report.label_maps, label_pictures_of);
  keep_shown(report.images, image_pictures_of);
  for (std::size_t i = 0; i < report.collection.runs.size(); ++i) {
    const RunRecord& run = report.collection.runs[i];
    report.seconds += run.status.seconds;
    if (run.status.state == RunState::done) continue;
    report.unfinished.push_back({i, tail_of(run.folder + "/log.txt")});
  }
  add_settings(report);
  add_attentions(report);
  report.citations = citations_of(report.collection.runs, catalogue, report.absent_plugins);
  return report;
}

}  // namespace attnlab
