#include "framework/core/sweep.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <sstream>

#include "framework/core/compose.h"
#include "framework/core/files.h"
#include "framework/core/keys.h"
#include "framework/core/sweep_grammar.h"
#include "framework/core/text.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr std::size_t kMostPoints = 10000;
constexpr std::size_t kLongestName = 120;  // folders' names end at 255 bytes

/// Values of keys at one point of the grid.
using Point = std::vector<std::pair<std::string, std::string>>;

bool is_part(const std::string& key) {
  return key == "model" || key == "attention" || key == "task" || key == "dataset";
}

/// "model" of "model" and "model.use": keys that choose a plugin, and with it which keys there are.
std::string chosen_part(const std::string& key) {
  const std::size_t dot = key.rfind(".use");
  const std::string part =
      dot != std::string::npos && dot + 4 == key.size() ? key.substr(0, dot) : key;
  return is_part(part) ? part : "";
}

std::string key_of(const std::string& word) {
  std::string key = word.substr(0, word.find('='));
  if (!key.empty() && (key.back() == '+' || key.back() == '-')) key.pop_back();
  return key;
}

/// Keys of the experiment with each plugin that the sweep chooses.
std::vector<std::string> keys_of(const std::string& file, const SweepWords& sweep,
                                 const Catalogue& catalogue) {
  std::vector<Words> choices = {{}};
  for (const std::string& word : sweep.fixed) {
    if (!chosen_part(key_of(word)).empty()) choices.front().push_back(word);
  }
  for (const SweepAxis& axis : sweep.axes) {
    for (std::size_t k = 0; k < axis.keys.size(); ++k) {
      if (chosen_part(axis.keys[k]).empty()) continue;
      for (const Words& point : axis.points) choices.push_back({axis.keys[k] + "=" + point[k]});
    }
  }
  std::vector<std::string> keys;
  for (const Words& choice : choices) {
    const Schema schema = experiment_keys(compose(file, choice).root, catalogue);
    for (const std::string& key : option_keys(schema)) {
      const bool group = find_option(schema, key)->type == OptionSpec::Type::group;
      const bool known = std::find(keys.begin(), keys.end(), key) != keys.end();
      if (!known && (!group || is_part(key))) keys.push_back(key);
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
  throw ConfigError("argument '" + source + "': a sweep does not change '" + key + "'; " + remedy);
}

/// Replaces short keys by full ones. All problems at once.
void expand_keys(SweepWords& sweep, const std::vector<std::string>& keys) {
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
      const std::string full = key.find('.') == std::string::npos ? full_key(key, keys, word) : key;
      refuse_reserved(full, word);
      word = full + word.substr(key.size());
    });
  }
  for (SweepAxis& axis : sweep.axes) {
    for (std::string& key : axis.keys) {
      attempt([&] {
        key = full_key(key, keys, axis.source);
        refuse_reserved(key, axis.source);
        if (varied.insert(key).second) return;
        throw ConfigError("argument '" + axis.source + "': '" + key + "' is varied already");
      });
    }
  }
  if (!problems.empty()) throw ConfigError(problems);
}

std::vector<Point> grid_of(const std::vector<SweepAxis>& axes) {
  std::vector<Point> grid = {{}};
  for (const SweepAxis& axis : axes) {
    if (grid.size() * axis.points.size() > kMostPoints) {
      throw ConfigError("the sweep has more than " + std::to_string(kMostPoints) +
                        " points; vary less at once");
    }
    std::vector<Point> larger;
    larger.reserve(grid.size() * axis.points.size());
    for (const Point& point : grid) {
      for (const Words& values : axis.points) {
        Point next = point;
        for (std::size_t k = 0; k < values.size(); ++k) next.emplace_back(axis.keys[k], values[k]);
        larger.push_back(std::move(next));
      }
    }
    grid = std::move(larger);
  }
  return grid;
}

/// A value as part of a folder's name: "0.0001" for 1e-4, "1+2" for [1, 2].
std::string value_word(const std::string& yaml) {
  const Node value = parse_yaml(yaml, "value");
  std::string text = value.is_scalar() ? value.text() : to_flow(value);
  if (const auto number = value.as_double()) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.6g", *number);
    text = digits;
  }
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

/// "vit,lr=0.0001,depth=2": the varied keys by their last word, in full where two share it.
class PointNames {
 public:
  PointNames(std::string base, const std::vector<SweepAxis>& axes) : base_(std::move(base)) {
    for (const SweepAxis& axis : axes) {
      for (const std::string& key : axis.keys) ++count_[last_word(key)];
    }
  }

  std::string of(const Point& point) {
    std::string name = base_, all;
    for (const auto& [key, value] : point) {
      all += key + "=" + canonical_text(parse_yaml(value, "value")) + ";";
      if (chosen_part(key) == "attention") continue;  // the table's other dimension
      const std::string word = last_word(key);
      name += "," + (count_[word] > 1 ? key : word) + "=" + value_word(value);
    }
    const auto known = points_.find(name);
    const bool clash = known != points_.end() && known->second != without_attention(point);
    if (clash || name.size() > kLongestName) {
      name = name.substr(0, kLongestName) + "~" + hex(fingerprint(all)).substr(0, 6);
    }
    points_.emplace(name, without_attention(point));
    return name;
  }

 private:
  static std::string last_word(const std::string& key) {
    const std::string part = chosen_part(key);
    return part.empty() ? key.substr(key.rfind('.') + 1) : part;
  }
  static Point without_attention(Point point) {
    std::erase_if(point, [](const auto& item) { return chosen_part(item.first) == "attention"; });
    return point;
  }

  std::string base_;
  std::map<std::string, int> count_;
  std::map<std::string, Point> points_;
};

/// The arguments of one point: choices of plugins first, since they drop options.
Words arguments_of(const SweepWords& sweep, const Point& point) {
  Words words = sweep.fixed;
  for (const auto& [key, value] : point) words.push_back(key + "=" + value);
  std::stable_partition(words.begin(), words.end(),
                        [](const std::string& word) { return !chosen_part(key_of(word)).empty(); });
  return words;
}

void set_seeds(const std::vector<std::int64_t>& seeds, Node& composed) {
  if (seeds.empty()) return;
  Node list = Node::list({"--seeds", 0, 0});
  for (const std::int64_t seed : seeds) {
    list.items().push_back(Node::scalar(std::to_string(seed), {"--seeds", 0, 0}));
  }
  composed.set("seeds", std::move(list));
}

std::vector<std::int64_t> seeds_in(const Node& composed) {
  std::vector<std::int64_t> seeds;
  if (const Node* list = composed.find("seeds")) {
    for (const Node& item : list->items()) {
      if (const auto seed = item.as_int()) seeds.push_back(*seed);
    }
  }
  return seeds.empty() ? std::vector<std::int64_t>{0} : seeds;
}

std::string label_in(const Node& composed) {
  const Node& attention = composed.at("attention");
  if (const Node* as = attention.find("as")) return as->text();
  const std::string use = attention.is_map() ? attention.at("use").text() : attention.text();
  return use.substr(use.find('/') + 1);
}

void add_once(std::vector<std::string>& list, const std::string& item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

/// Adds the cells of one point. @throws ConfigError.
void add_point(Suite& suite, const Node& composed, const std::string& name,
               const Catalogue& catalogue, Words& unfit) {
  try {
    const Experiment experiment = resolve_experiment(composed, catalogue, name);
    add_once(suite.experiments, name);
    add_once(suite.attentions, experiment.attention.label);
    for (const std::int64_t seed : experiment.seeds) {
      suite.cells.push_back(make_cell(experiment, seed, suite.folder));
    }
  } catch (const IncompatibleError& error) {
    const std::string label = label_in(composed), text = error.what();
    add_once(suite.experiments, name);
    add_once(suite.attentions, label);
    unfit.push_back(text);
    const std::string reason = text.substr(text.find("attention '"));
    const Gap gap{Absence::incompatible, reason.substr(0, reason.find('\n'))};
    for (const std::int64_t seed : seeds_in(composed)) {
      suite.absent.push_back({name, label, seed, gap, ""});
    }
  }
}

void choose_baseline(Suite& suite, const std::string& given) {
  const auto has = [&](const std::string& label) {
    return std::find(suite.attentions.begin(), suite.attentions.end(), label) !=
           suite.attentions.end();
  };
  suite.baseline = !given.empty() ? given : has("standard") ? "standard" : suite.attentions.front();
  if (has(suite.baseline)) return;
  throw ConfigError("--baseline: '" + given + "' is none of the sweep's attentions" +
                    suggestion(given, suite.attentions));
}

}  // namespace

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
  const std::string where = "argument '" + source + "': '" + word + "' ";
  if (found.size() > 1) {
    throw ConfigError(where + "may be " + join(found, " or ") + "; write one of them");
  }
  const bool dotted = word.find('.') != std::string::npos;
  throw ConfigError(where + "is no key of the experiment" +
                    suggestion(word, dotted ? keys : words) + " (attnlab config show lists all)");
}

Suite make_sweep(const SweepRequest& request, const Catalogue& catalogue, const std::string& root) {
  SweepWords sweep = parse_sweep(request.words);
  const Node file = load_file(request.file);  // what is wrong with it comes first
  expand_keys(sweep, keys_of(request.file, sweep, catalogue));
  const std::string stem = fs::path(request.file).stem().string();
  const Node* own_name = file.find("name");
  const std::string base = own_name != nullptr ? own_name->text() : stem;
  Suite suite;
  suite.name = request.name.empty() ? base + "-sweep" : request.name;
  suite.file = request.file;
  suite.folder = root + "/" + suite.name;
  PointNames names(base, sweep.axes);
  Words problems, unfit;
  for (const Point& point : grid_of(sweep.axes)) {
    try {
      Node composed = compose_file(request.file, arguments_of(sweep, point));
      const std::string name = names.of(point);
      composed.set("name", Node::scalar(name, {"sweep", 0, 0}, true));
      set_seeds(request.seeds, composed);
      const bool varied = std::any_of(point.begin(), point.end(), [](const auto& item) {
        return chosen_part(item.first) == "attention";
      });
      if (varied && composed.at("attention").is_map()) composed.find("attention")->erase("as");
      add_point(suite, composed, name, catalogue, unfit);
    } catch (const ConfigError& error) {
      std::istringstream lines(error.what());
      for (std::string line; std::getline(lines, line);) add_once(problems, line);
    }
  }
  if (problems.empty() && suite.cells.empty()) problems = unfit;
  if (!problems.empty()) throw ConfigError(problems);
  choose_baseline(suite, request.baseline);
  return suite;
}

}  // namespace attnlab
