// Tables for papers (booktabs).
#pragma once

#include "framework/document/document.h"

namespace attnlab {

struct LatexTable {
  std::string label;                       ///< "attnlab": \label{tab:attnlab}
  std::vector<std::string> warnings = {};  ///< bold, behind the caption
  /// A cell's parts stand one below the other, in rows of their own: side by side they fit no page.
  bool stacked = false;
};

/// Numbers in math, marks as bold, underlined and daggers; why a cell has none as footnotes.
std::string latex_table(const Table& table, const LatexTable& form);

/// Lines that LaTeX passes over.
std::string latex_comment(const std::string& text);

}  // namespace attnlab
