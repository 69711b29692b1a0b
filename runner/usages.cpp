#include "runner/usages.h"

namespace attnlab {

namespace po = boost::program_options;

Usage run_usage() {
  Usage usage;
  usage.synopsis =
      "attnlab run EXPERIMENT|RUN_DIR ... [key=value ...] [--out DIR] [--resume] [--ensemble]\n"
      "       [--accept-changes] [--dry-run] [--progress MODE]";
  usage.about =
      "Trains and evaluates an experiment, one run for each of its seeds. EXPERIMENT is a file or\n"
      "the name of one below configs/experiments; RUN_DIR is a run's folder, whose frozen\n"
      "configuration is used. Several are run one after the other, or with --ensemble together.\n"
      "Examples: train.epochs=3  attention=quest  seeds=[0,1]";
  usage.options.add_options()("out", po::value<std::string>()->value_name("DIR"),
                              "folder under which runs are filed; default: runs")(
      "resume", "go on from the checkpoint of a run that was begun")(
      "accept-changes",
      "go on although plugins, data or the framework changed since the run began; it is recorded")(
      "ensemble", "train all runs together, as one model that holds them; for models that can")(
      "dry-run", "build everything, say what would be done, write nothing; exit code 4: no data")(
      "progress", po::value<std::string>()->value_name("MODE"),
      "auto (default), bar, plain, json or none");
  usage.fewest_words = 1;
  usage.most_words = kAnyNumber;
  usage.takes_overrides = true;
  return usage;
}

Usage eval_usage() {
  Usage usage;
  usage.synopsis = "attnlab eval RUN_DIR [--json]";
  usage.about =
      "Loads the checkpoint of a run, evaluates it on the test split under every protocol\n"
      "of its task, prints the metrics and writes them to RUN_DIR/evaluation.json.";
  usage.options.add_options()("json", "print JSON");
  usage.fewest_words = usage.most_words = 1;
  return usage;
}

Usage match_usage() {
  Usage usage;
  usage.synopsis = "attnlab match SUITE [key=value ...] [--fallback]";
  usage.about =
      "Finds the values that a suite's `match:` asks for, by building its models, and prints them\n"
      "as JSON. Writes nothing to disk. `attnlab suite` does this by itself.";
  usage.options.add_options()("fallback", "with what the suite's `fallback:` says");
  usage.fewest_words = usage.most_words = 1;
  usage.takes_overrides = true;
  return usage;
}

Usage probe_usage() {
  Usage usage;
  usage.synopsis = "attnlab probe EXPERIMENT|RUN_DIR [key=value ...] [--steps N]";
  usage.about =
      "Builds a run of the first seed, measures a few of its steps on a model that is thrown "
      "away,\n"
      "and prints one line of JSON: the data's fingerprint, parameters, FLOPs of one example's\n"
      "forward pass, the run's steps, seconds of one step and of all evaluations, and the largest\n"
      "memory in bytes. Writes nothing to disk. Exit code 4: the data are not on this machine.";
  usage.options.add_options()("steps", po::value<std::string>()->value_name("N"),
                              "steps to measure, after one of warm-up; default: 3; 0: only build");
  usage.fewest_words = usage.most_words = 1;
  usage.takes_overrides = true;
  return usage;
}

}  // namespace attnlab
