// attnlab completion bash|zsh|fish: scripts that complete attnlab's command lines, and what they
// ask: `attnlab completion complete WORD...`, the last word being the one under the cursor.
//
// Commands come from the program's help, options and what stands where from each command's usage,
// plugins from their manifests, keys from the composition that the line names, evaluations from the
// run.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>
#include <sstream>

#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/experiment/compositions.h"
#include "framework/experiment/evaluations.h"
#include "framework/experiment/keys.h"
#include "framework/manifest/option_lookup.h"
#include "framework/runs/run_folder.h"
#include "framework/suites/suite_keys.h"
#include "runner/commands.h"
#include "runner/completion_scripts.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

/// What may be completed: candidates, and whether paths may stand there too.
struct Answer {
  std::string paths = "words";                                  ///< or "files", "folders"
  std::vector<std::pair<std::string, std::string>> candidates;  ///< with a few words about each

  void add(const std::string& text, const std::string& about = "") {
    const auto same = [&](const auto& candidate) { return candidate.first == text; };
    if (std::none_of(candidates.begin(), candidates.end(), same))
      candidates.emplace_back(text, about);
  }
  void add_all(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) add(text);
  }
};

// ---- commands, from the program's help

struct CommandHelp {
  Words words;  ///< "config", "show"
  std::string about;
};

bool is_name(const std::string& word) {
  return !word.empty() && word[0] != '-' &&
         word.find_first_not_of("abcdefghijklmnopqrstuvwxyz-") == std::string::npos;
}

std::vector<CommandHelp> commands() {
  std::vector<CommandHelp> all;
  std::istringstream help(program_help());
  for (std::string line; std::getline(help, line);) {
    if (!line.starts_with("  ")) continue;
    const std::size_t about = line.find("  ", 2);
    CommandHelp command;
    std::istringstream synopsis(line.substr(2, about - 2));
    for (std::string word; synopsis >> word && is_name(word);) command.words.push_back(word);
    if (about != std::string::npos) command.about = line.substr(line.find_first_not_of(' ', about));
    all.push_back(std::move(command));
  }
  return all;
}

/// How many of the words name a command: 2 for `config show`, 0 for an unknown or unfinished one.
std::size_t command_size(const Words& words) {
  std::size_t size = 0;
  for (const CommandHelp& command : commands()) {
    const std::size_t count = command.words.size();
    if (count <= size || count > words.size()) continue;
    if (std::equal(command.words.begin(), command.words.end(), words.begin())) size = count;
  }
  return size;
}

void add_commands(const Words& before, Answer& answer) {
  for (const CommandHelp& command : commands()) {
    if (command.words.size() <= before.size()) continue;
    if (!std::equal(before.begin(), before.end(), command.words.begin())) continue;
    const bool last = command.words.size() == before.size() + 1;
    answer.add(command.words[before.size()], last ? command.about : "");
  }
}

// ---- one command, from its usage

/// What may stand at each place of a command, from its synopsis: "EXPERIMENT|RUN_DIR",
/// "attention|model|task|dataset". The last may stand again where the synopsis ends with "...".
struct Places {
  std::vector<std::string> what;
  bool repeats = false;

  std::string at(std::size_t index) const {
    if (index < what.size()) return what[index];
    return repeats && !what.empty() ? what.back() : "";
  }
};

Places places_of(const std::string& synopsis, std::size_t command_words) {
  Places places;
  std::istringstream words(synopsis);
  std::string word;
  for (std::size_t i = 0; i <= command_words; ++i) words >> word;  // "attnlab config show"
  while (words >> word) {
    if (word.find("key=value") != std::string::npos) {
      words >> word;  // its "...]"
      continue;
    }
    const bool option = word.rfind("--", 0) == 0 || word.rfind("[-", 0) == 0;
    if (option) {
      if (word.back() != ']' && words >> word) continue;  // its value
      continue;
    }
    if (word.find("...") != std::string::npos) places.repeats = true;
    std::erase_if(word, [](char c) { return c == '[' || c == ']' || c == '.'; });
    if (!word.empty()) places.what.push_back(word);
  }
  return places;
}

void add_plugins(std::optional<Kind> only, bool qualified, Answer& answer) {
  const Catalogue catalogue = Catalogue::of_this_program();
  for (const Kind kind : {Kind::attention, Kind::model, Kind::task, Kind::dataset}) {
    if (only && *only != kind) continue;
    for (const Candidate* plugin : catalogue.usable(kind)) {
      const Manifest& manifest = *plugin->manifest;
      answer.add(manifest.name, manifest.summary);
      if (qualified)
        answer.add(fmt::format("{}/{}", name_of(kind), manifest.name), manifest.summary);
      if (qualified) answer.add(manifest.id, manifest.summary);
    }
  }
}

void add_names(const std::string& folder, Answer& answer) {
  for (const auto& [name, files] : compositions(folder)) answer.add(name, files.front());
}

void add_compositions(const std::string& folder, Answer& answer) {
  add_names(folder, answer);
  answer.paths = "files";
}

/// A name like MODE or DIR says what stands there; so do words, between '|'.
void add_values(const std::string& what, Answer& answer) {
  if (what.find('|') != std::string::npos) {
    std::istringstream parts(what);
    for (std::string part; std::getline(parts, part, '|');) add_values(part, answer);
  } else if (is_name(what)) {
    answer.add(what);
  } else if (what == "EXPERIMENT" || what == "FILE") {
    add_compositions("experiments", answer);
  } else if (what == "SUITE") {
    add_compositions("suites", answer);
  } else if (what == "ID" || what == "IDs") {
    add_plugins(std::nullopt, true, answer);
  } else if (what == "LABEL" || what == "ATTENTION") {
    add_plugins(Kind::attention, false, answer);
    add_names("attention", answer);
  } else if (what == "KIND") {
    answer.add_all({"attention", "model", "task", "dataset"});
  } else if (what == "FOLDER") {
    if (answer.paths != "files") answer.paths = "folders";
  } else if (what.starts_with("FILE.py")) {
    answer.paths = "files";
  } else if (what == "MODE") {
    answer.add_all({"auto", "bar", "plain", "json", "none"});
  } else if (what.find("DIR") != std::string::npos) {
    if (answer.paths != "files") answer.paths = "folders";
  } else if (what.find("PATH") != std::string::npos || what == "OUT" || what == "IN") {
    answer.paths = "files";
  }
}

std::string value_name(const boost::program_options::option_description& option) {
  const auto semantic = option.semantic();
  return semantic->max_tokens() == 0 ? "" : semantic->name();
}

const boost::program_options::option_description* option_named(const Usage& usage,
                                                               const std::string& word) {
  if (word.rfind("--", 0) != 0) return nullptr;
  for (const auto& option : usage.options.options()) {
    if (option->long_name() == word.substr(2)) return option.get();
  }
  return nullptr;
}

void add_options(const Usage& usage, Answer& answer) {
  for (const auto& option : usage.options.options()) {
    std::string about = option->description();
    std::replace(about.begin(), about.end(), '\n', ' ');
    answer.add("--" + option->long_name(), about);
  }
}

// ---- keys of a composition

/// What a command line composes: its file with the changes that stand there already.
struct Target {
  Schema keys;
  Node composed;
};

Target target_of(const std::string& file, const std::string& folder, const Words& overrides) {
  Target target;
  const Catalogue catalogue = Catalogue::of_this_program();
  try {
    target.composed = compose(find_composition(file, folder), overrides).root;
  } catch (const Error&) {
    // Completion helps with what there is: keys without the file's.
  }
  const bool suite = folder == "suites" || target.composed.find("experiments") != nullptr;
  target.keys = suite ? suite_keys(catalogue) : experiment_keys(target.composed, catalogue);
  return target;
}

constexpr const char* kOptions = "options";

/// `train.` before what it holds, so that a first look is short.
void add_keys(const Schema& keys, const std::string& current, bool with_signs, Answer& answer) {
  for (const std::string& key : option_keys(keys)) {
    if (key.rfind(current, 0) != 0) continue;
    std::size_t dot = key.find('.', current.size());
    if (dot != std::string::npos && key.compare(0, dot, current + kOptions) == 0) {
      dot = key.find('.', dot + 1);  // those of a class in a Python file
    }
    if (dot != std::string::npos) {
      answer.add(key.substr(0, dot + 1));
      continue;
    }
    const OptionSpec& option = *find_option(keys, key);
    const bool group = option.holds_options();
    if (!with_signs) {
      answer.add(key, option.help);
    } else if (!group) {
      answer.add(key + "=", option.type_text() + (option.help.empty() ? "" : ": " + option.help));
      if (option.list) answer.add(key + "+=", "append");
      if (option.list) answer.add(key + "-=", "remove items");
    } else if (find_option(option.options, "use") != nullptr) {
      answer.add(key + "=", option.help);
    }
  }
}

/// `attention=`, `attention.use=` and `attention.layers.last=`, of an experiment or in what a suite
/// changes.
bool names_attention(std::string_view key) {
  constexpr std::string_view kLayers = ".layers";
  if (key.ends_with(".use")) key.remove_suffix(4);
  const std::size_t dot = key.rfind('.');
  if (dot != std::string_view::npos && key.substr(0, dot).ends_with(kLayers)) {
    key = key.substr(0, dot - kLayers.size());
  }
  return key == "attention" || key.ends_with(".attention");
}

/// Whether a key names a model, an attention or a dataset, which may be a Python file.
bool may_name_file(const std::string& key) {
  const std::string part = key.ends_with(".use") ? key.substr(0, key.size() - 4) : key;
  return names_attention(key) || part == "model" || part == "dataset" || key.ends_with(".file");
}

/// Python files, and folders that may hold some, which begin with `typed`.
void add_python_files(const std::string& prefix, const std::string& typed, Answer& answer) {
  const std::size_t slash = typed.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : typed.substr(0, slash + 1);
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".") || name.starts_with("__")) continue;
    std::error_code unknown;
    const bool inner = entry.is_directory(unknown);
    if (inner || name.ends_with(".py")) found.push_back(folder + name + (inner ? "/" : ""));
  }
  std::sort(found.begin(), found.end());
  for (const std::string& path : found) {
    // Folders only to somebody who looks for files: names are what is asked for mostly.
    if (path.starts_with(typed) && (!typed.empty() || !path.ends_with('/'))) {
      answer.add(prefix + path);
    }
  }
}

void add_key_values(const Target& target, const std::string& current, Answer& answer) {
  const std::size_t equals = current.find('=');
  const std::string key = current.substr(0, equals);
  const std::string prefix = current.substr(0, equals + 1);
  if (!key.empty() && (key.back() == '+' || key.back() == '-')) return;
  const OptionSpec* option = find_option(target.keys, key);
  if (option == nullptr) return;
  if (const OptionSpec* use = find_option(option->options, "use")) option = use;  // `model=vit`
  std::vector<std::string> values = option->choices;
  if (names_attention(key)) {
    for (const auto& [name, files] : compositions("attention")) values.push_back(name);
  }
  if (option->type == OptionSpec::Type::boolean) values = {"true", "false"};
  const Node* present = find_key(target.composed, key);
  if (values.empty() && present != nullptr && !present->is_map()) values = {to_flow(*present)};
  if (values.empty() && !option->default_value.is_null()) values = {to_flow(option->default_value)};
  for (const std::string& value : values) answer.add(prefix + value);
  if (may_name_file(key)) add_python_files(prefix, current.substr(equals + 1), answer);
}

// ---- evaluations of a run

/// @param with  a file with other entries than the run's own; empty: none
void add_entries(const std::string& run, const std::string& with, Answer& answer) {
  try {
    const Catalogue catalogue = Catalogue::of_this_program();
    Experiment experiment = RunFolder(run).experiment(catalogue);
    if (!with.empty()) experiment = with_evaluations(experiment, with, catalogue);
    answer.add(kClean, "the run itself");
    for (const EvaluationEntry& entry : evaluations_of(experiment, catalogue)) {
      if (!entry.group.empty()) answer.add(entry.group, "all of its points");
      answer.add(entry.name, to_flow(entry.set));
    }
  } catch (const Error&) {
    // No run, or one that cannot be read: nothing is offered.
  }
}

/// The value that follows an option; empty where it is not given.
std::string value_after(const Words& words, const std::string& option) {
  const auto found = std::find(words.begin(), words.end(), option);
  return found == words.end() || found + 1 == words.end() ? "" : found[1];
}

// ---- a command line

/// The words of one command, apart.
struct CommandWords {
  Words words, overrides;
  const boost::program_options::option_description* waiting = nullptr;  ///< for its value
};

CommandWords given_before(const Words& words, const Usage& usage) {
  CommandWords given;
  for (const std::string& word : words) {
    if (given.waiting != nullptr) {
      given.waiting = nullptr;
      continue;
    }
    if (word.rfind('-', 0) == 0) {
      const auto* option = option_named(usage, word);
      if (option != nullptr && !value_name(*option).empty()) given.waiting = option;
    } else if (usage.takes_overrides && is_override(word)) {
      given.overrides.push_back(word);
    } else {
      given.words.push_back(word);
    }
  }
  return given;
}

bool names_composition(const std::string& what) {
  return what.find("EXPERIMENT") != std::string::npos || what.find("FILE") != std::string::npos ||
         what.find("SUITE") != std::string::npos;
}

void complete_arguments(const Usage& usage, std::size_t command_words, const Words& before,
                        const std::string& current, Answer& answer) {
  const CommandWords given = given_before(before, usage);
  if (given.waiting != nullptr) {
    return add_values(value_name(*given.waiting), answer);
  }
  if (current.rfind('-', 0) == 0) return add_options(usage, answer);
  const Places places = places_of(usage.synopsis, command_words);
  const std::string what = places.at(given.words.size());
  if (what == "ENTRY") {
    return add_entries(given.words.front(), value_after(before, "--with"), answer);
  }
  const bool has_target = !given.words.empty() && names_composition(places.at(0));
  if (has_target && (usage.takes_overrides || what == "KEY")) {
    const std::string file =
        what == "KEY" || places.what.size() < 2 ? given.words.front() : given.words.back();
    const bool suite = places.at(0).find("SUITE") != std::string::npos;
    const Target target = target_of(file, suite ? "suites" : "experiments", given.overrides);
    if (what == "KEY") add_keys(target.keys, current, false, answer);
    if (usage.takes_overrides && current.find('=') != std::string::npos) {
      return add_key_values(target, current, answer);
    }
    if (usage.takes_overrides && what != "KEY") add_keys(target.keys, current, true, answer);
  }
  if (what != "KEY") add_values(what, answer);
}

/// @param words  those after the program's name, the unfinished one last
Answer complete(Words words) {
  Answer answer;
  const std::string current = words.empty() ? "" : words.back();
  if (!words.empty()) words.pop_back();
  const std::size_t size = command_size(words);
  if (size == 0) {
    add_commands(words, answer);
    if (words.empty()) answer.add_all({"--help", "--version"});
  } else {
    Words question(words.begin() + 1, words.begin() + static_cast<std::ptrdiff_t>(size));
    question.push_back(kAskUsage);
    try {
      dispatch(words[0], question);
    } catch (const UsageAsked& asked) {
      const Words before(words.begin() + static_cast<std::ptrdiff_t>(size), words.end());
      complete_arguments(asked.usage, size, before, current, answer);
    } catch (const Error&) {
      // Nothing is known; nothing is offered.
    }
  }
  std::erase_if(answer.candidates,
                [&](const auto& candidate) { return candidate.first.rfind(current, 0) != 0; });
  return answer;
}

void print_answer(const Answer& answer) {
  std::cout << answer.paths << "\n";
  for (const auto& [text, about] : answer.candidates) {
    std::cout << text << (about.empty() ? "" : "\t" + about) << "\n";
  }
}

}  // namespace

int completion_command(const Words& words) {
  if (!words.empty() && words[0] == "complete") {
    print_answer(complete(Words(words.begin() + 1, words.end())));
    return kDone;
  }
  Usage usage;
  usage.synopsis = "attnlab completion bash|zsh|fish";
  usage.about =
      "Prints a script that completes attnlab's command lines in that shell: commands, options,\n"
      "plugins, experiments, suites, and keys and values of key=value. For this session:\n"
      "  bash, zsh: source <(attnlab completion bash)\n"
      "  fish:      attnlab completion fish | source";
  usage.fewest_words = usage.most_words = 1;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const std::string& shell = arguments.words[0];
  if (shell == "bash") {
    std::cout << kBashCompletion;
  } else if (shell == "zsh") {
    std::cout << kZshCompletion;
  } else if (shell == "fish") {
    std::cout << kFishCompletion;
  } else {
    throw ConfigError(
        fmt::format("no completion for '{}'{}", shell, suggestion(shell, {"bash", "zsh", "fish"})));
  }
  return kDone;
}

}  // namespace attnlab
