// `train:` of an experiment: how a model is trained.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/manifest/schema.h"

namespace attnlab {

/// Parameters that are trained in a way of their own.
struct ParameterGroupOptions {
  std::vector<std::string> match;
  double lr_scale = 1;
  double weight_decay = -1;
  std::string decay{};
  std::vector<std::int64_t> epochs = {0, -1};
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("match", match, required(),
      "names of parameters (those of the task: task.NAME); * stands for any text, ? for any "
      "character");
    v("lr_scale", lr_scale, at_least(0), "factor of the learning rate");
    v("weight_decay", weight_decay, at_least(-1),
      "weight decay of the group, the same at every step; -1: the optimizer's");
    v("decay", decay, one_of("", "matrices", "all"),
      "which of the group's parameters decay; empty: as optimizer.decay says");
    v("epochs", epochs, at_least(-1),
      "[first, end): epochs in which the group is trained, counted from 0; it is frozen before and "
      "after; end -1: to the last");
  }
};

struct OptimizerOptions {
  std::string use = "adamw";
  double lr = 1e-3;
  double weight_decay = 0.05;
  double weight_decay_end = -1;
  std::string decay = "matrices";
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double momentum = 0;
  bool nesterov = false;
  double max_grad_norm = 1;
  double layer_decay = 1;
  OptionMap<ParameterGroupOptions> groups;
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("use", use, one_of("adamw", "radam", "adam", "sgd", "lamb"), "the optimiser");
    v("lr", lr, at_least(0), "learning rate after warm-up");
    v("weight_decay", weight_decay, at_least(0),
      "weight decay: decoupled in adamw and radam, part of the update in lamb, added to the "
      "gradient (L2) in adam and sgd");
    v("weight_decay_end", weight_decay_end, at_least(-1),
      "weight decay at the end, reached by a cosine; -1: it stays the same");
    v("decay", decay, one_of("matrices", "all"),
      "which parameters decay; matrices: those that the model names, without biases, norms, "
      "positions and class tokens; all: every parameter, PyTorch's default");
    v("beta1", beta1, range(0, 1), "decay of the first moment; not for sgd");
    v("beta2", beta2, range(0, 1), "decay of the second moment; not for sgd");
    v("eps", eps, at_least(0), "added to the root of the second moment; not for sgd");
    v("momentum", momentum, range(0, 1), "for sgd: decay of the sum of gradients; 0: none");
    v("nesterov", nesterov, "for sgd: Nesterov's momentum");
    v("max_grad_norm", max_grad_norm, at_least(0),
      "for lamb: gradients above this L2 norm, all together, are scaled down to it; 0: never");
    v("layer_decay", layer_decay, range(0, 1),
      "the learning rate of each layer, as a share of the next one's; 1: the same for all");
    v("groups", groups,
      "groups of parameters with their own settings, under names of your choice; a parameter "
      "belongs to the first group that matches");
  }
};

struct ScheduleOptions {
  std::string shape = "cosine";
  double warmup_epochs = 0;
  std::int64_t warmup_steps = 0;
  double warmup_lr = 1e-6;
  bool warmup_prefix = true;
  double min_lr = 1e-5;
  std::vector<double> milestones;
  double gamma = 0.1;
  double power = 1;
  double pct_start = 0.3;
  double div_factor = 25;
  double final_div_factor = 1e4;
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("shape", shape,
      one_of("cosine", "constant", "step", "polynomial", "onecycle", "inverse_root"),
      "shape of the learning rate's curve after warm-up");
    v("warmup_epochs", warmup_epochs, at_least(0),
      "epochs of linear warm-up; may be a fraction; for onecycle: epochs in which the rate rises");
    v("warmup_steps", warmup_steps, at_least(0), "the same, in steps; 0: as warmup_epochs says");
    v("warmup_lr", warmup_lr, at_least(0),
      "learning rate of the first step of warm-up; not for onecycle");
    v("warmup_prefix", warmup_prefix,
      "for cosine and polynomial: they begin after the warm-up; false: at the first step, so that "
      "the warm-up hides their beginning, timm's default");
    v("min_lr", min_lr, at_least(0), "learning rate at the end of cosine and polynomial");
    v("milestones", milestones, at_least(0),
      "for step: epochs after which the learning rate drops; may be fractions");
    v("gamma", gamma, range(0, 1), "for step: factor of each drop");
    v("power", power, at_least(0), "for polynomial: the exponent; 1 is a straight line");
    v("pct_start", pct_start, range(0, 1),
      "for onecycle: share of the steps in which the rate rises; or give a warm-up instead");
    v("div_factor", div_factor, at_least(1), "for onecycle: the rate begins at lr / div_factor");
    v("final_div_factor", final_div_factor, at_least(1),
      "for onecycle: the rate ends at lr / div_factor / final_div_factor");
  }
};

/// A running mean of the weights, kept beside them.
struct AverageOptions {
  double decay = 0;
  double end = -1;
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("decay", decay, range(0, 1),
      "share of the mean that a step keeps; the rest comes from the current weights; 0: no mean is "
      "kept");
    v("end", end, range(-1, 1), "the same at the end, reached by a cosine; -1: it stays the same");
  }
};

/// What an epoch and a batch are made of.
struct BatchingOptions {
  std::int64_t repeat = 1;
  std::int64_t budget = 0;
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("repeat", repeat, at_least(1),
      "how often an epoch has each example, in a row, so that copies share a batch (repeated "
      "augmentation)");
    v("budget", budget, at_least(0),
      "a batch is filled up to this sum of the dataset's costs (nodes, points, tokens); 0: up to "
      "batch_size examples");
  }
};

/// When training ends before its last epoch.
struct EarlyStopOptions {
  std::string metric;
  std::int64_t patience = 0;
  std::string mode = "auto";
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("metric", metric, "metric that is watched; empty: the task's own (accuracy)");
    v("patience", patience, at_least(0),
      "training ends after this many evaluations without a new best (a tie is a new best); 0: "
      "never");
    v("mode", mode, one_of("auto", "max", "min"),
      "whether a larger or a smaller metric is better; auto: by the metric");
  }
};

struct TrainOptions {
  std::int64_t epochs = 10;
  std::int64_t steps = 0;
  std::int64_t batch_size = 128;
  bool drop_last = true;
  std::int64_t eval_batch_size = 256;
  std::int64_t accumulate = 1;
  std::int64_t parts = 1;
  std::int64_t processes = 1;
  std::string recompute = "none";
  std::int64_t zero = 0;
  BatchingOptions batching;
  double clip_norm = 0;
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  AverageOptions average;
  OptionMap<double> attention_losses;
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
  std::string precision = "float32";
  bool deterministic = false;
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("epochs", epochs, at_least(1), "passes over the training split");
    v("steps", steps, at_least(0),
      "total number of steps, in place of `epochs`; 0: as `epochs` says");
    v("batch_size", batch_size, at_least(1), "examples per step");
    v("drop_last", drop_last, "leave out an epoch's last batch if it is not full");
    v("eval_batch_size", eval_batch_size, at_least(1), "examples per batch in evaluation");
    v("accumulate", accumulate, at_least(1),
      "parts that a step's batch is split into, to save memory");
    v("parts", parts, range(1, 4096),
      "parts that a batch is cut into, a power of two; processes share these parts. A run has the "
      "same bits on any number of processes; another number of parts is another run");
    v("processes", processes, counts_for(Role::none, range(1, 4096)),
      "processes on this machine that compute the run together; a power of two that divides "
      "`parts`");
    v("recompute", recompute, counts_for(Role::none, one_of("none", "layers")),
      "layers: each layer keeps only its inputs and is computed again in the backward pass "
      "(activation checkpointing): the same numbers with the memory of one layer, in about a third "
      "more time");
    v("zero", zero, counts_for(Role::none, range(0, 1)),
      "stage of ZeRO, with the same bits. 1: each process keeps the optimiser's moments of its "
      "share of the parameters; 0: each keeps all of them");
    v("batching", batching, "how epochs and batches are formed");
    v("clip_norm", clip_norm, at_least(0), "largest L2 norm of the whole gradient; 0: no clipping");
    v("optimizer", optimizer, counts_for(Role::comparison), "how parameters are updated");
    v("schedule", schedule, counts_for(Role::comparison), "how the learning rate changes");
    v("average", average, "a running mean of the weights, kept beside them");
    v("attention_losses", attention_losses,
      "weights of losses that attention layers add to the task's loss, by the attention's names "
      "for them; the mean over layers counts; 0: only recorded");
    v("protocol", protocol, one_of("last", "sound", "published"),
      "which epoch's model counts: the last; the best on the validation split (sound); the best on "
      "the test split itself, which flatters it (published)");
    v("early_stop", early_stop, "when training ends before its last epoch");
    v("diverged_above", diverged_above, at_least(0),
      "a training loss above this ends the run as diverged; 0: only one that is not finite");
    v("evaluate_every", evaluate_every, at_least(1), "epochs between evaluations");
    v("log_every", log_every, at_least(1), "steps between lines of metrics.jsonl");
    v("tensorboard", tensorboard, counts_for(Role::identity),
      "also write event files for TensorBoard, with the same scalars");
    v("checkpoint_seconds", checkpoint_seconds, at_least(0),
      "seconds between checkpoints, also written before each evaluation and at the end of an "
      "epoch, unless the last one is younger than this or than 30 times its writing time; 0: after "
      "every step");
    v("workers", workers, range(0, 256), "threads that load data; 0: the training thread does");
    v("prefetch", prefetch, range(1, 1024), "batches that are loaded ahead");
    v("threads", threads, range(0, 4096), "threads of tensor operations; 0: all cores");
    v("device", device, one_of("cpu", "cuda"), "where the model runs");
    v("precision", precision, one_of("float32", "tf32", "bfloat16", "float16"),
      "precision of matrix products; all else is float32. tf32 is for GPUs, convolutions included "
      "(before compute capability 8.0 they compute in float32); bfloat16 needs a GPU or a "
      "processor with such products (AVX-512 BF16, ARM BF16); other processors compute in float32 "
      "and say so. float16 scales the loss as PyTorch's GradScaler does; a processor multiplies "
      "its rounded numbers in float32");
    v("deterministic", deterministic, counts_for(Role::none),
      "on a GPU, take only kernels that give the same bits each time, which may be slower; an "
      "operation without such a kernel ends the run. On the CPU runs are deterministic anyway");
  }
};

/// Why so many processes cannot share out so many parts, and what to do; empty: they can.
std::string problem_of_processes(std::int64_t processes, std::int64_t parts);

/// Rules between options of `train`, all that are broken at once.
/// @param resolved  the same options, with their places
/// @param problems  each is appended as "file:line:column: what and the remedy"
void check_train(const TrainOptions& train, const Node& resolved,
                 std::vector<std::string>& problems);

}  // namespace attnlab
