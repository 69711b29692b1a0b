#include "framework/experiment/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "framework/base/add_once.h"
#include "framework/base/foreign_text.h"
#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/manifest/option_lookup.h"

namespace attnlab {
namespace {

using nlohmann::json;

constexpr int kDeepestReference = 8;  ///< references of references that are followed

bool refers(const std::string& text) { return text.find("${") != std::string::npos; }

/// What is left of `key` below `prefix`; none when it does not lie there.
std::optional<std::string> rest_below(const std::string& key, const std::string& prefix) {
  if (prefix.empty()) return key;
  if (key == prefix) return "";
  if (key.size() > prefix.size() && key[prefix.size()] == '.' && key.rfind(prefix, 0) == 0) {
    return key.substr(prefix.size() + 1);
  }
  return std::nullopt;
}

class Explainer {
 public:
  Explainer(const Composition& composition, const Schema& keys)
      : composition_(composition), keys_(keys) {}

  Explanation of(const std::string& key) {
    told_ = {key};
    return below(key, 0);
  }

 private:
  Explanation below(const std::string& key, int depth) {
    Explanation out;
    out.key = key;
    add_former_lives(key, out);
    const Node* node = find_key(composition_.root, key);
    const OptionSpec* option = find_option(keys_, key);
    if (option != nullptr) out.option = *option;
    if (node != nullptr) {
      out.value = *node;
      add_inherited(key, out);
      add_life(key, *node, out);
      if (depth < kDeepestReference) add_references(key, depth, out);
    }
    const bool group = option != nullptr && option->holds_options();
    const bool has_default = option != nullptr && !group && !option->default_value.is_null();
    if (node != nullptr && node->is_null() && complained_about(node->place())) {
      out.value.reset();  // a reference to nothing
    } else if ((node == nullptr || node->is_null()) && has_default) {
      Step step;
      step.kind = Step::Kind::fill_in;
      step.value = to_flow(option->default_value);
      out.steps.push_back(std::move(step));
      out.value = option->default_value;
    }
    return out;
  }

  /// Lives that ended when the key, or a map that held it, was removed.
  void add_former_lives(const std::string& key, Explanation& out) const {
    for (const Edit& edit : composition_.edits) {
      if (edit.kind != Edit::Kind::remove && edit.kind != Edit::Kind::drop) continue;
      const auto rest = rest_below(key, edit.key);
      const Node* lost = rest ? find_key(edit.before, *rest) : nullptr;
      if (lost == nullptr) continue;
      // A map that was replaced by a value shows in the value's own history.
      if (rest->empty() && edit.kind == Edit::Kind::drop && stays(key, edit.place)) continue;
      add_life(key, *lost, out);
      const auto kind = edit.kind == Edit::Kind::drop ? Step::Kind::drop : Step::Kind::remove;
      out.steps.push_back({kind, edit.place, ""});
    }
  }

  bool complained_about(const Place& place) const {
    const auto& problems = composition_.problems;
    return std::any_of(problems.begin(), problems.end(), [&](const std::string& problem) {
      return problem.rfind(place.str() + ": ", 0) == 0;
    });
  }

  /// The key has a value that was set at this place, or that was set later in the same life.
  bool stays(const std::string& key, const Place& place) const {
    const Node* node = find_key(composition_.root, key);
    if (node == nullptr) return false;
    const auto there = [&](const Place& other) { return other.str() == place.str(); };
    return there(node->place()) ||
           std::any_of(node->history().begin(), node->history().end(),
                       [&](const Origin& origin) { return there(origin.place); });
  }

  /// A reference that stands for a map or list which holds the key.
  void add_inherited(const std::string& key, Explanation& out) const {
    for (std::size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', dot + 1)) {
      const Node* holder = find_key(composition_.root, key.substr(0, dot));
      if (holder == nullptr || holder->history().empty()) continue;
      const Origin& last = holder->history().back();
      if (!refers(last.value)) continue;
      out.steps.push_back(
          {Step::Kind::refer, last.place, fmt::format("{} = {}", key.substr(0, dot), last.value)});
    }
  }

  void add_life(const std::string& key, const Node& node, Explanation& out) const {
    for (const Origin& origin : node.history()) add_step(key, origin.place, origin.value, out);
    const bool referred = !node.history().empty() && refers(node.history().back().value) &&
                          node.history().back().place.str() == node.place().str();
    if (!referred) add_step(key, node.place(), to_flow(node), out);
  }

  void add_step(const std::string& key, const Place& place, const std::string& value,
                Explanation& out) const {
    Step step{refers(value) ? Step::Kind::refer : Step::Kind::set, place, value};
    for (const Edit& edit : composition_.edits) {
      if (edit.key != key || edit.place.str() != place.str()) continue;
      if (edit.kind == Edit::Kind::append) step.kind = Step::Kind::append;
      if (edit.kind == Edit::Kind::remove_items) step.kind = Step::Kind::remove_items;
    }
    out.steps.push_back(std::move(step));
  }

  /// What the last step refers to, explained in turn; what was explained is not repeated.
  void add_references(const std::string& key, int depth, Explanation& out) {
    if (out.steps.empty() || out.steps.back().kind != Step::Kind::refer) return;
    const std::string& text = out.steps.back().value;
    for (std::size_t at = text.find("${"); at != std::string::npos; at = text.find("${", at + 2)) {
      const std::size_t end = text.find('}', at);
      if ((at > 0 && text[at - 1] == '$') || end == std::string::npos) continue;
      const std::string reference = text.substr(at + 2, end - at - 2);
      if (reference.rfind("env:", 0) == 0) continue;
      const std::string target = referred_key(reference, key);
      if (target.empty() || target == key || !told_.insert(target).second) continue;
      out.references.push_back(below(target, depth + 1));
    }
  }

  const Composition& composition_;
  const Schema& keys_;
  std::set<std::string> told_;  ///< keys that the explanation tells of
};

bool is_group(const Composition& composition, const Schema& keys, const std::string& key) {
  const Node* node = find_key(composition.root, key);
  if (node != nullptr && !node->is_null()) return node->is_map();
  const OptionSpec* option = find_option(keys, key);
  return option != nullptr && option->holds_options();
}

void add_leaves(const Node& node, const std::string& key, std::vector<std::string>& leaves) {
  if (!node.is_map()) return add_once(leaves, key);
  for (const auto& [name, value] : node.entries()) {
    add_leaves(value, key.empty() ? name : fmt::format("{}.{}", key, name), leaves);
  }
}

/// Everything that stands below a key, stood there, or has a default.
std::vector<std::string> leaves_below(const Composition& composition, const Schema& keys,
                                      const std::string& key) {
  std::vector<std::string> all;
  add_leaves(composition.root, "", all);
  for (const Edit& edit : composition.edits) {
    const bool gone = edit.kind == Edit::Kind::remove || edit.kind == Edit::Kind::drop;
    if (gone && !is_group(composition, keys, edit.key)) add_leaves(edit.before, edit.key, all);
  }
  for (const std::string& name : option_keys(keys)) {
    if (!is_group(composition, keys, name)) add_once(all, name);
  }
  std::erase_if(all, [&](const std::string& leaf) { return !rest_below(leaf, key); });
  return all;
}

std::string place_text(const Step& step, const Explanation& explanation) {
  if (step.kind != Step::Kind::fill_in) return step.place.str();
  return explanation.key.find('.') == std::string::npos
             ? "default"
             : "default of " + explanation.key.substr(0, explanation.key.rfind('.'));
}

std::string step_text(const Step& step) {
  switch (step.kind) {
    case Step::Kind::append:
      return step.value + "  (appended)";
    case Step::Kind::remove_items:
      return step.value + "  (items removed)";
    case Step::Kind::remove:
      return "(removed)";
    case Step::Kind::drop:
      return "(dropped: what it belonged to was replaced)";
    default:
      return step.value;
  }
}

/// What stands behind a line end would pass for a line of this program.
std::string unbroken(const std::string& text) {
  return text.find('\n') == std::string::npos ? text : one_line(text, kLongestMessageLine);
}

void write_text(const Explanation& explanation, const std::string& indent, std::string& out) {
  out += fmt::format("{}{}{}\n", indent, unbroken(explanation.key),
                     explanation.value ? " = " + to_flow(*explanation.value) : " is not there");
  if (explanation.option && indent.empty() && !explanation.option->holds_options()) {
    const OptionSpec& option = *explanation.option;
    out += fmt::format("  # {}{}\n", option.type_text(),
                       option.help.empty() ? "" : ": " + option.help);
  }
  std::size_t width = 0;
  for (const Step& step : explanation.steps) {
    width = std::max(width, unbroken(place_text(step, explanation)).size());
  }
  for (const Step& step : explanation.steps) {
    const std::string place = unbroken(place_text(step, explanation));
    out += fmt::format("{}  {}{}{}\n", indent, place, std::string(width - place.size() + 2, ' '),
                       unbroken(step_text(step)));
  }
  for (const Explanation& reference : explanation.references) {
    write_text(reference, indent + "    ", out);
  }
}

json json_of(const Explanation& explanation) {
  json out = {{"key", explanation.key}, {"steps", json::array()}};
  out["value"] = explanation.value ? json(to_flow(*explanation.value)) : json(nullptr);
  for (const Step& step : explanation.steps) {
    json entry = {{"step", name_of(step.kind)}, {"place", place_text(step, explanation)}};
    if (!step.value.empty()) entry["value"] = step.value;
    if (step.place.line > 0) {
      entry["file"] = step.place.file.text();
      entry["line"] = step.place.line;
      entry["column"] = step.place.column;
    }
    out["steps"].push_back(std::move(entry));
  }
  if (explanation.option) {
    out["type"] = explanation.option->type_text();
    out["help"] = explanation.option->help;
  }
  for (const Explanation& reference : explanation.references) {
    out["references"].push_back(json_of(reference));
  }
  return out;
}

}  // namespace

std::string_view name_of(Step::Kind kind) {
  static constexpr std::string_view kNames[] = {"set",    "refer", "append", "remove_items",
                                                "remove", "drop",  "default"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::vector<Explanation> explain(const Composition& composition, const Schema& keys,
                                 const std::string& key) {
  Explainer explainer(composition, keys);
  std::vector<Explanation> out;
  if (!is_group(composition, keys, key)) {
    Explanation one = explainer.of(key);
    if (one.steps.empty() && !one.value && !one.option) {
      std::vector<std::string> names = option_keys(keys);
      add_leaves(composition.root, "", names);
      std::string near = nearest(key, names);
      near = near.empty() ? suggest_key(key.substr(key.rfind('.') + 1), keys)
                          : fmt::format("; did you mean '{}'?", near);
      throw ConfigError(fmt::format("there is no key '{}'{}", key, near));
    }
    out.push_back(std::move(one));
    return out;
  }
  for (const std::string& leaf : leaves_below(composition, keys, key)) {
    out.push_back(explainer.of(leaf));
  }
  return out;
}

std::string explanation_text(const std::vector<Explanation>& explanations) {
  std::string out;
  for (const Explanation& explanation : explanations) write_text(explanation, "", out);
  return out;
}

std::string explanation_json(const std::vector<Explanation>& explanations) {
  json out = json::array();
  for (const Explanation& explanation : explanations) out.push_back(json_of(explanation));
  return json_text(out);
}

}  // namespace attnlab
