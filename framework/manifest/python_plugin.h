// A Python file that is a plugin by its name: NAME.py with NAME.manifest.json beside it, as
// `attnlab plugin install` puts it in. The host finds it without Python.
#pragma once

#include <string>

#include "framework/manifest/manifest.h"
#include "framework/manifest/python_file.h"

namespace attnlab {

/// The manifest of a file's class as a bundle has it, JSON. The options of the class are the
/// plugin's own: `temperature`, where a file that a composition names has `options.temperature`.
/// @throws PluginError for an option whose name a composition needs itself.
std::string packed_manifest(const PythonFile& file, const std::string& lab);

/// Where the manifest of a Python file lies: beside what a link leads to.
std::string manifest_beside(const std::string& file);

/// Whether a file in a folder of plugins is one: with a manifest, or a link, as installed ones are,
/// whatever became of what it leads to.
bool is_python_plugin(const std::string& file);

/// A Python file with its manifest; the path is of the file that a link leads to, beside which
/// stands what it imports.
/// @throws PluginError for anything but a complete manifest.
Candidate python_plugin(const std::string& file);

/// A Python file as a plugin by its name where it is one, else as a file that a composition names.
/// @throws PluginError as `python_file`, and for a wrong manifest.
Candidate candidate_of_python(const PythonName& name);

/// SHA-256 over the names and contents of all that lies in a file's folder: what it may import.
/// @throws FileError.
std::string hash_of_folder(const std::string& file);

}  // namespace attnlab
