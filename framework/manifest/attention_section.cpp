#include "framework/manifest/attention_section.h"

#include <filesystem>
#include <set>
#include <utility>

#include "framework/manifest/python_file.h"

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
  const std::string name = named_plugin(section);
  if (!name.empty()) out.push_back({key, name});
}

/// What a mechanism is called without `as`. @param section  with a sound `use`
std::string own_label(const Node& section) {
  if (!is_python(section)) return plain_name(named_plugin(section));
  const PythonName python = python_name(section);
  return python.name.empty() ? std::filesystem::path(python.file).stem().string() : python.name;
}

}  // namespace

std::vector<NamedMechanism> mechanisms_in(const Node& section) {
  std::vector<NamedMechanism> out;
  add("attention", section, out);
  for (const auto& [key, one] : layers_of(section)) add("attention.layers." + key, one, out);
  return out;
}

std::string attention_label(const Node& section) {
  if (section.is_scalar()) return own_label(section);
  if (const Node* as = section.find("as")) return as->text();
  const Node& use = section.at("use");
  std::string label = use.is_scalar() ? own_label(section) : "";
  std::set<std::string> others;
  for (const auto& [key, one] : layers_of(section)) {
    if (one.is_scalar() || one.find("use") != nullptr) others.insert(attention_label(one));
  }
  for (const std::string& other : others) label += "+" + other;
  return label;
}

}  // namespace attnlab
