#include "framework/comparison/attention_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/config/difference.h"

namespace attnlab {
namespace {

constexpr std::size_t kMostForms = 50, kMostNamed = 4;

/// Empty where the run's configuration does not say it.
Node attention_of(const RunRecord& run) {
  const Node* section = run.config.is_map() ? run.config.find("attention") : nullptr;
  return section != nullptr && section->is_map() ? *section : Node::map();
}

std::string plugin_of(const RunRecord& run) {
  const Node section = attention_of(run);
  const Node* use = section.find("use");
  return use != nullptr && use->is_scalar() ? use->text() : "";
}

/// "quest" may be "lab/quest"; another lab's is another plugin.
bool may_be_one_plugin(const std::string& a, const std::string& b) {
  const auto ends = [](const std::string& name, const std::string& plain) {
    return plain.find('/') == std::string::npos && name.ends_with("/" + plain);
  };
  return a == b || ends(a, b) || ends(b, a);
}

/// Whether the experiment's name or its suite says the value: the option is what it varies.
bool says(const RunRecord& run, const std::string& option) {
  const std::string key = "attention." + option, word = key.substr(key.rfind('.') + 1);
  return run.matched.count(key) > 0 || run.experiment.find("," + word + "=") != std::string::npos ||
         run.experiment.find("," + key + "=") != std::string::npos;
}

/// In what two experiments' attentions of one label differ.
std::vector<Difference> differences_between(const RunRecord& a, const RunRecord& b) {
  std::vector<Difference> out = differences(attention_of(a), attention_of(b));
  std::erase_if(out, [&](const Difference& one) {
    if (one.key == "use") return may_be_one_plugin(plugin_of(a), plugin_of(b));
    return one.key == "as" || says(a, one.key) || says(b, one.key);
  });
  return out;
}

std::string value_text(const std::optional<Node>& value) {
  return value ? to_flow(*value) : "absent";
}

}  // namespace

std::vector<AttentionForm> attention_forms(const std::vector<RunRecord>& runs,
                                           const std::string& label) {
  std::vector<AttentionForm> out;
  std::set<std::string> seen;  // within an experiment `differences_of` compares
  for (const RunRecord& run : runs) {
    if (run.attention != label || !seen.insert(run.experiment).second) continue;
    const auto same = std::find_if(out.begin(), out.end(), [&](const AttentionForm& form) {
      return differences_between(*form.run, run).empty();
    });
    if (same != out.end()) {
      same->experiments.push_back(run.experiment);
    } else if (out.size() < kMostForms) {
      out.push_back({&run, {run.experiment}});
    }
  }
  return out;
}

std::vector<ConfigDifference> label_differences(const std::vector<RunRecord>& runs,
                                                const std::vector<std::string>& labels) {
  std::vector<ConfigDifference> out;
  for (const std::string& label : labels) {
    std::map<std::string, std::vector<std::string>> experiments;  // by plugin
    std::set<std::string> seen;
    for (const RunRecord& run : runs) {
      if (run.attention != label || !seen.insert(run.experiment).second) continue;
      experiments[plugin_of(run)].push_back(run.experiment);
    }
    const auto differs = [&](const auto& one) {
      return std::any_of(experiments.begin(), experiments.end(), [&](const auto& other) {
        return !may_be_one_plugin(one.first, other.first);
      });
    };
    if (std::none_of(experiments.begin(), experiments.end(), differs)) continue;
    ConfigDifference difference{fmt::format("the label '{}'", label), "attention.use", {}};
    for (const auto& [plugin, where] : experiments) {
      difference.values.emplace_back(plugin, first_of(where));
    }
    out.push_back(std::move(difference));
  }
  return out;
}

std::vector<std::string> option_notes(const std::vector<RunRecord>& runs,
                                      const std::vector<std::string>& labels) {
  std::vector<std::string> out;
  for (const std::string& label : labels) {
    const std::vector<AttentionForm> forms = attention_forms(runs, label);
    std::vector<std::string> parts;
    for (std::size_t i = 1; i < forms.size(); ++i) {
      const RunRecord &first = *forms.front().run, &other = *forms[i].run;
      if (!may_be_one_plugin(plugin_of(first), plugin_of(other))) continue;
      for (const Difference& one : differences_between(first, other)) {
        parts.push_back(fmt::format("{} is {} in {} and {} in {}", one.key, value_text(one.before),
                                    first.experiment, value_text(one.after), other.experiment));
      }
    }
    if (parts.empty()) continue;
    const std::size_t more = parts.size() - std::min(parts.size(), kMostNamed);
    parts.resize(parts.size() - more);
    out.push_back(fmt::format(
        "the label '{}' has other options in other experiments, and counts as one attention in "
        "ranks and summaries (attention.as gives them different labels): {}{}",
        label, join(parts, "; "), more > 0 ? fmt::format("; and {} more", more) : ""));
  }
  return out;
}

}  // namespace attnlab
