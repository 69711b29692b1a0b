// Python files that a resolved configuration names, kept beside it.
#pragma once

#include <string>

#include "framework/experiment/experiment.h"

namespace attnlab {

/// Keeps what parts in Python are made of in a folder, under the names that the resolved
/// configuration has for them (`PythonFile::kept_name`). @throws FileError.
void keep_python_files(const Experiment& experiment, const std::string& folder);

}  // namespace attnlab
