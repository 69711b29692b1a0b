#include "framework/config/attention_section.h"

#include <set>
#include <utility>

namespace attnlab {
namespace {

/// "quest" of "lab/quest".
std::string plain_name(const std::string& name) { return name.substr(name.find('/') + 1); }

/// The sections of `layers`, by their keys; none where there are none.
const std::vector<std::pair<std::string, Node>>& layers_of(const Node& section) {
  static const Node kNone;
  const Node* layers = section.find("layers");
  return (layers == nullptr ? kNone : *layers).entries();
}

void add(const std::string& key, const Node& section, std::vector<NamedMechanism>& out) {
  const Node* use = section.is_map() ? section.find("use") : &section;
  if (use != nullptr && use->is_scalar()) out.push_back({key, use->text()});
}

}  // namespace

std::vector<NamedMechanism> mechanisms_in(const Node& section) {
  std::vector<NamedMechanism> out;
  add("attention", section, out);
  for (const auto& [key, one] : layers_of(section)) add("attention.layers." + key, one, out);
  return out;
}

std::string attention_label(const Node& section) {
  if (section.is_scalar()) return plain_name(section.text());
  if (const Node* as = section.find("as")) return as->text();
  std::string label = plain_name(section.at("use").text());
  std::set<std::string> others;
  for (const auto& [key, one] : layers_of(section)) {
    if (one.is_scalar() || one.find("use") != nullptr) others.insert(attention_label(one));
  }
  for (const std::string& other : others) label += "+" + other;
  return label;
}

}  // namespace attnlab
