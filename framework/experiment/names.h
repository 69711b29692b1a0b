// Names that become folders or files: of experiments, attentions (`as:`), suites and evaluations.
#pragma once

#include <cstddef>
#include <string>

namespace attnlab {

/// Bytes of a name: with what stands before and behind it, a file's name may have 255.
inline constexpr std::size_t kLongestName = 200;

/// Why a name cannot be that of a folder below another one; empty where it can. Nothing that is
/// named so is written outside of `--out`.
std::string name_problem(const std::string& name);

}  // namespace attnlab
