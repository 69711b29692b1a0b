// attnlab validate FILE...: checks experiments and suites without running anything.
#include <fmt/format.h>
#include <iostream>

#include "framework/base/foreign_text.h"
#include "framework/config/compose.h"
#include "framework/experiment/compositions.h"
#include "framework/experiment/experiment.h"
#include "framework/suites/suite.h"
#include "runner/commands.h"

namespace attnlab {
namespace {

/// One line about a sound file. @param what  a path, or a name. @throws Error.
std::string check(const std::string& what, const Words& overrides, const Catalogue& catalogue) {
  const bool of_a_suite =
      !compositions("experiments").contains(what) && compositions("suites").contains(what);
  const std::string path = find_composition(what, of_a_suite ? "suites" : "experiments");
  if (compose(path).root.find("experiments") != nullptr) {
    const Suite suite = load_suite(path, overrides, catalogue, kRunsFolder);
    const std::string absent = std::to_string(suite.absent.size());
    return fmt::format(
        "suite of {} runs{}", suite.cells.size(),
        suite.absent.empty() ? "" : fmt::format(", and {} skipped or incompatible", absent));
  }
  const Experiment experiment = load_experiment(path, overrides, catalogue);
  return fmt::format("model {}, attention {}, dataset {}, task {}, {}{}", experiment.model.name,
                     mechanisms_text(experiment.attention), experiment.dataset.name,
                     experiment.task.name, experiment.seeds.size(),
                     experiment.seeds.size() == 1 ? " seed" : " seeds");
}

}  // namespace

int validate_command(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab validate FILE|NAME... [key=value ...]";
  usage.about =
      "Checks experiments and suites without running them: keys, types, ranges, and that the\n"
      "parts fit. Prints every problem as file:line:column. Needs neither LibTorch nor plugin\n"
      "code.";
  usage.fewest_words = 1;
  usage.most_words = kAnyNumber;
  usage.takes_overrides = true;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const Catalogue catalogue = Catalogue::of_this_program();
  bool sound = true;
  for (const std::string& path : arguments.words) {
    try {
      const std::string summary = check(path, arguments.overrides, catalogue);
      std::cout << one_line(path, kLongestMessageLine) << ": valid: " << summary << "\n";
    } catch (const Error& error) {
      sound = false;
      std::cerr << message_text(error.what()) << "\n";
    }
  }
  return sound ? kDone : kUsage;
}

}  // namespace attnlab
