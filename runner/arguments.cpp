#include "runner/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/any.hpp>
#include <cctype>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <sstream>

#include "framework/base/error.h"
#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/runs/run_folder.h"

namespace attnlab {

namespace po = boost::program_options;

namespace {

/// What is called "" would stand in the folder above all: "" + "/" + name.
/// @throws ConfigError for an option whose path is empty.
void check_paths(const Arguments& arguments, const Usage& usage) {
  for (const auto& [name, value] : arguments.options) {
    if (name == "words") continue;
    const std::string named = usage.options.find(name, false).semantic()->name();
    const std::string kind = named.substr(0, named.find(' '));  // "DIR (=.)"
    if (kind != "DIR" && kind != "FILE" && kind != "FOLDER" && kind != "PATH") continue;
    const auto* one = boost::any_cast<std::string>(&value.value());
    const auto* some = boost::any_cast<Words>(&value.value());
    const bool empty = (one != nullptr && one->empty()) ||
                       (some != nullptr && std::count(some->begin(), some->end(), "") > 0);
    if (!empty) continue;
    throw ConfigError(fmt::format("--{0}: is empty; give --{0} {1}, or leave it out", name, kind));
  }
}

/// The n-th argument that a synopsis asks for: "DIR" of "attnlab status DIR [--json]". Arguments
/// are in capitals or words to choose from; those in brackets may be left out.
std::string argument_of(const std::string& synopsis, std::size_t n) {
  std::istringstream line(synopsis);
  int brackets = 0;
  for (std::string word; line >> word;) {
    const auto count = [&](char c) { return std::count(word.begin(), word.end(), c); };
    const bool optional = brackets > 0 || word.front() == '[';
    brackets += static_cast<int>(count('[') - count(']'));
    const bool names = std::isupper(static_cast<unsigned char>(word.front())) != 0 ||
                       word.find('|') != std::string::npos;
    if (!optional && names && n-- == 0) return word.substr(0, word.find("..."));
  }
  return "something";
}

/// Why there are too few words: one with a = counts as a change, also where a file was meant.
std::string too_few(const Arguments& arguments, const Usage& usage) {
  std::string missing = argument_of(usage.synopsis, arguments.words.size()) + " is missing";
  if (arguments.overrides.empty()) return missing;
  return fmt::format(
      "{0}: '{1}' is read as key=value, which changes a value; a file of that name is given as "
      "./{1}",
      missing, arguments.overrides.front());
}

/// A word that is a key without its value: "train.epochs", in "train.epochs 3" or "--epochs 3".
/// @throws ConfigError.
void check_words_are_no_keys(const Words& words) {
  constexpr const char* kSections[] = {"model.",   "attention.", "task.",
                                       "dataset.", "train.",     "evaluate."};
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool is_key = word.find('/') == std::string::npos && !word.ends_with(".yaml") &&
                        std::any_of(std::begin(kSections), std::end(kSections),
                                    [&](const char* section) { return word.starts_with(section); });
    std::error_code error;
    if (!is_key || std::filesystem::exists(word, error)) continue;
    throw ConfigError(fmt::format("{0}: a value is changed by key=value; write {0}={1}", word,
                                  i + 1 < words.size() ? words[i + 1] : "VALUE"));
  }
}

}  // namespace

std::string Arguments::text(const std::string& option, const std::string& otherwise) const {
  return has(option) ? options[option].as<std::string>() : otherwise;
}

Arguments parse_arguments(const Words& words, Usage& usage) {
  usage.options.add_options()("help,h", "show this help");
  if (!words.empty() && words.back() == kAskUsage) throw UsageAsked{usage};
  po::options_description all;
  all.add(usage.options);
  all.add_options()("words", po::value<Words>());
  po::positional_options_description positional;
  positional.add("words", -1);
  Arguments parsed;
  try {
    po::store(po::command_line_parser(words).options(all).positional(positional).run(),
              parsed.options);
    po::notify(parsed.options);
  } catch (const po::error& error) {
    const char* remedy =
        usage.takes_overrides && dynamic_cast<const po::unknown_option*>(&error) != nullptr
            ? "; a value of the experiment is changed by key=value, as train.epochs=3"
            : "";
    throw ConfigError(fmt::format("{}{}\nusage: {}", error.what(), remedy, usage.synopsis));
  }
  if (parsed.has("help")) {
    std::cout << "usage: " << usage.synopsis << "\n\n" << usage.about << "\n\n" << usage.options;
    parsed.help = true;
    return parsed;
  }
  check_paths(parsed, usage);
  const Words given = parsed.has("words") ? parsed.options["words"].as<Words>() : Words{};
  for (const std::string& word : given) {
    const bool changes = usage.takes_overrides && is_override(word);
    (changes ? parsed.overrides : parsed.words).push_back(word);
  }
  const bool takes_keys = usage.synopsis.find("[KEY]") != std::string::npos;
  if (usage.takes_overrides && !takes_keys) check_words_are_no_keys(parsed.words);
  if (parsed.words.size() < usage.fewest_words || parsed.words.size() > usage.most_words) {
    const bool few = parsed.words.size() < usage.fewest_words;
    throw ConfigError(fmt::format("{}\nusage: {}", few ? too_few(parsed, usage) : "too many words",
                                  usage.synopsis));
  }
  return parsed;
}

bool is_override(const std::string& word) {
  const std::size_t sign = word.find_first_of("=/");
  return sign != std::string::npos && word[sign] == '=';
}

int run_subcommand(const std::string& group, const char* help, const Words& words,
                   const Subcommands& commands) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    std::cout << help;
    return words.empty() ? kUsage : kDone;
  }
  std::vector<std::string> names;
  for (const auto& [name, command] : commands) {
    if (name == words[0]) return command(Words(words.begin() + 1, words.end()));
    names.push_back(name);
  }
  throw ConfigError(
      fmt::format("unknown command '{} {}'{}", group, words[0], suggestion(words[0], names)));
}

void add_runs_folder(Usage& usage) {
  const std::string help =
      fmt::format("folder under which runs are filed; default: {}", kRunsFolder);
  usage.options.add_options()("out", po::value<std::string>()->value_name("DIR"), help.c_str());
}

std::string runs_folder(const Arguments& arguments) { return arguments.text("out", kRunsFolder); }

Node options_from(const Words& overrides, const std::string& source) {
  Node options = Node::map(Place{source, 0, 0});
  for (const std::string& word : overrides) merge(options, parse_override(word));
  interpolate(options);
  return options;
}

}  // namespace attnlab
