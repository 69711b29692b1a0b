#include "framework/experiment/fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/config/problems.h"
#include "framework/experiment/identity.h"
#include "framework/manifest/option_lookup.h"

namespace attnlab {
namespace {

constexpr std::string_view kIf = " if ";

bool holds(const FieldRule& rule, const Part& part) {
  if (rule.option.empty()) return true;
  const Node* value = find_key(part.options, rule.option);
  if (value == nullptr) return false;  // the value is wrong, which is said elsewhere
  const auto is = [&](const Node& one) {
    return one.text() == rule.value ||
           canonical_text(one) == canonical_text(Node::scalar(rule.value));
  };
  if (value->is_list()) return std::any_of(value->items().begin(), value->items().end(), is);
  return is(*value);
}

/// "; models that give it: resnet, vit"; "" where none does.
std::string models_with(const std::string& field, const Catalogue& catalogue) {
  std::vector<std::string> names;
  for (const Candidate* model : catalogue.usable(Kind::model)) {
    const auto gives = [&](const std::string& text) {
      return text == field || text.starts_with(field + "?") || text.starts_with(field + " if ");
    };
    const auto& all = model->manifest->gives;
    if (std::any_of(all.begin(), all.end(), gives)) names.push_back(model->manifest->name);
  }
  return names.empty() ? "" : "; models that give it: " + join(names, ", ");
}

}  // namespace

FieldRule parse_field_rule(const std::string& text) {
  FieldRule rule;
  const std::size_t at = text.find(kIf);
  rule.field = text.substr(0, at);
  if (at != std::string::npos) {
    const std::string condition = text.substr(at + kIf.size());
    const std::size_t equals = condition.find('=');
    rule.option = condition.substr(0, equals);
    if (equals != std::string::npos) rule.value = condition.substr(equals + 1);
    if (rule.option.empty() || rule.value.empty()) {
      throw PluginError(fmt::format("'{}': expected a condition like 'if head=node'", text));
    }
  }
  rule.optional = !rule.field.empty() && rule.field.back() == '?';
  if (rule.optional) rule.field.pop_back();
  if (rule.field.empty() || rule.field.find_first_of(" ?") != std::string::npos) {
    throw PluginError(fmt::format(
        "'{}': expected a field like 'class', 'class?' or 'class if head=graph'", text));
  }
  return rule;
}

std::vector<FieldRule> rules_under(const std::vector<std::string>& texts, const Part& part) {
  std::vector<FieldRule> rules;
  for (const std::string& text : texts) {
    FieldRule rule = parse_field_rule(text);
    if (holds(rule, part)) rules.push_back(std::move(rule));
  }
  return rules;
}

const FieldRule* rule_of(const std::vector<FieldRule>& rules, std::string_view field) {
  const auto found = std::find_if(rules.begin(), rules.end(),
                                  [&](const FieldRule& rule) { return rule.field == field; });
  return found == rules.end() ? nullptr : &*found;
}

std::string text_of(const std::vector<FieldRule>& rules) {
  std::vector<std::string> words;
  words.reserve(rules.size());
  for (const FieldRule& rule : rules) words.push_back(rule.field + (rule.optional ? "?" : ""));
  return words.empty() ? "nothing" : join(words, ", ");
}

void check_declared_fields(const DeclaredPart& declared) {
  const Manifest& manifest = declared.manifest;
  for (const auto* texts : {&manifest.takes, &manifest.gives, &manifest.needs, &manifest.stacks}) {
    for (const std::string& text : *texts) {
      const std::string option = parse_field_rule(text).option;
      if (option.empty() || find_option(manifest.options, option) != nullptr) continue;
      throw PluginError(fmt::format("'{}': there is no option '{}'", text, option));
    }
  }
  for (const std::string& text : manifest.needs) {
    if (manifest.kind != Kind::attention || parse_field_rule(text).field == kConsecutive) continue;
    throw PluginError(fmt::format("'{}': an attention needs '{}' or nothing", text, kConsecutive));
  }
  for (const std::string& text : manifest.stacks) {
    const OptionSpec* const depth = find_option(manifest.options, parse_field_rule(text).field);
    if (depth != nullptr && depth->type == OptionSpec::Type::integer && !depth->list) continue;
    throw PluginError(fmt::format("'{}': it has no such option that is a whole number", text));
  }
}

void check_fields(const DeclaredPart& taker, const std::vector<DeclaredPart>& givers,
                  const Catalogue& catalogue, std::vector<std::string>& problems) {
  const Part& part = taker.part;
  const std::string who = fmt::format("{} '{}'", name_of(part.kind), part.name);
  for (const FieldRule& taken : rules_under(taker.manifest.takes, part)) {
    std::string seen;
    bool given = taken.optional;
    for (const auto& [giver, manifest] : givers) {
      const std::vector<FieldRule> rules = rules_under(manifest.gives, giver);
      given |= rule_of(rules, taken.field) != nullptr;
      seen += fmt::format("{}{} '{}' gives {}", seen.empty() ? "" : "; ", name_of(giver.kind),
                          giver.name, text_of(rules));
    }
    if (given) continue;
    add_problem(problems, part.place,
                fmt::format("{} takes '{}', which nothing gives: {}{}", who, taken.field, seen,
                            part.kind == Kind::task ? models_with(taken.field, catalogue) : ""));
  }
}

}  // namespace attnlab
