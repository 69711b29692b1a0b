// A report of finished and unfinished runs: what a page, a paper's table, and other programs need.
//
//   find_runs -> compare_runs -> build_report -> report_html, report_latex, report_markdown,
//                                                report_csv, report_json
//
// docs/report.md says what each format shows.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "framework/comparison/comparison.h"
#include "framework/manifest/discovery.h"
#include "framework/report/bias.h"
#include "framework/report/box_pictures.h"
#include "framework/report/citations.h"
#include "framework/report/cloud_pictures.h"
#include "framework/report/curves.h"
#include "framework/report/graph_pictures.h"
#include "framework/report/image_pictures.h"
#include "framework/report/label_pictures.h"
#include "framework/report/ladders.h"
#include "framework/report/pooling.h"
#include "framework/report/slices.h"
#include "framework/runs/run_records.h"

namespace attnlab {

/// A run that is not done, and what is known of why.
struct UnfinishedRun {
  std::size_t run = 0;  ///< its place in the collection
  std::string log;      ///< the last lines of log.txt; empty without one
};

/// Something about where runs were made: each value with how many runs have it.
struct Fact {
  std::string key;  ///< "machine.cpu"
  std::vector<std::pair<std::string, std::int64_t>> values;
};

/// A plugin's file as runs used it.
struct PluginUse {
  std::string kind, id, hash;
  std::int64_t runs = 0;
};

/// A setting in which experiments differ, with one value an experiment ("-": it has none). Points
/// of a grid that do not stand by themselves are left out.
struct ExperimentSetting {
  std::string key;
  std::vector<std::pair<std::string, std::string>> values;  ///< experiment, value
};

/// How many runs without a value the page and Markdown show with their reasons and logs.
constexpr std::size_t kMostUnfinished = 60;

struct Report {
  std::string title;
  std::string command;  ///< that made the report
  std::string date;     ///< in UTC, "2026-11-21 20:15 UTC"
  RunCollection collection;
  Comparison comparison;
  Slices slices;
  std::vector<PooledCell> cells;
  std::vector<Histogram> histograms;
  std::vector<Ladder> ladders;
  std::vector<Curve> curves;
  std::vector<std::string> lost_logs;  ///< logs of metrics that give no curves: they cannot be read
  std::vector<BiasFigure> biases;    ///< what attentions added to their logits, where it was traced
  std::vector<GraphPicture> graphs;  ///< that `attnlab show` kept
  std::vector<CloudPicture> clouds;  ///< the same, of clouds of points
  std::vector<BoxPicture> boxes;     ///< the same, of detectors
  std::vector<LabelPicture> label_maps;  ///< the same, of segmentation
  std::vector<ImagePicture> images;      ///< the same, of classifiers of images
  std::vector<UnfinishedRun> unfinished;
  std::vector<Fact> environment;
  std::vector<PluginUse> plugins;
  std::vector<ExperimentSetting> settings;
  std::vector<std::pair<std::string, std::string>> attentions;  ///< label, options in one line
  std::vector<Citation> citations;
  std::vector<std::string> absent_plugins;  ///< whose citations are not known here
  double seconds = 0;                       ///< spent by all runs

  const RunRecord& run(const UnfinishedRun& one) const { return collection.runs[one.run]; }
  /// What is compared in a slice: that of the experiment that its runs are of.
  const MetricInfo& metric_of(const Slice& slice) const {
    return comparison.metrics.at(collection.runs[slice.runs.front()].experiment);
  }
  /// What is known of a recorded number.
  MetricInfo info(const std::string& name) const { return comparison.book.shared(name); }
  /// Whether an experiment stands by itself: not a point of a grid of many.
  bool shows(const std::string& experiment) const { return slices.find(experiment) != nullptr; }
};

/// Reads what the runs left in their folders.
/// @param catalogue  for citations
/// A run's log of metrics that cannot be read is a note; its curves are not there.
Report build_report(RunCollection collection, Comparison comparison, const Catalogue& catalogue);

/// The main finding in a few sentences of plain words; the first is the most important.
std::vector<std::string> finding_of(const Report& report);

/// "QUEST: ..., ICML 2026 (attnlab/quest)": what to cite, and for which plugins.
std::vector<std::string> citation_lines(const Report& report);

/// One page that needs no other file and no network.
/// @param nonce  letters and digits that nobody can guess: scripts without it do not run
std::string report_html(const Report& report, const std::string& nonce);
/// A table for a paper (booktabs). BibTeX stands below it as comments.
std::string report_latex(const Report& report, bool with_bibtex = true);
std::string report_markdown(const Report& report);
/// One record a run, by RFC 4180.
std::string report_csv(const Report& report);
/// What the page's tables compare, one record an experiment and attention, by RFC 4180.
std::string report_table(const Report& report);
/// Everything. The member `schema` is the version of the form: 1.
std::string report_json(const Report& report);

}  // namespace attnlab
