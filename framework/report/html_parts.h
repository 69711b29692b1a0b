// Pieces of the page that stand without scripts: tables and lists.
#pragma once

#include <string>

#include "framework/report/report.h"

namespace attnlab {

/// A box that the script fills with a chart and its controls; without scripts it says so.
/// @param note  HTML, escaped already
std::string chart_box(const std::string& id, const std::string& note);

/// What the charts draw, as JSON for a script element.
std::string chart_data(const Report& report);

/// The comparison, a row for each experiment and attention; empty if every experiment is
/// pooled.
std::string results_html(const Report& report);
/// Pooled runs: tables and a chart for each grid. Empty without one.
std::string grid_html(const Report& report);
/// How final metrics are distributed over runs. Empty where an attention has too few runs.
std::string distributions_html(const Report& report);
/// Every final metric but those of single classes, a row for each slice and attention.
std::string metrics_html(const Report& report);
/// Metrics of single classes: a table for each slice and metric, one row per class, one column
/// per attention. Empty where no task has such metrics.
std::string classes_html(const Report& report);
/// What differs between cells, or that nothing does.
std::string settings_html(const Report& report);
std::string environment_html(const Report& report);
std::string unfinished_html(const Report& report);
std::string citations_html(const Report& report);

}  // namespace attnlab
