// Files that the build puts into the library, for the page to carry: see
// framework/cmake/AttnlabReport.cmake.
#pragma once

#include <string_view>

namespace attnlab {

std::string_view report_page_html();  ///< with {{names}} to replace
std::string_view report_page_css();
/// The page's script, in parts that follow each other in one function.
std::string_view report_page_js();
std::string_view report_curves_js();
std::string_view report_grid_js();
std::string_view report_start_js();
std::string_view report_chart_js();  ///< Chart.js, a classic script that defines `Chart`

}  // namespace attnlab
