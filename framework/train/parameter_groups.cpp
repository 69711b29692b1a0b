#include "framework/train/parameter_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "framework/base/text.h"

namespace attnlab {
namespace {

using Parameters = std::vector<OptimizedParameter>;
using Words = std::vector<std::string>;

constexpr std::size_t kMostListed = 12;
constexpr const char* kAll = "all";

bool matches_any(const std::string& name, const Words& patterns) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches_pattern(name, pattern); });
}

/// What a pattern may have meant: a name, all below the same start of a name, or the first words.
std::string near_names(const std::string& pattern, const Parameters& parameters) {
  Words candidates, starts;
  for (const OptimizedParameter& one : parameters) {
    candidates.push_back(one.name);
    for (std::size_t dot = one.name.find('.'); dot != std::string::npos;
         dot = one.name.find('.', dot + 1)) {
      candidates.push_back(one.name.substr(0, dot + 1) + "*");
    }
    const std::size_t dot = one.name.find('.');
    const std::string start = dot == std::string::npos ? one.name : one.name.substr(0, dot) + ".*";
    if (std::find(starts.begin(), starts.end(), start) == starts.end()) starts.push_back(start);
  }
  const std::string near = nearest(pattern, candidates);
  if (!near.empty()) return fmt::format("; did you mean '{}'?", near);
  const bool more = starts.size() > kMostListed;
  starts.resize(std::min(starts.size(), kMostListed));
  return fmt::format("; there is {}{}", join(starts, ", "), more ? ", ..." : "");
}

void take(OptimizedParameter& parameter, const ParameterGroupOptions& group,
          const std::string& decay) {
  parameter.lr_scale = group.lr_scale;
  if (group.weight_decay >= 0) parameter.weight_decay = group.weight_decay;
  parameter.first_epoch = group.epochs.at(0);
  parameter.end_epoch = group.epochs.at(1);
  if ((group.decay.empty() ? decay : group.decay) == kAll) parameter.decays = true;
}

void assign(Parameters& parameters, const OptimizerOptions& options, Words& problems) {
  std::set<const OptimizedParameter*> taken;
  for (const auto& [name, group] : options.groups) {
    const std::string key = fmt::format("train.optimizer.groups.{}.match: ", name);
    const std::size_t before = problems.size(), taken_before = taken.size();
    for (const std::string& pattern : group.match) {
      const auto fits = [&pattern = pattern](const OptimizedParameter& one) {
        return matches_pattern(one.name, pattern);
      };
      if (std::any_of(parameters.begin(), parameters.end(), fits)) continue;
      problems.push_back(fmt::format("{}'{}' is the name of no trained parameter{}", key, pattern,
                                     near_names(pattern, parameters)));
    }
    for (OptimizedParameter& one : parameters) {
      if (matches_any(one.name, group.match) && taken.insert(&one).second) {
        take(one, group, options.decay);
      }
    }
    if (taken.size() == taken_before && problems.size() == before) {
      problems.push_back(key + "groups before it take all that it fits; put it before them");
    }
  }
  if (options.decay != kAll) return;
  for (OptimizedParameter& one : parameters) {
    if (taken.count(&one) == 0) one.decays = true;
  }
}

void decay_layers(Parameters& parameters, double decay, Words& problems) {
  if (decay == 1) return;
  std::int64_t deepest = -1;
  for (const OptimizedParameter& one : parameters) deepest = std::max(deepest, one.depth);
  if (deepest < 0) {
    problems.emplace_back(
        "train.optimizer.layer_decay: the model does not say how deep its layers are; leave it out "
        "(1), or give layers a learning rate by train.optimizer.groups");
  }
  for (OptimizedParameter& one : parameters) {
    if (one.depth >= 0) one.lr_scale *= std::pow(decay, static_cast<double>(deepest - one.depth));
  }
}

}  // namespace

bool matches_pattern(std::string_view name, std::string_view pattern) {
  std::size_t at = 0, in = 0;                      // in the name, in the pattern
  std::size_t star = std::string::npos, from = 0;  // the last *, and where what follows it began
  while (at < name.size()) {
    if (in < pattern.size() && pattern[in] == '*') {
      star = in++;
      from = at;
    } else if (in < pattern.size() && (pattern[in] == '?' || pattern[in] == name[at])) {
      ++in;
      ++at;
    } else if (star != std::string::npos) {  // the * stands for one character more
      in = star + 1;
      at = ++from;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', in) == std::string_view::npos;
}

void apply_groups(Parameters& parameters, const OptimizerOptions& options) {
  Words problems;
  assign(parameters, options, problems);
  decay_layers(parameters, options.layer_decay, problems);
  if (!problems.empty()) throw ConfigError(problems);
}

}  // namespace attnlab
