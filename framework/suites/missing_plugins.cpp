#include "framework/suites/missing_plugins.h"

#include "framework/manifest/python_file.h"

namespace attnlab {
namespace {

/// Empty where the section names no plugin, or one that is here.
std::string missing_part(const Node& map, Kind kind, const Catalogue& catalogue) {
  const Node* section = map.find(name_of(kind));
  if (section == nullptr) return "";
  const Node* use = section->is_map() ? section->find("use") : section;
  if (use == nullptr || !use->is_scalar() || use->text() == "???") return "";
  const bool python = is_python(*section);
  if (python && python_name(*section).file.empty()) return "";  // its own check says so
  try {
    catalogue.find(kind, python ? located_name(*section).text() : use->text());
  } catch (const PluginError& error) {
    return error.what();
  }
  return "";
}

std::string missing_among(const Node& map, const Catalogue& catalogue) {
  for (const Kind kind : {Kind::model, Kind::task, Kind::dataset}) {
    std::string problem = missing_part(map, kind, catalogue);
    if (!problem.empty()) return problem;
  }
  return "";
}

}  // namespace

std::string missing_plugin(const Node& composed, const Catalogue& catalogue) {
  std::string problem = missing_among(composed, catalogue);
  const Node* entries = composed.find("evaluate");
  if (!problem.empty() || entries == nullptr) return problem;
  for (const auto& [name, entry] : entries->entries()) {
    const Node* set = entry.find("set");
    if (set != nullptr) problem = missing_among(*set, catalogue);
    if (!problem.empty()) return problem;
  }
  return "";
}

}  // namespace attnlab
