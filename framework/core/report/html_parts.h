// Pieces of the page that stand without scripts: tables and lists.
#pragma once

#include <string>
#include <vector>

#include "framework/core/report/report.h"

namespace attnlab {

/// One cell of a table.
struct HtmlCell {
  std::string html;   ///< escaped already
  std::string order;  ///< what the column is sorted by: a number or a text; empty: stands last
  std::string style;  ///< a class
};

/// What heads a column.
struct HtmlColumn {
  std::string name;  ///< not escaped
  std::string help;  ///< not escaped; may be empty
  bool number = false;
};

/// A table in a box that scrolls by itself. With an ID its columns can be sorted.
std::string html_table(const std::string& caption, const std::vector<HtmlColumn>& columns,
                       const std::vector<std::vector<HtmlCell>>& rows, const std::string& id = "");

/// "205,066", "1.24": a cost as people read it, in the unit that its heading names.
std::string cost_text(const std::string& name, double value);

/// The comparison, a row for each experiment and attention.
std::string results_html(const Report& report);
/// Every final metric, a row for each experiment and attention.
std::string metrics_html(const Report& report);
/// What differs between cells, or that nothing does.
std::string settings_html(const Report& report);
std::string environment_html(const Report& report);
std::string unfinished_html(const Report& report);
std::string citations_html(const Report& report);

}  // namespace attnlab
