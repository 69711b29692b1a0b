// Names that become folders or files: of experiments, attentions (`as:`), suites and evaluations.
#pragma once

#include <string>

namespace attnlab {

/// Why a name cannot be that of a folder below another one; empty where it can. Nothing that is
/// named so is written outside of `--out`.
std::string name_problem(const std::string& name);

}  // namespace attnlab
