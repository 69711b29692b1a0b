// An attention, a model or a dataset in a Python file: what its text says, read without running it.
//
// Python's own parser reads it (`ast`, in python/attnlab/_plugin_file.py), in a process of its own,
// so that `list`, `validate` and `describe` need neither torch nor trust. Whoever runs it is a
// plugin of its own, plugins/python.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/config/node.h"
#include "framework/manifest/discovery.h"

namespace attnlab {

/// What `use:` says of a part in a Python file: of an attention, a model or a dataset.
inline constexpr const char* kPython = "python";
/// What the ids of files that compositions name begin with; no lab has that name.
inline constexpr std::string_view kPythonLab = "python/";

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
/// The file of a plugin's path (`Candidate::path`), which of one in Python may name the class.
std::string plain_file(const std::string& path);

struct PythonFile {
  /// Its path is a `PythonName`, absolute, of a model or a dataset with the class; its name the
  /// file's.
  Candidate candidate;
  std::string folder;  ///< of the file
  /// The file, and what it imports from its own folder, by their paths in it.
  std::vector<std::string> sources;
  std::map<std::string, std::string> versions;  ///< of Python, torch and each imported package
  std::string contents;                         ///< SHA-256 over the sources, with their paths
  /// What it imports from elsewhere that is not a package, each with its place: others would lack
  /// it.
  std::vector<std::string> outside;

  /// What a run's frozen configuration calls the file: a path in the run's folder, where it is
  /// kept, "python/0123456789abcdef/mine.py".
  std::string kept_name() const;
  /// 16 hexadecimal digits of contents and versions: the file's part in a run's identity.
  std::string identity() const;
};

/// Reads a file, once for each state of it and of what it imports. What is returned stays.
/// @param name  with a path from the working folder, or one that a run keeps it under
///              (`PythonFile::kept_name`) where this process has read that file before
/// @param kind  which is wanted where the file has several; else that of the class, or the first
///              that it has of attention, model, dataset
/// @throws PluginError with file, line and column, and what to do.
const PythonFile& python_file(const PythonName& name, std::optional<Kind> kind = std::nullopt);

/// The file that a run keeps under that name (`PythonFile::kept_name`); null where this process has
/// read none, or it is another one by now.
const PythonFile* kept_python_file(const PythonName& name);

/// Whether a section is of a part in Python, in either form.
bool is_python(const Node& section);
/// {use: mine.py:Mine, as: warm} as {use: python, file: mine.py, class: Mine, as: warm}; any other
/// map as it is.
Node python_section(Node section);
/// The file and class of a section that `is_python`, as written; no file where it names none.
PythonName python_name(const Node& section);

/// What the section of one part names: "quest", "lab/quest", or a `PythonName`; empty where it is
/// not sound.
std::string named_plugin(const Node& section);

/// The name of a section that `is_python`, with the whole path of its file: relative paths are from
/// the folder of the composition that names it, or the working folder where no file does. Without a
/// file where the section names none.
PythonName located_name(const Node& section);

/// What the catalogue finds a part by that a run's frozen configuration names (`mechanisms_in`,
/// `named_plugin`).
std::string name_in_run(const std::string& name, const std::string& run_folder);

/// Where the option of the class stands in its file: "mine.py:12:30"; empty for other options.
/// @param option  of the group `options` of the candidate's manifest
std::string declared_at(const PythonFile& file, const OptionSpec& option);

/// The interpreter: what ATTNLAB_PYTHON says, else that of this build, else "python3" of PATH.
std::string python_program();

/// The library that runs Python files.
/// @throws PluginError saying what to install, where attnlab was built without it.
std::string python_library();

}  // namespace attnlab
