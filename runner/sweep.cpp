// attnlab sweep: one experiment at every point of a grid of values.
#include "framework/suites/sweep.h"

#include "framework/experiment/compositions.h"
#include "framework/suites/sweep_grammar.h"
#include "runner/commands.h"
#include "runner/suite_runner.h"

namespace attnlab {
namespace {

namespace po = boost::program_options;

Usage sweep_usage() {
  Usage usage;
  usage.synopsis =
      "attnlab sweep EXPERIMENT [key=value ...] [--seeds LIST] [--name NAME] [--baseline LABEL]\n"
      "       [-j N] [--rerun WHICH] [--dry-run] [--out DIR] [--progress MODE] [--launcher NAME]";
  usage.about =
      "Runs an experiment with every combination of values, each run in a process of its own,\n"
      "and prints a table. A key may be shortened if only one key ends with it: lr is\n"
      "train.optimizer.lr.\n"
      "  lr=1e-4,3e-4               a list\n"
      "  'x=range(0,1,0.25)'        0, 0.25, 0.5, 0.75, 1\n"
      "  'lr=logspace(1e-4,1e-1,4)' 1e-4, 1e-3, 1e-2, 1e-1\n"
      "  'zip(a=[1,2],b=[3,4])'     side by side: (1, 3), (2, 4)\n"
      "  attention=standard,quest   the table's attentions\n"
      "  epochs=2                   one value, at every point; 'seq=[1,2]' is one value too\n"
      "Like attnlab suite it continues interrupted runs and leaves failed and stale ones.";
  usage.options.add_options()(
      "seeds", po::value<std::string>()->value_name("LIST"),
      "seeds, such as 0-4,7, or [3] for one; default: the experiment's own")(
      "name", po::value<std::string>()->value_name("NAME"),
      "name of the folder below --out; default: EXPERIMENT-sweep")(
      "baseline", po::value<std::string>()->value_name("LABEL"),
      "attention to compare with; default: standard, else the first");
  add_suite_options(usage);
  usage.fewest_words = usage.most_words = 1;
  usage.takes_overrides = true;
  return usage;
}

}  // namespace

int sweep_command(const Words& words) {
  Usage usage = sweep_usage();
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  SweepRequest request;
  request.file = find_composition(arguments.words[0], "experiments");
  request.words = arguments.overrides;
  if (arguments.has("seeds")) request.seeds = parse_seeds(arguments.text("seeds", ""));
  request.name = arguments.text("name", "");
  request.baseline = arguments.text("baseline", "");
  const Catalogue catalogue = Catalogue::of_this_program();
  const auto load = [&](bool) { return make_sweep(request, catalogue, runs_folder(arguments)); };
  return run_suite(load, arguments, command_text("sweep", words), catalogue);
}

}  // namespace attnlab
