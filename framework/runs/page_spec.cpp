#include "framework/runs/page_spec.h"

#include <fmt/format.h>

#include <iterator>

#include "framework/base/error.h"
#include "framework/base/json.h"

namespace attnlab {
namespace {

using nlohmann::json;

constexpr std::string_view kRoles[] = {"quality", "robustness", "stability"};

}  // namespace

std::string_view name_of(ColumnRole role) { return kRoles[static_cast<std::size_t>(role)]; }

ColumnRole parse_column_role(const std::string& name) {
  for (std::size_t i = 0; i < std::size(kRoles); ++i) {
    if (name == kRoles[i]) return static_cast<ColumnRole>(i);
  }
  throw DataError(fmt::format("unknown role '{}' of a column", name));
}

std::string PageColumn::name() const {
  return title.empty() || title == domain ? domain : fmt::format("{}: {}", domain, title);
}

json page_json(const PageSpec& page) {
  json columns = json::array(), claims = json::array();
  for (const PageColumn& one : page.columns) {
    columns.push_back({{"domain", one.domain},
                       {"experiment", one.experiment},
                       {"metric", one.metric},
                       {"title", one.title},
                       {"role", name_of(one.role)}});
  }
  for (const PageClaim& one : page.claims) {
    claims.push_back({{"attention", one.attention},
                      {"experiment", one.experiment},
                      {"metric", one.metric},
                      {"says", one.better ? "better" : "worse"},
                      {"source", one.source},
                      {"text", one.text}});
  }
  return {{"title", page.title}, {"columns", std::move(columns)}, {"claims", std::move(claims)}};
}

PageSpec read_page_json(const json& in) {
  PageSpec page;
  page.title = in.at("title").get<std::string>();
  for (const json& one : in.at("columns")) {
    page.columns.push_back({one.at("domain"), one.at("experiment"), one.at("metric"),
                            one.at("title"), parse_column_role(one.at("role").get<std::string>())});
  }
  for (const json& one : in.at("claims")) {
    page.claims.push_back({one.at("attention"), one.at("experiment"), one.at("metric"),
                           one.at("says") == "better", one.at("source"), one.at("text")});
  }
  return page;
}

}  // namespace attnlab
