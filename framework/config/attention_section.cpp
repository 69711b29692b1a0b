#include "framework/config/attention_section.h"

#include <filesystem>
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

/// What `use:` names; null where nothing sound.
const Node* use_of(const Node& section) {
  const Node* use = section.is_map() ? section.find("use") : &section;
  return use != nullptr && use->is_scalar() ? use : nullptr;
}

/// The text of an entry; empty where there is none.
std::string text_at(const Node& section, const char* key) {
  const Node* value = section.is_map() ? section.find(key) : nullptr;
  return value != nullptr && value->is_scalar() ? value->text() : "";
}

void add(const std::string& key, const Node& section, std::vector<NamedMechanism>& out) {
  const std::string name = named_plugin(section);
  if (!name.empty()) out.push_back({key, name});
}

/// What a mechanism is called without `as`. @param section  with a sound `use`
std::string own_label(const Node& section) {
  if (!is_python(section)) return plain_name(use_of(section)->text());
  const PythonName python = python_name(section);
  return python.name.empty() ? std::filesystem::path(python.file).stem().string() : python.name;
}

}  // namespace

bool is_python_name(std::string_view text) {
  constexpr std::string_view kEnding = ".py";
  const std::size_t colon = text.rfind(':');
  const bool whole = text.ends_with(kEnding);
  const std::string_view file =
      whole || colon == std::string_view::npos ? text : text.substr(0, colon);
  return file.ends_with(kEnding) && file.size() > kEnding.size() &&
         (whole || text.find('/', colon) == std::string_view::npos);
}

PythonName parse_python_name(const std::string& text) {
  if (text.ends_with(".py")) return {text, ""};
  const std::size_t colon = text.rfind(':');
  return {text.substr(0, colon), text.substr(colon + 1)};
}

bool is_python(const Node& section) {
  const Node* use = use_of(section);
  return use != nullptr && (use->text() == kPython || is_python_name(use->text()));
}

Node python_section(Node section) {
  const Node* given = use_of(section);
  if (!section.is_map() || given == nullptr || !is_python_name(given->text())) return section;
  const Node use = *given;
  const PythonName python = parse_python_name(use.text());
  const auto named = [&](const std::string& text) {
    Node node = use;
    node.set_text(text);
    return node;
  };
  section.set("use", named(kPython));
  section.set("file", named(python.file));
  if (!python.name.empty()) section.set("class", named(python.name));
  return section;
}

PythonName python_name(const Node& section) {
  const Node* use = use_of(section);
  if (is_python_name(use->text())) {
    PythonName python = parse_python_name(use->text());
    if (python.name.empty()) python.name = text_at(section, "class");
    return python;
  }
  return {text_at(section, "file"), text_at(section, "class")};
}

std::string named_plugin(const Node& section) {
  const Node* use = use_of(section);
  if (use == nullptr) return "";
  return is_python(section) ? python_name(section).text() : use->text();
}

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
