// `page:` of a suite: what its page over domains shows (framework/runs/page_spec.h has the form).
#pragma once

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

}  // namespace attnlab
