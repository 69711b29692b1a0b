#include "runner/usages.h"

namespace attnlab {

namespace po = boost::program_options;

Usage run_usage() {
  Usage usage;
  usage.synopsis =
      "attnlab run EXPERIMENT|RUN_DIR [key=value ...] [--out DIR] [--resume] [--dry-run]\n"
      "       [--progress MODE]";
  usage.about =
      "Trains and evaluates an experiment, one run for each of its seeds. EXPERIMENT is a file or\n"
      "the name of one below configs/experiments; RUN_DIR is a run's folder, whose frozen\n"
      "configuration is used. Examples: train.epochs=3  attention=quest  seeds=[0,1]";
  usage.options.add_options()("out", po::value<std::string>()->value_name("DIR"),
                              "folder under which runs are filed; default: runs")(
      "resume", "go on from the checkpoint of a run that was begun")(
      "dry-run", "build everything, say what would be done, write nothing; exit code 4: no data")(
      "progress", po::value<std::string>()->value_name("MODE"),
      "auto (default), bar, plain, json or none");
  usage.fewest_words = usage.most_words = 1;
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

}  // namespace attnlab
