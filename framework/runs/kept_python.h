// Python files that a resolved configuration names, kept beside it.
#pragma once

#include <string>
#include <vector>

#include "framework/experiment/experiment.h"
#include "framework/manifest/python_file.h"

namespace attnlab {

/// A class that a configuration names.
struct NamedClass {
  Kind kind = Kind::attention;
  PythonName name;  ///< as it is written
  Node options;     ///< what is given to it; null: nothing
};

/// The classes in Python files that a configuration names, those of its evaluations, too.
std::vector<NamedClass> classes_in(const Node& config);

/// Keeps what parts in Python are made of in a folder, under the names that the resolved
/// configuration has for them (`PythonFile::kept_name`). @throws FileError.
void keep_python_files(const Experiment& experiment, const std::string& folder);

}  // namespace attnlab
