#include "framework/suites/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <set>

#include "framework/base/add_once.h"
#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/experiment/identity.h"
#include "framework/experiment/keys.h"
#include "framework/manifest/option_lookup.h"

namespace attnlab {
namespace {

using Words = std::vector<std::string>;

constexpr std::size_t kMostPoints = 10000;
constexpr std::size_t kLongestPoint = 120;  // a suffix comes behind it
constexpr std::string_view kOfLayers = "attention.layers.";

bool is_part(const std::string& key) {
  return key == "model" || key == "attention" || key == "task" || key == "dataset";
}

std::string key_of(const std::string& word) {
  std::string key = word.substr(0, word.find('='));
  if (!key.empty() && (key.back() == '+' || key.back() == '-')) key.pop_back();
  return key;
}

/// Keys of the experiment with each plugin that the sweep chooses.
struct KnownKeys {
  Words values;
  std::set<std::string> groups;  ///< "init", "train.optimizer": named in full, or not at all
};

KnownKeys keys_of(const SweepWords& sweep, const std::function<Node(const Words&)>& with,
                  const Catalogue& catalogue) {
  std::vector<Words> choices = {{}};
  for (const std::string& word : sweep.fixed) {
    if (!chosen_part(key_of(word)).empty()) choices.front().push_back(word);
  }
  for (const SweepAxis& axis : sweep.axes) {
    for (std::size_t k = 0; k < axis.keys.size(); ++k) {
      if (chosen_part(axis.keys[k]).empty()) continue;
      for (const Words& point : axis.points) {
        choices.push_back({fmt::format("{}={}", axis.keys[k], point[k])});
      }
    }
  }
  KnownKeys keys;
  for (const Words& choice : choices) {
    const Schema schema = experiment_keys(with(choice), catalogue);
    for (const std::string& key : option_keys(schema)) {
      if (find_option(schema, key)->holds_options() && chosen_part(key).empty()) {
        keys.groups.insert(key);
      } else {
        add_once(keys.values, key);
      }
    }
  }
  return keys;
}

void refuse_reserved(const std::string& key, const std::string& source) {
  const std::string remedy = key == "seeds"          ? "give --seeds 0-4"
                             : key == "name"         ? "each point gets its own; give --name"
                             : key == "schema"       ? "it is the format's version"
                             : key == "attention.as" ? "vary `attention` itself"
                                                     : "";
  if (remedy.empty()) return;
  throw ConfigError(
      fmt::format("argument '{}': a sweep does not change '{}'; {}", source, key, remedy));
}

/// A text as part of a folder's name.
std::string name_part(const std::string& text) {
  std::string word;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' ||
                       c == '_' || c == '+';
    if (plain) word += c;
    if (c == ',') word += '+';
    if (c == '/' || c == ':') word += '-';
  }
  return word;
}

/// A value as part of a folder's name: "0.0001" for 1e-4, "1+2" for [1, 2].
std::string value_word(const std::string& yaml) {
  const Node value = parse_value(yaml, {});
  std::string text = value.is_scalar() ? value.text() : to_flow(value);
  if (const auto number = value.as_double()) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.6g", *number);
    text = digits;
  }
  return name_part(text);
}

/// The same in full, for values that `value_word` does not tell apart: "20240101" instead of
/// "2.02401e+07"; "a-b~0f3c21" for a/b.
std::string full_word(const std::string& yaml) {
  const Node value = parse_value(yaml, {});
  const std::string all = canonical_text(value);
  if (value.as_double()) return name_part(all);
  return fmt::format("{}~{}", value_word(yaml), hex(fingerprint(all)).substr(0, 6));
}

std::string last_word(const std::string& key) {
  const std::string part = chosen_part(key);
  return part.empty() ? key.substr(key.rfind('.') + 1) : part;
}

/// What an argument changes must be there: a part, then what some of its layers have, then options.
int rank_of(const std::string& word) {
  const std::string key = key_of(word);
  return chosen_part(key).empty() ? 2 : key.starts_with(kOfLayers) ? 1 : 0;
}

GridPoint without_attention(GridPoint point) {
  std::erase_if(point, [](const auto& item) { return chosen_part(item.first) == "attention"; });
  return point;
}

}  // namespace

std::string chosen_part(const std::string& key) {
  const std::size_t dot = key.rfind(".use");
  const std::string part =
      dot != std::string::npos && dot + 4 == key.size() ? key.substr(0, dot) : key;
  const bool of_layers =
      part.starts_with(kOfLayers) && part.find('.', kOfLayers.size()) == std::string::npos;
  return of_layers ? "attention" : is_part(part) ? part : "";
}

std::string full_key(const std::string& word, const std::vector<std::string>& keys,
                     const std::string& source) {
  if (std::find(keys.begin(), keys.end(), word) != keys.end()) return word;
  std::vector<std::string> found, words;
  for (const std::string& key : keys) {
    const std::string ending = "." + word;
    const bool ends = key.size() > ending.size() &&
                      key.compare(key.size() - ending.size(), ending.size(), ending) == 0;
    if (ends) found.push_back(key);
    add_once(words, key.substr(key.rfind('.') + 1));
  }
  if (found.size() == 1) return found.front();
  const std::string where = fmt::format("argument '{}': '{}' ", source, word);
  if (found.size() > 1) {
    throw ConfigError(fmt::format("{}may be {}; write one of them", where, join(found, " or ")));
  }
  const bool dotted = word.find('.') != std::string::npos;
  throw ConfigError(
      fmt::format("{}is not a key of the experiment{} (attnlab config show lists all)", where,
                  suggestion(word, dotted ? keys : words)));
}

void expand_keys(SweepWords& sweep, const std::function<Node(const Words&)>& with,
                 const Catalogue& catalogue) {
  const KnownKeys keys = keys_of(sweep, with, catalogue);
  const auto named = [&](const std::string& word, const std::string& source) {
    return keys.groups.count(word) > 0 ? word : full_key(word, keys.values, source);
  };
  Words problems;
  std::set<std::string> varied;
  const auto attempt = [&](const auto& act) {
    try {
      act();
    } catch (const ConfigError& error) {
      problems.emplace_back(error.what());
    }
  };
  for (std::string& word : sweep.fixed) {
    attempt([&] {
      const std::string key = key_of(word);
      const std::string full = key.find('.') == std::string::npos ? named(key, word) : key;
      refuse_reserved(full, word);
      word = full + word.substr(key.size());
    });
  }
  for (SweepAxis& axis : sweep.axes) {
    for (std::string& key : axis.keys) {
      attempt([&] {
        key = named(key, axis.source);
        refuse_reserved(key, axis.source);
        if (varied.insert(key).second) return;
        throw ConfigError(fmt::format("argument '{}': '{}' is varied already", axis.source, key));
      });
    }
  }
  for (const std::string& word : sweep.fixed) {
    attempt([&] {
      if (varied.count(key_of(word)) == 0) return;
      throw ConfigError(fmt::format("argument '{}': '{}' is varied already", word, key_of(word)));
    });
  }
  if (!problems.empty()) throw ConfigError(problems);
}

std::vector<GridPoint> grid_points(const std::vector<SweepAxis>& axes) {
  std::vector<GridPoint> grid = {{}};
  for (const SweepAxis& axis : axes) {
    if (grid.size() * axis.points.size() > kMostPoints) {
      throw ConfigError(
          fmt::format("the grid has more than {} points; vary less at once", kMostPoints));
    }
    std::vector<GridPoint> larger;
    larger.reserve(grid.size() * axis.points.size());
    for (const GridPoint& point : grid) {
      for (const Words& values : axis.points) {
        GridPoint next = point;
        for (std::size_t k = 0; k < values.size(); ++k) next.emplace_back(axis.keys[k], values[k]);
        larger.push_back(std::move(next));
      }
    }
    grid = std::move(larger);
  }
  return grid;
}

Words arguments_of(const Words& fixed, const GridPoint& point) {
  Words words = fixed;
  for (const auto& [key, value] : point) words.push_back(fmt::format("{}={}", key, value));
  std::stable_sort(words.begin(), words.end(), [](const std::string& a, const std::string& b) {
    return rank_of(a) < rank_of(b);
  });
  return words;
}

PointNames::PointNames(std::string base, const std::vector<SweepAxis>& axes)
    : base_(std::move(base)) {
  for (const SweepAxis& axis : axes) {
    for (const std::string& key : axis.keys) ++count_[last_word(key)];
    add_words(axis);
  }
}

void PointNames::add_words(const SweepAxis& axis) {
  for (std::size_t k = 0; k < axis.keys.size(); ++k) {
    const std::string& key = axis.keys[k];
    if (chosen_part(key) == "attention") continue;
    std::map<std::string, std::set<std::string>> values;  // by word
    for (const Words& point : axis.points) {
      values[value_word(point[k])].insert(canonical_text(parse_value(point[k], {})));
    }
    for (const Words& point : axis.points) {
      const std::string word = value_word(point[k]);
      words_[{key, point[k]}] = values.at(word).size() > 1 ? full_word(point[k]) : word;
    }
  }
}

GridPoint PointNames::words_of(const GridPoint& point) const {
  GridPoint words;
  for (const auto& [key, value] : without_attention(point)) {
    const std::string word = last_word(key);
    words.emplace_back(count_.at(word) > 1 ? key : word, words_.at({key, value}));
  }
  return words;
}

std::string PointNames::of(const GridPoint& point) {
  std::string name = base_, all;
  for (const auto& [key, value] : without_attention(point)) {
    all += fmt::format("{}={};", key, canonical_text(parse_value(value, {})));
  }
  for (const auto& [word, value] : words_of(point)) name += fmt::format(",{}={}", word, value);
  const auto known = points_.find(name);
  const bool clash = known != points_.end() && known->second != without_attention(point);
  if (clash || name.size() > kLongestPoint) {
    name = fmt::format("{}~{}", name.substr(0, kLongestPoint), hex(fingerprint(all)).substr(0, 6));
  }
  points_.emplace(name, without_attention(point));
  return name;
}

}  // namespace attnlab
