// `page:` of a suite: what its page over domains shows (framework/runs/page_spec.h has the form).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "framework/config/node.h"
#include "framework/runs/page_spec.h"

namespace attnlab {

/// @param section   the value of `page`
/// @param problems  every problem is appended: unknown keys and words, columns without an
///                  experiment, two columns of one name
PageSpec read_page(const Node& section, std::vector<std::string>& problems);

/// Leaves out columns and claims of experiments that the suite does not have.
/// @param experiments  the suite's
/// @param problems     gets each such name, with near ones; null: experiments were chosen by hand
void fit_page(PageSpec& page, const std::vector<std::string>& experiments, const Place& place,
              std::vector<std::string>* problems);

/// Appends metrics of columns and claims ("fgo/accuracy") that are nearly an evaluation's. Others
/// may be a task's own ("outcome/correct"), which a suite does not know of.
/// @param evaluations  the entries of `evaluate:` by experiment
void check_metrics(const PageSpec& page,
                   const std::map<std::string, std::vector<std::string>>& evaluations,
                   const Place& place, std::vector<std::string>& problems);

}  // namespace attnlab
