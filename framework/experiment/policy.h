// What a user lets in: ~/.config/attnlab/policy.yaml.
//
//   unsigned: ask       # refuse | ask | allow   bundles that nobody signed
//   first_use: ask      # refuse | ask | allow   a lab whose key is not known yet
//
// Read when something is installed, and again when it is used.
#pragma once

#include <functional>
#include <string>

namespace attnlab::sharing {

enum class Rule { refuse, ask, allow };

struct Policy {
  Rule unsigned_bundles = Rule::ask;
  Rule first_use = Rule::ask;
};

/// Defaults where there is no file, or no path. @throws ConfigError with file and line for a wrong
/// one.
Policy read_policy(const std::string& path);

/// Asks a person a question that yes or no answers. @returns whether the answer was yes.
using Ask = std::function<bool(const std::string& question)>;

/// Whether a rule lets something be. @param question  for `ask`
bool permits(Rule rule, const Ask& ask, const std::string& question);

}  // namespace attnlab::sharing
