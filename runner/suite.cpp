// attnlab suite: every cell of a comparison as a process of its own, then the table.
#include "framework/suites/suite.h"

#include <filesystem>

#include "framework/experiment/compositions.h"
#include "runner/commands.h"
#include "runner/match.h"
#include "runner/sharing_command.h"
#include "runner/suite_until.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

/// The suite's quick form, which stands beside it: NAME_quick.yaml.
std::string quick_form(const std::string& file) {
  const fs::path path(file);
  const fs::path quick = path.parent_path() / (path.stem().string() + "_quick.yaml");
  std::error_code error;
  if (fs::is_regular_file(quick, error)) return quick.string();
  throw ConfigError("--quick: this suite has no quick form; it would be " + quick.string());
}

}  // namespace

int suite_command(const Words& words) {
  if (!words.empty() && words[0] == "pack") {  // a suite's file has an ending, or another name
    return sharing_command("suite pack", Words(words.begin() + 1, words.end()));
  }
  Usage usage;
  usage.synopsis =
      "attnlab suite SUITE [key=value ...] [-j N] [--quick] [--rerun WHICH] [--dry-run]\n"
      "       [--until-width W --max-seeds N] [--out DIR] [--progress MODE] [--launcher NAME]";
  usage.about =
      "Runs every experiment of a suite with every attention and seed, each in a process of its\n"
      "own, and prints a table. Finished runs are not repeated; interrupted and killed runs go\n"
      "on; failed runs are left until --rerun failed. Runs whose plugin files, data or\n"
      "framework have changed are stale: they are left until --rerun stale. SUITE is a file or\n"
      "the name of one below configs/suites; key=value changes the suite's own keys.\n"
      "Examples: seeds=[0]  set.train.epochs=1  'grid.lr=[1e-3]'  -j 4  --dry-run";
  add_suite_options(usage);
  usage.options.add_options()("quick",
                              "the suite's quick form, SUITE_quick.yaml beside it: shows whether "
                              "it runs, not what is better");
  add_until_options(usage);
  usage.fewest_words = usage.most_words = 1;
  usage.takes_overrides = true;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const std::string whole = find_composition(arguments.words[0], "suites");
  const std::string file = arguments.has("quick") ? quick_form(whole) : whole;
  const Catalogue catalogue = Catalogue::of_this_program();
  const auto loader = [&](const Words& overrides) -> LoadSuite {
    return [&, overrides](bool use_fallback) {
      Words request = {file};
      request.insert(request.end(), overrides.begin(), overrides.end());
      if (use_fallback) request.emplace_back("--fallback");
      const auto with = [&](const Matcher& matcher) {
        return load_suite(file, overrides, catalogue, runs_folder(arguments), use_fallback,
                          matcher);
      };
      return matched_suite(with, request);
    };
  };
  const std::string command = command_text("suite", words);
  const std::optional<UntilWidth> until = until_width(arguments);
  if (until) return run_until(*until, loader, arguments, command, catalogue);
  return run_suite(loader(arguments.overrides), arguments, command, catalogue);
}

}  // namespace attnlab
