// `relative:` of a suite: metrics as a share of the value that one experiment has.
//
//   relative: {to: yam_small_clean, metric: accuracy}
//
// adds to the table, for `accuracy` and each `.../accuracy`, a column `relative/accuracy`, ...: of
// each run its value over `accuracy` of the run of that experiment with the same attention and
// seed, mean over seeds. Robustness is often told so: accuracy on corrupted images over that on
// clean ones.
#pragma once

#include <string>
#include <vector>

#include "framework/manifest/schema.h"
#include "framework/suites/cell.h"

namespace attnlab {

struct SuiteRow;

struct RelativeTo {
  std::string to;                   ///< an experiment of the suite
  std::string metric = "accuracy";  ///< of it; and what others have the value of

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("to", to, filled(), "the experiment whose value is 100 %");
    v("metric", metric, "what is compared");
  }
};

/// "relative/fog/accuracy".
std::string relative_name(const std::string& metric);

/// Adds the relative metrics to the rows. Seeds of which either run has no value count nowhere; the
/// value that the others are relative to has none itself.
void add_relative(const RelativeTo& relative, const std::vector<Cell>& cells,
                  std::vector<SuiteRow>& rows);

}  // namespace attnlab
