// An experiment: a model, its attention, a task and a dataset, and how to train them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/config/options.h"
#include "framework/manifest/discovery.h"

namespace attnlab {

struct OptimizerOptions {
  std::string use = "adamw";
  double lr = 1e-3;
  double weight_decay = 0.05;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("use", use, one_of("adamw", "radam"), "the optimiser");
    v("lr", lr, at_least(0), "learning rate after warm-up");
    v("weight_decay", weight_decay, at_least(0), "decoupled decay of matrices (not biases, norms)");
    v("beta1", beta1, range(0, 1), "decay of the first moment");
    v("beta2", beta2, range(0, 1), "decay of the second moment");
    v("eps", eps, at_least(0), "added to the root of the second moment");
  }
};

struct ScheduleOptions {
  std::string shape = "cosine";
  double warmup_epochs = 0;
  double warmup_lr = 1e-6;
  double min_lr = 1e-5;
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("shape", shape, one_of("cosine", "constant"), "learning rate after warm-up, step by step");
    v("warmup_epochs", warmup_epochs, at_least(0), "epochs of linear warm-up; may be a fraction");
    v("warmup_lr", warmup_lr, at_least(0), "learning rate of the first step of warm-up");
    v("min_lr", min_lr, at_least(0), "learning rate at the end of the cosine");
  }
};

/// When training ends before its last epoch.
struct EarlyStopOptions {
  std::string metric;
  std::int64_t patience = 0;
  std::string mode = "auto";
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("metric", metric, "what evaluations are judged by; empty: the task's own (accuracy)");
    v("patience", patience, at_least(0),
      "evaluations without a new best (a tie is one) that end training; 0: all epochs");
    v("mode", mode, one_of("auto", "max", "min"),
      "whether a larger or a smaller metric is better; auto: by the metric");
  }
};

struct TrainOptions {
  std::int64_t epochs = 10;
  std::int64_t batch_size = 128;
  bool drop_last = true;
  std::int64_t eval_batch_size = 256;
  std::int64_t accumulate = 1;
  double clip_norm = 0;
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  std::string protocol = "last";
  EarlyStopOptions early_stop;
  double diverged_above = 0;
  std::int64_t evaluate_every = 1;
  std::int64_t log_every = 10;
  bool tensorboard = true;
  double checkpoint_seconds = 30;
  std::int64_t workers = 1;
  std::int64_t prefetch = 4;
  std::int64_t threads = 0;
  std::string device = "cpu";
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("epochs", epochs, at_least(1), "passes over the training split");
    v("batch_size", batch_size, at_least(1), "examples of one step");
    v("drop_last", drop_last, "leave out an epoch's last batch where it is not full");
    v("eval_batch_size", eval_batch_size, at_least(1), "examples of one batch of evaluation");
    v("accumulate", accumulate, at_least(1),
      "parts that a step's batch is split into, to save memory");
    v("clip_norm", clip_norm, at_least(0), "largest L2 norm of the whole gradient; 0: no clipping");
    v("optimizer", optimizer, "how parameters move");
    v("schedule", schedule, "how the learning rate changes");
    v("protocol", protocol, one_of("last", "sound", "published"),
      "which epoch's model counts: the last; the best on the validation split (sound); the best on "
      "the test split itself, which flatters it (published)");
    v("early_stop", early_stop, "when training ends before its last epoch");
    v("diverged_above", diverged_above, at_least(0),
      "a training loss above this ends the run as diverged; 0: only one that is not finite");
    v("evaluate_every", evaluate_every, at_least(1), "epochs between evaluations");
    v("log_every", log_every, at_least(1), "steps between lines of metrics.jsonl");
    v("tensorboard", tensorboard, "event files for TensorBoard, with the same scalars");
    v("checkpoint_seconds", checkpoint_seconds, at_least(0),
      "seconds between checkpoints (one more at the end of an epoch, unless it was short); 0: "
      "after "
      "every step");
    v("workers", workers, range(0, 256), "threads that load data; 0: the training thread does");
    v("prefetch", prefetch, range(1, 1024), "batches that are loaded ahead");
    v("threads", threads, range(0, 4096), "threads of tensor operations; 0: all cores");
    v("device", device, one_of("cpu", "cuda"), "where the model runs");
  }
};

/// What a run records of its attention layers while it trains: framework/train/attention_log.h.
struct TraceOptions {
  std::int64_t every = 100;
  std::vector<std::string> record = {"logit_max", "query_norm", "key_norm", "entropy"};
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("every", every, at_least(0), "steps between records, the first step's aside; 0: none");
    v("record", record,
      one_of("logit_max", "query_norm", "key_norm", "key_norm_by_kind", "entropy", "bias"),
      "what each layer's lines of metrics.jsonl hold");
  }
};

/// One part of an experiment: a plugin and its options.
struct Part {
  Kind kind = Kind::attention;
  std::string name;   ///< the plugin's name
  std::string label;  ///< what tables call it (`as:`); the name unless given
  Node options;       ///< resolved: every option of the plugin
  Place place;        ///< where `use:` stands
  std::string path;   ///< the plugin's file
  std::string id;     ///< "lab/name"
};

struct Experiment {
  std::string name;
  Part model, attention, task, dataset;
  TrainOptions train;
  TraceOptions trace{.every = 0};  ///< off unless the composition has `trace`
  std::vector<std::int64_t> seeds;
  /// Other plugins than the above in the evaluation that `train.early_stop.metric` names: what they
  /// say chooses the epoch.
  std::vector<Part> judges;
  /// The whole composition with every default filled in; loads again to the same experiment.
  Node resolved;

  /// 16 hexadecimal digits of everything that training depends on, that is but for name, seeds and
  /// `evaluate` (the entry that `train.early_stop.metric` names aside): equal for equal
  /// experiments, however their numbers are written (1e-3 or 0.001). A trace changes no number of a
  /// run, but it is counted where it is on: a run without it, finished before, does not pass for
  /// one with it.
  std::string hash() const;
};

/// What readers of an experiment's numbers must know of how its model was chosen; empty for the
/// model of the last epoch.
std::string protocol_note(const Experiment& experiment);

/// One part outside any experiment, its options checked and filled in.
/// @param name     "quest" or "attnlab/quest"
/// @param options  a map, or null for "all defaults"
/// @throws PluginError when there is no such plugin, ConfigError with every problem of the options.
Part part_of(Kind kind, const std::string& name, const Node& options, const Catalogue& catalogue);

/// The attention does not honour what the model needs, and nothing else is wrong: a finding about
/// the attention, not a mistake in a file.
class IncompatibleError : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

/// Checks a composition against the plugins' manifests: keys, types, ranges, and that the parts fit
/// (what each takes is given by another; the attention has the traits that the model needs).
/// @param composed  as `compose_file` makes it
/// @param name      the experiment's name where the composition gives none
/// @throws ConfigError with every problem, a line each; IncompatibleError.
Experiment resolve_experiment(const Node& composed, const Catalogue& catalogue,
                              const std::string& name);

/// Composes and resolves a file. The name is the file's, without folder and ending.
Experiment load_experiment(const std::string& path, const std::vector<std::string>& overrides,
                           const Catalogue& catalogue);

/// "file:line:column: key = value" for every value of a tree, with its earlier values.
std::string origins_text(const Node& node);

/// Finds a composition by path, or by name in ./configs and the installed configs ("vit_small" in
/// configs/experiments/**). @param folder  "experiments" or "suites".
/// @throws ConfigError listing near names.
std::string find_composition(const std::string& path_or_name, const std::string& folder);

}  // namespace attnlab
