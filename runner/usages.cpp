#include "runner/usages.h"

namespace attnlab {

namespace po = boost::program_options;

namespace {

/// Of commands that ask a run that is trained.
constexpr const char* kAcceptChanges = "go on although the run's data changed since it began";

}  // namespace

Usage run_usage() {
  Usage usage;
  usage.synopsis =
      "attnlab run EXPERIMENT|RUN_DIR ... [key=value ...] [--out DIR] [--resume] [--ensemble]\n"
      "       [--processes N] [--accept-changes] [--accept-revision] [--dry-run] [--profile]\n"
      "       [--progress MODE]";
  usage.about =
      "Trains and evaluates an experiment, one run for each of its seeds. EXPERIMENT is a file or\n"
      "the name of one below configs/experiments; RUN_DIR is a run's folder, whose frozen\n"
      "configuration is used. Several are run one after the other, or with --ensemble together.\n"
      "Examples: train.epochs=3  attention=quest  seeds=[0,1]";
  add_runs_folder(usage);
  usage.options.add_options()("resume", "go on from the checkpoint of a run that was begun")(
      "accept-changes",
      "go on although plugins, data or the framework changed since the run began; it is recorded")(
      "accept-revision",
      "count finished runs of other revisions of the framework, too, and record that")(
      "ensemble", "train all runs together, as one model that holds them; for models that can")(
      "processes", po::value<std::string>()->value_name("N"),
      "carry out each run in N processes of this machine, whatever train.processes says; N is a "
      "power of two that divides train.parts")(
      "dry-run", "build everything, say what would be done, write nothing; exit code 4: no data")(
      "profile",
      "also write what five steps computed to RUN_DIR/profile.json, for ui.perfetto.dev")(
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
      "Evaluates a finished run as the entries of its `evaluate:` say, with the weights that it\n"
      "has; trains nothing. Each result is filed by itself in RUN_DIR/evaluations, and one that "
      "is\n"
      "there is not computed again. ENTRY: a name, or that of an entry with `over`; none: all.\n"
      "`clean` is the run itself, on its test split; it goes to RUN_DIR/evaluation.json. A run "
      "without\n"
      "entries, finished or not, is evaluated like that. Exit code 1: an entry failed.";
  usage.options.add_options()("with", po::value<std::string>()->value_name("PATH"),
                              "a file whose `evaluate:` has the entries, instead of the run's own")(
      "again", "evaluate anew what has a result")(
      "examples", po::value<std::string>()->value_name("PATH"),
      "also evaluate each example by itself, and write its metrics as a row of a CSV file; of "
      "lines of text: their perplexities")("json", "print JSON")("accept-changes", kAcceptChanges);
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
      "Writes text with the language model of a run: the prompt as the model reads it, and what\n"
      "follows, token by token as it comes. Keys and values of what was written are kept, so a\n"
      "token costs one look back and not the whole text again. The same seed writes the same\n"
      "text. Ctrl-C ends it, with exit code 130.";
  usage.options.add_options()("prompt", po::value<std::string>()->value_name("TEXT"),
                              "what the text begins with; default: a line's end")(
      "tokens", po::value<std::int64_t>()->value_name("N")->default_value(200), "tokens to write")(
      "temperature", po::value<double>()->value_name("T")->default_value(1),
      "below 1: likely tokens become likelier; 0: always the likeliest")(
      "top-k", po::value<std::int64_t>()->value_name("K")->default_value(0),
      "choose among the K likeliest tokens; 0: among all")(
      "seed", po::value<std::int64_t>()->value_name("N")->default_value(0), "of what is drawn")(
      "accept-changes", kAcceptChanges);
  usage.fewest_words = usage.most_words = 1;
  return usage;
}

Usage detect_usage() {
  Usage usage;
  usage.synopsis =
      "attnlab detect RUN_DIR [--prompt FILE] --image FILE ... [--out DIR] [--score S] [--most N]";
  usage.about =
      "Looks at pictures of yours with the detector of a run. A one-shot detector finds what the\n"
      "prompt shows: a picture of one object, cut out. Writes a copy of each picture with boxes\n"
      "and scores drawn in, and detections.json: boxes as x0, y0, x1, y1 in pixels of the "
      "picture,\n"
      "best first. The data that the run was trained on must be on this machine.";
  usage.options.add_options()("prompt", po::value<std::string>()->value_name("FILE"),
                              "what to look for (JPEG, PNG, WebP or Netpbm)")(
      "image", po::value<Words>()->multitoken()->value_name("FILE ..."), "pictures to look at")(
      "out", po::value<std::string>()->value_name("DIR"),
      "folder to write to; default: detections")(
      "score", po::value<double>()->value_name("S")->default_value(0.3), "least score, 0 to 1")(
      "most", po::value<std::int64_t>()->value_name("N")->default_value(100), "boxes of a picture");
  usage.fewest_words = usage.most_words = 1;
  return usage;
}

Usage segment_usage() {
  Usage usage;
  usage.synopsis = "attnlab segment RUN_DIR --image FILE [--out FILE]";
  usage.about =
      "Asks the model of a run of segmentation for the class of each pixel of a picture of yours, "
      "of\n"
      "any size, resized and cut into windows as the run's evaluation does it. Writes a PNG: the\n"
      "picture in the colours of its classes, with their names below, and prints the share of "
      "each.\n"
      "The data that the run was trained on must be on this machine.";
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
      "Keeps test examples beside a run for `attnlab report`, which draws them. Of graphs, with "
      "what\n"
      "the model answers and one node's attention in the last layer: RUN_DIR/graphs.json. Of "
      "clouds,\n"
      "with labels, answers and one point's attention over its patch in the last layer (20,000 "
      "points\n"
      "at most, each class with its share): RUN_DIR/clouds.json. Of detectors, with prompt, boxes "
      "and\n"
      "the best query's attention: RUN_DIR/boxes.json. Of segmentation, with true classes, answers "
      "and\n"
      "errors: RUN_DIR/label_maps.json. Of images with classes, with where the model\n"
      "looks (AG-CAM), and corrupted, attacked and occluded as the run's evaluations do it, each "
      "with\n"
      "the model's answer: RUN_DIR/images.json. The examples lie equally far apart in the test "
      "split,\n"
      "so all runs of an experiment show the same ones.";
  usage.options.add_options()(
      "examples", po::value<std::int64_t>()->value_name("N")->default_value(4), "how many")(
      "node", po::value<std::int64_t>()->value_name("I")->default_value(-1),
      "of graphs: whose attention; -1: the node with the most neighbours")(
      "point", po::value<std::int64_t>()->value_name("I")->default_value(-1),
      "of clouds: whose attention; -1: the point nearest to the mean of all")(
      "with", po::value<std::string>()->value_name("PATH"),
      "of images: a file with an evaluate: section, in place of the run's own")(
      "class", po::value<std::vector<std::string>>()->value_name("NAME"),
      "of images: also where the model would look for this class, by AG-CAM; its name or number; "
      "may be given several times")(
      "region", po::value<std::string>()->value_name("LEFT,TOP,WIDTH,HEIGHT"),
      "of images: also with this part, in pixels, as noise: the answer, and where it looks then")(
      "accept-changes", kAcceptChanges);
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

Usage data_show_usage() {
  Usage usage;
  usage.synopsis =
      "attnlab data show EXPERIMENT [key=value ...] [--split SPLIT] [--images N] [--augmented N]\n"
      "       [--out PATH]";
  usage.about =
      "Writes a PNG of images as the model gets them, normalisation undone, with their labels:\n"
      "examples that lie equally far apart in the split, each once, or followed by augmented\n"
      "versions, those of the first epochs of the first seed. What a task mixes (mixup, CutMix) "
      "is\n"
      "not shown.";
  usage.options.add_options()(
      "split", po::value<std::string>()->value_name("train|validation|test"), "default: train")(
      "images", po::value<std::string>()->value_name("N"), "how many; default: 16, augmented 8")(
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
      "Builds an experiment and shows its model: modules with their parameters and shapes, and "
      "the\n"
      "products of one forward pass with their FLOPs (a multiply-add is two). Modules that repeat\n"
      "one after the other are shown once. Needs the data. Exit code 4: they are not here.";
  usage.options.add_options()("summary", "as above")("json", "print JSON");
  usage.fewest_words = usage.most_words = 1;
  usage.takes_overrides = true;
  return usage;
}

Usage probe_usage() {
  Usage usage;
  usage.synopsis = "attnlab probe EXPERIMENT|RUN_DIR [key=value ...] [--steps N] [--also FILE]";
  usage.about =
      "Builds a run of the first seed, measures a few of its steps on a model that is thrown "
      "away,\n"
      "and prints one line of JSON: the data's fingerprint, parameters, FLOPs of one example's\n"
      "forward pass, the run's steps, seconds of one step and of all evaluations, and the largest\n"
      "memory in bytes. Writes nothing to disk. Exit code 4: the data are not on this machine.";
  usage.options.add_options()("steps", po::value<std::string>()->value_name("N"),
                              "steps to measure, after one of warm-up; default: 3; 0: only build")(
      "also", po::value<std::string>()->value_name("FILE"),
      "a JSON list of maps, other values in `train`: is the run right with these, too?");
  usage.fewest_words = usage.most_words = 1;
  usage.takes_overrides = true;
  return usage;
}

}  // namespace attnlab
