// attnlab suite: every cell of a comparison as a process of its own, then the table.
#include "framework/suites/suite.h"

#include "framework/experiment/compositions.h"
#include "runner/commands.h"
#include "runner/match.h"
#include "runner/sharing_command.h"
#include "runner/suite_runner.h"

namespace attnlab {

int suite_command(const Words& words) {
  if (!words.empty() && words[0] == "pack") {  // a suite's file has an ending, or another name
    return sharing_command("suite pack", Words(words.begin() + 1, words.end()));
  }
  Usage usage;
  usage.synopsis =
      "attnlab suite SUITE [key=value ...] [-j N] [--rerun WHICH] [--dry-run] [--out DIR]\n"
      "       [--progress MODE] [--launcher NAME]";
  usage.about =
      "Runs every experiment of a suite with every attention and seed, each in a process of its\n"
      "own, and prints a table. Finished runs are not run again, interrupted and killed ones go\n"
      "on, failed ones are left until --rerun failed, and runs whose plugin files or data have\n"
      "changed are stale: left until --rerun stale. SUITE is a file or the name of one below\n"
      "configs/suites; key=value changes the suite's own keys.\n"
      "Examples: seeds=[0]  set.train.epochs=1  'grid.lr=[1e-3]'  -j 4  --dry-run";
  add_suite_options(usage);
  usage.fewest_words = usage.most_words = 1;
  usage.takes_overrides = true;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const std::string file = find_composition(arguments.words[0], "suites");
  const Catalogue catalogue = Catalogue::of_this_program();
  const auto load = [&](bool use_fallback) {
    Words request = {file};
    request.insert(request.end(), arguments.overrides.begin(), arguments.overrides.end());
    if (use_fallback) request.emplace_back("--fallback");
    const auto with = [&](const Matcher& matcher) {
      return load_suite(file, arguments.overrides, catalogue, root_of(arguments), use_fallback,
                        matcher);
    };
    return matched_suite(with, request);
  };
  return run_suite(load, arguments, command_text("suite", words), catalogue);
}

}  // namespace attnlab
