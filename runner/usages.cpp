#include "runner/usages.h"

namespace attnlab {

namespace po = boost::program_options;

namespace {

/// Of commands that ask a run that is trained.
constexpr const char* kAcceptChanges = "continue although the run's data changed since it began";

}  // namespace

Usage run_usage() {
  Usage usage;
  usage.synopsis =
      "attnlab run EXPERIMENT|RUN_DIR ... [key=value ...] [--out DIR] [--resume] [--ensemble]\n"
      "       [--processes N] [--accept-changes] [--accept-revision] [--dry-run] [--profile]\n"
      "       [--progress MODE]";
  usage.about =
      "Trains and evaluates an experiment, one run for each of its seeds. EXPERIMENT is a file\n"
      "or the name of one below configs/experiments; RUN_DIR is a run's folder, whose frozen\n"
      "configuration is used. Several runs are run one after the other, or together with\n"
      "--ensemble.\n"
      "Examples: train.epochs=3  attention=quest  seeds=[0,1]";
  add_runs_folder(usage);
  usage.options.add_options()("resume", "continue an unfinished run from its checkpoint")(
      "accept-changes",
      "continue although plugins, data or the framework changed since the run began; this is "
      "recorded")("accept-revision",
                  "also accept finished runs of other framework revisions, and record that")(
      "ensemble", "train all runs together as one ensemble; for models that can")(
      "processes", po::value<std::string>()->value_name("N"),
      "run each run in N processes on this machine, in place of train.processes; N is a power of "
      "two that divides train.parts")(
      "dry-run",
      "build everything, report what would be done, write nothing; exit code 4: no data")(
      "profile", "also write a profile of five steps to RUN_DIR/profile.json, for ui.perfetto.dev")(
      "progress", po::value<std::string>()->value_name("MODE"),
      "auto (default), bar, plain, json or none");
  usage.fewest_words = 1;
  usage.most_words = kAnyNumber;
  usage.takes_overrides = true;
  return usage;
}

Usage eval_usage() {
  Usage usage;
  usage.synopsis =
      "attnlab eval RUN_DIR [ENTRY ...] [--with FILE] [--again] [--examples FILE] [--json]\n"
      "       [--accept-changes]";
  usage.about =
      "Evaluates a finished run by the entries of its `evaluate:`, with its trained weights;\n"
      "trains nothing. Each result has its own file in RUN_DIR/evaluations; a stored result is\n"
      "not computed again. ENTRY: a name, also of an entry with `over`; default: all. `clean`\n"
      "is the run itself, on its test split; its result goes to RUN_DIR/evaluation.json. A run\n"
      "without entries, finished or not, is evaluated as `clean`. Exit code 1: an entry failed.";
  usage.options.add_options()("with", po::value<std::string>()->value_name("PATH"),
                              "a file whose `evaluate:` has the entries, instead of the run's own")(
      "again", "evaluate again where there is a result")(
      "examples", po::value<std::string>()->value_name("PATH"),
      "also write a CSV file with the metrics of each example in a row; for lines of text: their "
      "perplexities")("json", "print JSON")("accept-changes", kAcceptChanges);
  usage.fewest_words = 1;
  usage.most_words = kAnyNumber;
  return usage;
}

Usage sample_usage() {
  Usage usage;
  usage.synopsis =
      "attnlab sample RUN_DIR [--prompt TEXT] [--tokens N] [--temperature T] [--top-k K]\n"
      "       [--seed N] [--accept-changes]";
  usage.about =
      "Writes text with the language model of a run: the prompt as the model reads it, and its\n"
      "continuation, token by token. Keys and values of earlier tokens are cached, so a new\n"
      "token does not need the whole text again. The same seed gives the same text. Ctrl-C ends\n"
      "the command, with exit code 130.";
  usage.options.add_options()("prompt", po::value<std::string>()->value_name("TEXT"),
                              "beginning of the text; default: a line break")(
      "tokens", po::value<std::int64_t>()->value_name("N")->default_value(200), "tokens to write")(
      "temperature", po::value<double>()->value_name("T")->default_value(1),
      "below 1: likely tokens become likelier; 0: always the likeliest")(
      "top-k", po::value<std::int64_t>()->value_name("K")->default_value(0),
      "choose among the K likeliest tokens; 0: among all")(
      "seed", po::value<std::int64_t>()->value_name("N")->default_value(0),
      "seed of the random draws")("accept-changes", kAcceptChanges);
  usage.fewest_words = usage.most_words = 1;
  return usage;
}

Usage detect_usage() {
  Usage usage;
  usage.synopsis =
      "attnlab detect RUN_DIR [--prompt FILE] --image FILE ... [--out DIR] [--score S] [--most N]";
  usage.about =
      "Runs a run's detector on your own pictures. A one-shot detector finds what the prompt\n"
      "shows: a picture of one object, cut out. Writes a copy of each picture with boxes and\n"
      "scores drawn in, and detections.json: boxes as x0, y0, x1, y1 in pixels of the picture,\n"
      "best first. The data that the run was trained on must be on this machine.";
  usage.options.add_options()("prompt", po::value<std::string>()->value_name("FILE"),
                              "what to look for (JPEG, PNG, WebP or Netpbm)")(
      "image", po::value<Words>()->multitoken()->value_name("FILE ..."), "pictures to look at")(
      "out", po::value<std::string>()->value_name("DIR"),
      "folder to write to; default: detections")(
      "score", po::value<double>()->value_name("S")->default_value(0.3), "least score, 0 to 1")(
      "most", po::value<std::int64_t>()->value_name("N")->default_value(100),
      "most boxes per picture");
  usage.fewest_words = usage.most_words = 1;
  return usage;
}

Usage segment_usage() {
  Usage usage;
  usage.synopsis = "attnlab segment RUN_DIR --image FILE [--out FILE]";
  usage.about =
      "Predicts the class of each pixel of your own picture with a run's segmentation model.\n"
      "The picture may have any size; it is resized and cut into windows as in the run's\n"
      "evaluation. Writes a PNG (the picture in the colours of its classes, with their names\n"
      "below), and prints the share of each class. The data that the run was trained on must be\n"
      "on this machine.";
  usage.options.add_options()("image", po::value<std::string>()->value_name("FILE"),
                              "the picture (JPEG, PNG, WebP or Netpbm)")(
      "out", po::value<std::string>()->value_name("FILE"),
      "PNG to write; default: NAME-classes.png here, NAME the picture's");
  usage.fewest_words = usage.most_words = 1;
  return usage;
}

Usage show_usage() {
  Usage usage;
  usage.synopsis =
      "attnlab show RUN_DIR [--examples N] [--node I] [--point I] [--with PATH]\n"
      "       [--class NAME ...] [--region LEFT,TOP,WIDTH,HEIGHT] [--accept-changes]";
  usage.about =
      "Keeps test examples beside a run for `attnlab report`, which draws them. Graphs, with\n"
      "the model's answers and one node's attention in the last layer: RUN_DIR/graphs.json.\n"
      "Clouds, with labels, answers and one point's attention over its patch in the last layer\n"
      "(20,000 points at most, each class with its share): RUN_DIR/clouds.json. Detection, with\n"
      "prompt, boxes and the best query's attention: RUN_DIR/boxes.json. Segmentation, with\n"
      "true classes, answers and errors: RUN_DIR/label_maps.json. Images with classes, with the\n"
      "explanation by AG-CAM, also corrupted, attacked and occluded as in the run's\n"
      "evaluations, each with the model's answer: RUN_DIR/images.json. The examples are evenly\n"
      "spaced in the test split, so all runs of an experiment show the same ones.";
  usage.options.add_options()(
      "examples", po::value<std::int64_t>()->value_name("N")->default_value(4), "how many")(
      "node", po::value<std::int64_t>()->value_name("I")->default_value(-1),
      "for graphs: node whose attention is kept; -1: the node with the most neighbours")(
      "point", po::value<std::int64_t>()->value_name("I")->default_value(-1),
      "for clouds: point whose attention is kept; -1: the point nearest to the mean of all")(
      "with", po::value<std::string>()->value_name("PATH"),
      "for images: a file with an evaluate: section, in place of the run's own")(
      "class", po::value<std::vector<std::string>>()->value_name("NAME"),
      "for images: also the explanation (AG-CAM) of this class; name or number; may be given "
      "several times")("region", po::value<std::string>()->value_name("LEFT,TOP,WIDTH,HEIGHT"),
                       "for images: also the answer and its explanation with this part, in pixels, "
                       "replaced by noise")("accept-changes", kAcceptChanges);
  usage.fewest_words = usage.most_words = 1;
  return usage;
}

Usage match_usage() {
  Usage usage;
  usage.synopsis = "attnlab match SUITE [key=value ...] [--fallback]";
  usage.about =
      "Builds a suite's models to find the values for its `match:`, and prints them as JSON.\n"
      "Writes nothing to disk. `attnlab suite` does this by itself.";
  usage.options.add_options()("fallback", "with what the suite's `fallback:` says");
  usage.fewest_words = usage.most_words = 1;
  usage.takes_overrides = true;
  return usage;
}

Usage data_show_usage() {
  Usage usage;
  usage.synopsis =
      "attnlab data show EXPERIMENT [key=value ...] [--split SPLIT] [--images N] [--augmented N]\n"
      "       [--out PATH]";
  usage.about =
      "Writes a PNG of images as the model gets them, without the normalisation, with their\n"
      "labels: examples evenly spaced in the split, each once, or followed by augmented\n"
      "versions from the first epochs of the first seed. Mixing by a task (mixup, CutMix) is\n"
      "not shown.";
  usage.options.add_options()("split",
                              po::value<std::string>()->value_name("train|validation|test"),
                              "default: train")("images", po::value<std::string>()->value_name("N"),
                                                "number of images; default: 16, augmented 8")(
      "augmented", po::value<std::string>()->value_name("N"),
      "augmented versions beside each; default: 0")("out",
                                                    po::value<std::string>()->value_name("PATH"),
                                                    "file to write; default: EXPERIMENT-SPLIT.png");
  usage.fewest_words = usage.most_words = 1;
  usage.takes_overrides = true;
  return usage;
}

Usage summary_usage() {
  Usage usage;
  usage.synopsis = "attnlab describe EXPERIMENT|RUN_DIR [key=value ...] --summary [--json]";
  usage.about =
      "Builds an experiment and shows its model: modules with their parameters and shapes, and\n"
      "the products of one forward pass with their FLOPs (a multiply-add is two). Consecutive\n"
      "equal modules are shown once. Needs the data. Exit code 4: the data are not on this\n"
      "machine.";
  usage.options.add_options()("summary", "as above")("json", "print JSON");
  usage.fewest_words = usage.most_words = 1;
  usage.takes_overrides = true;
  return usage;
}

Usage probe_usage() {
  Usage usage;
  usage.synopsis = "attnlab probe EXPERIMENT|RUN_DIR [key=value ...] [--steps N] [--also FILE]";
  usage.about =
      "Builds a run of the first seed, measures a few of its training steps, and prints one\n"
      "line of JSON: the data's fingerprint, parameters, FLOPs of one example's forward pass,\n"
      "the number of steps of the run, seconds of one step and of all evaluations, and peak\n"
      "memory in bytes. Writes nothing to disk. Exit code 4: the data are not on this machine.";
  usage.options.add_options()(
      "steps", po::value<std::string>()->value_name("N"),
      "steps to measure, after one warm-up step; default: 3; 0: only build")(
      "also", po::value<std::string>()->value_name("FILE"),
      "a JSON list of maps with other values of `train`; checks the run with these, too");
  usage.fewest_words = usage.most_words = 1;
  usage.takes_overrides = true;
  return usage;
}

}  // namespace attnlab
