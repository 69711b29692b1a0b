#include "framework/experiment/policy.h"

#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/config/compose.h"

namespace attnlab::sharing {
namespace {

Rule rule_of(const Node& value) {
  const std::string text = value.as_string().value_or("");
  if (text == "refuse") return Rule::refuse;
  if (text == "ask") return Rule::ask;
  if (text == "allow") return Rule::allow;
  throw ConfigError(value.place(), "expected refuse, ask or allow, found " + to_flow(value));
}

}  // namespace

Policy read_policy(const std::string& path) {
  Policy policy;
  if (path.empty() || !is_there(path)) return policy;
  const Node root = parse_yaml(read_text(path), path);
  if (!root.is_map() && !root.is_null()) {
    throw ConfigError(root.place(), "expected keys such as `unsigned: refuse`");
  }
  if (root.is_null()) return policy;
  for (const auto& [key, value] : root.entries()) {
    if (key == "unsigned") {
      policy.unsigned_bundles = rule_of(value);
    } else if (key == "first_use") {
      policy.first_use = rule_of(value);
    } else {
      throw ConfigError(value.place(),
                        "unknown key '" + key + "'" + suggestion(key, {"unsigned", "first_use"}));
    }
  }
  return policy;
}

bool permits(Rule rule, const Ask& ask, const std::string& question) {
  if (rule == Rule::ask) return ask && ask(question);
  return rule == Rule::allow;
}

}  // namespace attnlab::sharing
