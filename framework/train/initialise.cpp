#include "framework/train/initialise.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/experiment/compositions.h"
#include "framework/runs/missing_evaluations.h"
#include "framework/runs/source_run.h"
#include "framework/runs/stored_run.h"
#include "framework/tensor/saved_layout.h"
#include "framework/train/checkpoint.h"
#include "framework/train/parameter_groups.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
using Problems = std::vector<std::string>;

/// Which of equal parts of a tensor, by its first dimension: from 1 on.
struct Share {
  std::int64_t number = 1, of = 1;
};

/// One rule of a map.
struct Rename {
  std::regex match;
  std::optional<std::string> to;  ///< empty: what matches is left out
  Share part;
  bool transpose = false;
};

Share read_part(const Node& text) {
  const auto wrong = [&] {
    return ConfigError(text.place(), "`part` of a rule is a share such as 1/3: the first of three");
  };
  static const std::regex kShare("([0-9]{1,4})/([0-9]{1,4})");
  std::smatch numbers;
  if (!text.is_scalar() || !std::regex_match(text.text(), numbers, kShare)) throw wrong();
  const Share part{std::stoll(numbers[1]), std::stoll(numbers[2])};
  if (part.number < 1 || part.number > part.of) throw wrong();
  return part;
}

Rename read_rule(const Node& rule) {
  const Node* match = rule.find("match");
  const Node* to = rule.find("to");
  const Node* part = rule.find("part");
  const Node* transpose = rule.find("transpose");
  const std::size_t how = std::size_t(part != nullptr) + std::size_t(transpose != nullptr);
  const std::size_t keys = 1 + std::size_t(to != nullptr) + how;
  if (!rule.is_map() || rule.entries().size() != keys || match == nullptr || !match->is_scalar() ||
      (to != nullptr && !to->is_scalar()) || (how > 0 && to == nullptr) ||
      (transpose != nullptr && transpose->as_bool() != true)) {
    throw ConfigError(rule.place(),
                      "a rule of a map is {match: REGEX, to: TEXT}, with `part: 1/3` and "
                      "`transpose: true` where they are needed, or {match: REGEX} alone");
  }
  try {
    return {std::regex(match->text(), std::regex::ECMAScript),
            to == nullptr ? std::nullopt : std::optional(to->text()),
            part == nullptr ? Share{} : read_part(*part), transpose != nullptr};
  } catch (const std::regex_error& error) {
    throw ConfigError(match->place(), "not a regular expression: " + std::string(error.what()));
  }
}

std::vector<Rename> read_map(const std::string& name) {
  if (name.empty()) return {};
  const std::string path = find_composition(name, "maps");
  const Node map = parse_yaml(read_text(path), path);
  const Node* rules = map.find("rules");
  const Node* schema = map.find("schema");
  if (schema == nullptr || schema->as_int() != 1 || rules == nullptr || !rules->is_list()) {
    throw ConfigError(map.place(), "a map of names is {schema: 1, rules: [...]}");
  }
  std::vector<Rename> all;
  for (const Node& rule : rules->items()) all.push_back(read_rule(rule));
  return all;
}

/// What a tensor of a file fills.
struct Renamed {
  std::string name;
  Share part;
  bool transposed = false;
};

/// A search by std::regex takes stack for every letter.
/// @throws DataError.
void check_length(const std::string& name, const std::string& path) {
  constexpr std::size_t kLongest = 1000;
  if (name.size() <= kLongest) return;
  throw DataError(fmt::format(
      "{}: the name of a tensor, or what init.map makes of it, has {} letters, more than "
      "{}: {}...; save it under a shorter one",
      path, name.size(), kLongest, name.substr(0, 40)));
}

/// @param path  of the file, for messages
/// @returns nothing where the rules leave the name out.
std::optional<Renamed> renamed(std::string name, const std::vector<Rename>& rules,
                               const std::string& path) {
  Renamed to;
  for (const Rename& rule : rules) {
    check_length(name, path);
    if (!std::regex_search(name, rule.match)) continue;
    if (!rule.to) return std::nullopt;
    name = std::regex_replace(name, rule.match, *rule.to);
    if (rule.part.of > 1) to.part = rule.part;
    to.transposed |= rule.transpose;
  }
  to.name = std::move(name);
  return to;
}

/// @throws DataMissingError.
RunFolder found_source(const BuiltRun& run, const RunFolder& folder, const Catalogue& catalogue) {
  const Experiment& experiment = run.experiment;
  if (const auto source = source_run(experiment, run.seed, folder, catalogue)) return *source;
  throw DataMissingError(fmt::format(
      "init.experiment: there is no finished run of '{0}' (configuration {1}) with attention '{2}' "
      "and seed {3} in {4}; attnlab run {0} attention={2} seeds=[{3}] --out {4} makes one",
      experiment.init->experiment, experiment.init->configuration, experiment.attention.label,
      run.seed, fs::path(folder.path()).parent_path().parent_path().parent_path().string()));
}

/// A run's own tensors, by the names of its model and "task.NAME" of its task.
NamedTensors tensors_of_run(const TensorFile& file, bool average) {
  const std::string before = average ? "average." : "";
  NamedTensors own;
  for (const auto& [name, tensor] : file.tensors) {
    if (name.starts_with(before + "model.")) own.set(name.substr(before.size() + 6), tensor);
    if (name.starts_with(before + "task.")) own.set(name.substr(before.size()), tensor);
  }
  return own;
}

/// What is to be filled, by the names that a file has for it.
class Targets {
 public:
  explicit Targets(const BuiltRun& run) {
    add(*run.model, "");
    add(*run.task, "task.");
  }

  bool has(const std::string& name) const { return items_.count(name) > 0; }
  bool filled() const { return !filled_.empty(); }

  /// @throws ConfigError where no name begins so.
  void check_part(const std::string& into) const {
    std::set<std::string> parts;
    for (const auto& [name, item] : items_) {
      if (item.of_task) continue;
      if (name.starts_with(into + ".")) return;
      for (std::size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1)) {
        parts.insert(name.substr(0, dot));
      }
    }
    throw ConfigError(fmt::format("init.into: the model has no part '{}'{}", into,
                                  suggestion(into, Problems(parts.begin(), parts.end()))));
  }

  /// @param name    what is filled
  /// @param source  the tensor's name in the file
  /// @returns what is wrong; nothing is changed then.
  std::string fill(const Renamed& to, const std::string& name, const std::string& source,
                   Tensor saved) {
    const Item& item = items_.at(name);
    const Share& part = to.part;
    if (to.transposed && saved.dim() != 2) {
      return fmt::format("{} of the file is {}, no matrix; correct `transpose` in init.map", source,
                         describe(saved));
    }
    if (to.transposed) saved = saved.t();
    for (const Filled& other : filled_[name]) {
      if (!overlap(part, other.part)) continue;
      return fmt::format("both {} and {} of the file would fill {}", other.source, source, name);
    }
    filled_[name].push_back({source, part});
    if (part.of > 1) return fill_part(name, part, saved);
    const Tensor fitting =
        saved.sizes() == item.tensor.sizes() ? saved : item.module->adapt(item.name, saved);
    if (fitting.sizes() != item.tensor.sizes()) {
      return fmt::format("{0} is {1}, expected {2}; init.fresh: [{0}] keeps its random numbers",
                         name, describe(saved), describe(item.tensor));
    }
    pending_.emplace_back(item.tensor, fitting);
    return "";
  }

  /// Names that begin so and were not filled.
  Problems left(const std::string& start, bool with_task) const {
    Problems names;
    for (const auto& [name, item] : items_) {
      const bool wanted = item.of_task ? with_task : name.starts_with(start);
      if (wanted && filled_.count(name) == 0) names.push_back(name);
    }
    return names;
  }

  void copy() const {
    const c10::NoGradGuard no_gradients;
    for (const auto& [tensor, saved] : pending_) tensor.copy_(saved);
  }

 private:
  std::string fill_part(const std::string& name, const Share& part, const Tensor& saved) {
    const Tensor& whole = items_.at(name).tensor;
    if (whole.dim() == 0 || whole.size(0) % part.of != 0) {
      return fmt::format("{} is {}, which has no {} equal parts; correct `part` in init.map", name,
                         describe(whole), part.of);
    }
    const std::int64_t rows = whole.size(0) / part.of;
    const Tensor target = whole.detach().narrow(0, (part.number - 1) * rows, rows);
    if (saved.sizes() != target.sizes()) {
      return fmt::format("{} is {} in part {} of {}, expected {}", name, describe(saved),
                         part.number, part.of, describe(target));
    }
    pending_.emplace_back(target, saved);
    return "";
  }

  struct Item {
    const Trainable* module;
    std::string name;  ///< the module's own
    Tensor tensor;
    bool of_task;
  };

  void add(const Trainable& module, const std::string& prefix) {
    const bool of_task = !prefix.empty();
    for (const auto& item : module.named_parameters()) {
      items_.emplace(prefix + item.key(), Item{&module, item.key(), item.value(), of_task});
    }
    for (const auto& item : module.named_buffers()) {
      items_.emplace(prefix + item.key(), Item{&module, item.key(), item.value(), of_task});
    }
  }

  /// What fills a tensor, or a part of it.
  struct Filled {
    std::string source;
    Share part;
  };

  static bool overlap(const Share& a, const Share& b) {
    return (a.number - 1) * b.of < b.number * a.of && (b.number - 1) * a.of < a.number * b.of;
  }

  std::map<std::string, Item> items_;
  std::map<std::string, std::vector<Filled>> filled_;
  std::vector<std::pair<Tensor, Tensor>> pending_;
};

bool is_fresh(const std::string& name, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches_pattern(name, pattern); });
}

void fill(BuiltRun& run, const NamedTensors& tensors, const std::string& path) {
  const InitOptions& options = *run.experiment.init;
  const std::vector<Rename> rules = read_map(options.map);
  const std::string start = options.into.empty() ? "" : options.into + ".";
  Targets targets(run);
  if (!options.into.empty()) targets.check_part(options.into);
  Problems unfit, problems;
  bool with_task = false;
  for (const auto& [name, tensor] : tensors) {
    const auto mapped = renamed(name, rules, path);
    const bool of_task = mapped && mapped->name.starts_with("task.");
    const std::string target = !mapped ? "" : (of_task ? "" : start) + mapped->name;
    with_task = with_task || of_task;
    if (!mapped || is_fresh(target, options.fresh)) {
      run.initial_unused.push_back(name);
    } else if (!targets.has(target)) {
      unfit.push_back(name + (target == name ? "" : fmt::format(" (as {})", target)));
    } else if (const std::string problem = targets.fill(*mapped, target, name, tensor);
               !problem.empty()) {
      problems.push_back(problem);
    }
  }
  run.initial_random = targets.left(start, with_task);
  if (!options.partial) {
    for (const std::string& name : unfit) problems.push_back(name + " of the file fits nowhere");
    for (const std::string& name : run.initial_random) {
      if (!is_fresh(name, options.fresh)) problems.push_back(name + " gets nothing");
    }
  }
  if (!problems.empty()) {
    // `partial` is about names; it never lets another shape pass.
    throw DataError(fmt::format(
        "init: {} does not fit:\n  {}\nrename or leave out by init.map, or name what is "
        "to stay random in init.fresh{}",
        path, join(problems, "\n  "),
        options.partial ? "" : "; init.partial leaves out names that fit nowhere"));
  }
  if (!targets.filled()) {
    throw DataError(fmt::format(
        "init: {} fills nothing: {}; rename them by init.map, or correct init.into", path,
        unfit.empty()
            ? "init.map and init.fresh leave out all its tensors"
            : "none of its tensors has the name of a parameter, " + unfit.front() + " for one"));
  }
  run.initial_unused.insert(run.initial_unused.end(), unfit.begin(), unfit.end());
  targets.copy();
}

}  // namespace

void initialise(BuiltRun& run, const RunFolder& folder, const Catalogue& catalogue) {
  const std::optional<InitOptions>& options = run.experiment.init;
  if (!options || fs::exists(folder.file("checkpoint.safetensors"))) return;
  const bool of_run = !options->experiment.empty();
  run.initial_file = options->from;
  if (of_run) {
    const RunFolder source = found_source(run, folder, catalogue);
    run.initial_file = weights_file(source.experiment(catalogue), source);
  }
  std::error_code unknown;
  if (const std::string folder = fs::path(run.initial_file).parent_path().string();
      !fs::exists(run.initial_file, unknown) && is_restored(folder)) {
    throw DataError(
        fmt::format("{}: is not there: {} is a stored result, which has no weights to "
                    "begin with; remove that folder to have it run here",
                    run.initial_file, folder));
  }
  const TensorFile file = read_sealed(run.initial_file);
  NamedTensors tensors =
      of_run ? tensors_of_run(file, options->weights == "average") : file.tensors;
  if (!of_run) {  // runs save as their layers are
    for (const auto& [entry, layout] : saved_layouts(*run.model)) {
      tensors = layout->in_layout(tensors, file.metadata, run.initial_file);
    }
  }
  fill(run, tensors, run.initial_file);
}

}  // namespace attnlab
