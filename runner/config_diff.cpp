// attnlab config diff A B: what differs between two configurations, and where it came from.
#include <fmt/format.h>
#include <filesystem>
#include <iostream>
#include <map>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/json.h"
#include "framework/config/compose.h"
#include "framework/config/difference.h"
#include "framework/config/frozen.h"
#include "framework/config/origins.h"
#include "framework/experiment/compositions.h"
#include "framework/experiment/experiment.h"
#include "framework/runs/run_folder.h"
#include "runner/commands.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

/// One of the two: a resolved experiment, a composed suite or a run's frozen configuration.
struct Side {
  std::string path;
  Node tree;
  std::map<std::string, std::string> recorded;  ///< a run's origins, by key

  std::string origin(const std::string& key, const Node& value) const {
    const auto found = recorded.find(key);
    if (found != recorded.end()) return found->second;
    return value.place().file.empty() ? "" : value.place().str();
  }
};

Side run_side(const std::string& folder) {
  if (!RunFolder(folder).exists())
    throw ConfigError(folder + ": is not a run folder (no config.yaml)");
  Side side{folder, frozen_file(folder + "/config.yaml"), {}};
  if (fs::exists(folder + "/origins.txt")) {
    for (const RecordedOrigin& origin :
         read_origins(read_text(folder + "/origins.txt", kLargestRecord))) {
      side.recorded[origin.key] = origin.place;
    }
  }
  return side;
}

Side side_of(const std::string& what, const Words& overrides, const Catalogue& catalogue) {
  if (fs::is_directory(what)) {
    if (overrides.empty()) return run_side(what);
    throw ConfigError(
        fmt::format("{}: a run's configuration is frozen; it takes no {}", what, overrides[0]));
  }
  const std::string path = find_composition(what, "experiments");
  const Composition composition = compose(path, overrides);
  if (composition.root.find("experiments") != nullptr && composition.problems.empty()) {
    return {path, composition.root, {}};  // a suite
  }
  return {path, load_experiment(path, overrides, catalogue).resolved, {}};
}

void print_value(char sign, const Side& side, const std::string& key,
                 const std::optional<Node>& value) {
  std::cout << "  " << sign << " ";
  if (!value) {
    std::cout << "(not there)\n";
    return;
  }
  const std::string origin = one_line(side.origin(key, *value), kLongestMessageLine);
  std::cout << to_flow(*value) << (origin.empty() ? "" : "   # " + origin) << "\n";
}

void print_text(const Side& before, const Side& after, const std::vector<Difference>& found) {
  if (found.empty()) {
    std::cout << "no value differs\n";
    return;
  }
  std::cout << "- " << one_line(before.path, kLongestMessageLine) << "\n+ "
            << one_line(after.path, kLongestMessageLine) << "\n";
  for (const Difference& difference : found) {
    std::cout << one_line(difference.key, kLongestMessageLine) << "\n";
    print_value('-', before, difference.key, difference.before);
    print_value('+', after, difference.key, difference.after);
  }
}

nlohmann::json json_of(const Side& side, const std::string& key, const std::optional<Node>& value) {
  if (!value) return nullptr;
  return {{"value", to_flow(*value)}, {"origin", side.origin(key, *value)}};
}

void print_json(const Side& before, const Side& after, const std::vector<Difference>& found) {
  nlohmann::json out = {
      {"a", before.path}, {"b", after.path}, {"differences", nlohmann::json::array()}};
  for (const Difference& difference : found) {
    out["differences"].push_back({{"key", difference.key},
                                  {"a", json_of(before, difference.key, difference.before)},
                                  {"b", json_of(after, difference.key, difference.after)}});
  }
  std::cout << json_text(out);
}

}  // namespace

int config_diff_command(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab config diff FILE|RUN_DIR FILE|RUN_DIR [key=value ...] [--json]";
  usage.about =
      "Prints what differs between two configurations with everything filled in, and where each\n"
      "value came from. Each is an experiment's file or name, a suite's file, or a run's folder;\n"
      "key=value changes the second. Maps are compared key by key, lists as a whole.";
  usage.options.add_options()("json", "as JSON");
  usage.fewest_words = usage.most_words = 2;
  usage.takes_overrides = true;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const Catalogue catalogue = Catalogue::of_this_program();
  const Side before = side_of(arguments.words[0], {}, catalogue);
  const Side after = side_of(arguments.words[1], arguments.overrides, catalogue);
  const std::vector<Difference> found = differences(before.tree, after.tree);
  (arguments.has("json") ? print_json : print_text)(before, after, found);
  return kDone;
}

}  // namespace attnlab
