// Python files as compositions name them.
#include "framework/manifest/python_file.h"

namespace attnlab {
namespace {

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

std::string plain_file(const std::string& path) {
  return is_python_name(path) ? parse_python_name(path).file : path;
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

}  // namespace attnlab
