// What the page of a suite over many domains shows: its columns, and what publications claim.
//
//   page:
//     title: One attention, every domain
//     columns:
//       - {domain: images, experiment: cross_images, title: clean}
//       - {domain: images, experiment: cross_images, metric: fog/accuracy, role: robustness}
//     claims:
//       - {attention: quest, experiment: cross_images, metric: fog/accuracy, says: better,
//          source: "QUEST, abstract", text: "robust to data corruptions"}
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace attnlab {

/// What a column tells of an attention. Ranks and the summary over domains are of quality alone.
enum class ColumnRole { quality, robustness, stability };

/// "quality", "robustness", "stability".
std::string_view name_of(ColumnRole role);
/// @throws DataError for another word.
ColumnRole parse_column_role(const std::string& name);

struct PageColumn {
  std::string domain;      ///< columns of one domain count as one in ranks and the summary
  std::string experiment;  ///< of the suite
  std::string metric;      ///< a metric's name, or "headline"
  std::string title;
  ColumnRole role = ColumnRole::quality;

  /// "images: fog"; the domain alone where the title says no more.
  std::string name() const;
};

/// What a publication says of an attention beside the baseline.
struct PageClaim {
  std::string attention, experiment, metric;
  bool better = true;  ///< else worse
  std::string source;  ///< "QUEST, table 3"
  std::string text;    ///< the claim in the publication's words or close to them
};

struct PageSpec {
  std::string title;
  std::vector<PageColumn> columns;
  std::vector<PageClaim> claims;
};

/// As suite.json keeps it.
nlohmann::json page_json(const PageSpec& page);
/// @throws nlohmann::json::exception or DataError for another form.
PageSpec read_page_json(const nlohmann::json& in);

}  // namespace attnlab
