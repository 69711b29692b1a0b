// The section `attention` of a composition as a tree: `quest`, {use: quest, eps: 1e-3} or
//
//   {use: linear, layers: {first: quest, every_4: {use: standard}}}
//   {use: mine.py}, short for {use: python, file: mine.py}: a class in a Python file
//
// as it is written, composed or resolved. framework/experiment/part.h checks it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "framework/config/node.h"

namespace attnlab {

/// What `use:` says of a part in a Python file: of an attention, a model or a dataset.
inline constexpr const char* kPython = "python";

/// A Python file, and a class in it where that is named.
struct PythonName {
  std::string file;  ///< "folder/mine.py"
  std::string name;  ///< "Mine"; empty: the only one

  /// "folder/mine.py" or "folder/mine.py:Mine", which `parse_python_name` reads.
  std::string text() const { return name.empty() ? file : file + ":" + name; }
};

/// Whether a text names a Python file: "mine.py", "folder/mine.py:Mine".
bool is_python_name(std::string_view text);
/// @param text  of which `is_python_name` is true
PythonName parse_python_name(const std::string& text);

/// Whether a section is of a part in Python, in either form.
bool is_python(const Node& section);
/// {use: mine.py:Mine, as: warm} as {use: python, file: mine.py, class: Mine, as: warm}; any other
/// map as it is.
Node python_section(Node section);
/// The file and class of a section that `is_python`, as written; no file where it names none.
PythonName python_name(const Node& section);

/// What the section of one part names, as `NamedMechanism::name`; empty where it is not sound.
std::string named_plugin(const Node& section);

/// A plugin or a composition of `configs/attention` that a section names.
struct NamedMechanism {
  std::string key;   ///< where it stands: "attention", "attention.layers.first"
  std::string name;  ///< "quest", "lab/quest", or a `PythonName`
};

/// What a section names: first the mechanism of all other layers, then those of `layers`. Parts of
/// the section that are not sound are left out.
std::vector<NamedMechanism> mechanisms_in(const Node& section);

/// What folders and tables call it: `as`, or the names of its mechanisms, those of `layers` sorted
/// and each once: "linear+quest+standard". One in Python is called like its class where that is
/// named, else like its file: "mine". @throws ConfigError where it has no `use`.
std::string attention_label(const Node& section);

}  // namespace attnlab
