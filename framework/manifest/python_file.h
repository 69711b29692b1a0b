// An attention, a model or a dataset in a Python file: what its text says, read without running it.
//
// Python's own parser reads it (`ast`, in python/attnlab/_plugin_file.py), in a process of its own,
// so that `list`, `validate` and `describe` need neither torch nor trust. Whoever runs it is a
// plugin of its own, plugins/python.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/config/attention_section.h"
#include "framework/manifest/discovery.h"

namespace attnlab {

struct PythonFile {
  /// Its path is a `PythonName`, absolute, of a model or a dataset with the class; its name the
  /// file's.
  Candidate candidate;
  std::string folder;  ///< of the file
  /// The file, and what it imports from its own folder, by their paths in it.
  std::vector<std::string> sources;
  std::map<std::string, std::string> versions;  ///< of Python, torch and each imported package
  std::string contents;                         ///< SHA-256 over the sources, with their paths

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

/// The library that runs Python files.
/// @throws PluginError saying what to install, where attnlab was built without it.
std::string python_library();

}  // namespace attnlab
