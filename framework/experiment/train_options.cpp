#include "framework/experiment/train_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "framework/base/power_of_two.h"
#include "framework/base/text.h"
#include "framework/config/problems.h"
#include "framework/experiment/identity.h"
#include "framework/manifest/option_lookup.h"

namespace attnlab {
namespace {

using Words = std::vector<std::string>;

/// An option that only some choices of another one read.
struct Reader {
  std::string option;
  Words choices;
};

const std::vector<Reader> kOptimizerReaders = {{"beta1", {"adamw", "radam", "adam", "lamb"}},
                                               {"beta2", {"adamw", "radam", "adam", "lamb"}},
                                               {"eps", {"adamw", "radam", "adam", "lamb"}},
                                               {"momentum", {"sgd"}},
                                               {"nesterov", {"sgd"}},
                                               {"max_grad_norm", {"lamb"}}};

// Floor and warm-up's start are not among them: base files give both for whatever shape comes.
const std::vector<Reader> kScheduleReaders = {
    {"milestones", {"step"}},    {"gamma", {"step"}},          {"power", {"polynomial"}},
    {"pct_start", {"onecycle"}}, {"div_factor", {"onecycle"}}, {"final_div_factor", {"onecycle"}}};

/// The smallest power of two that is at least as large.
std::int64_t power_from(std::int64_t number) {
  std::int64_t power = 1;
  while (power < number) power *= 2;
  return power;
}

class Checker {
 public:
  Checker(const TrainOptions& train, const Node& resolved, Words& problems)
      : train_(train), resolved_(resolved), problems_(problems) {}

  void run() {
    check_sizes();
    check_batches();
    check_optimizer();
    for (const auto& [name, group] : train_.optimizer.groups) check_group(name, group);
    check_schedule();
    check_warmup();
    check_average();
    check_attention_losses();
    if (train_.protocol == "last") check_early_stop();
  }

 private:
  /// @param key  below `train`: "optimizer.lr"
  void add(const std::string& key, const std::string& what) {
    const Node* node = &resolved_;
    for (std::size_t begin = 0; begin <= key.size();) {
      const std::size_t end = std::min(key.find('.', begin), key.size());
      node = &node->at(key.substr(begin, end - begin));
      begin = end + 1;
    }
    add_problem(problems_, node->place(), fmt::format("train.{}: {}", key, what));
  }

  const Node& given(const std::string& section, const std::string& option) const {
    return resolved_.at(section).at(option);
  }

  /// What is set and never read would be believed to count.
  void check_readers(const std::string& section, const std::string& chosen, const Schema& schema,
                     const std::vector<Reader>& readers) {
    for (const auto& [option, choices] : readers) {
      if (std::find(choices.begin(), choices.end(), chosen) != choices.end()) continue;
      const OptionSpec& spec = *find_option(schema, option);
      if (canonical_text(given(section, option)) == canonical_text(spec.default_value)) continue;
      add(fmt::format("{}.{}", section, option),
          fmt::format("'{}' does not read it, only {}; leave it out, or choose one of these",
                      chosen, join(choices, ", ")));
    }
  }

  /// Negative stands for "as elsewhere"; a negative number that is not -1 is a slip.
  void check_inherited(const std::string& key, double value) {
    if (value >= 0 || value == -1) return;
    add(key, shortest(value) + " is neither -1 nor at least 0");
  }

  /// What is multiplied with sizes of data must not overflow.
  void check_sizes() {
    constexpr std::int64_t kMost = 1'000'000'000;
    const std::pair<const char*, std::int64_t> sizes[] = {
        {"epochs", train_.epochs},
        {"steps", train_.steps},
        {"batch_size", train_.batch_size},
        {"eval_batch_size", train_.eval_batch_size},
        {"batching.repeat", train_.batching.repeat},
        {"batching.budget", train_.batching.budget},
        {"evaluate_every", train_.evaluate_every},
        {"schedule.warmup_steps", train_.schedule.warmup_steps}};
    for (const auto& [key, size] : sizes) {
      if (size > kMost) add(key, fmt::format("{} is more than {}", size, kMost));
    }
    const auto check_epochs = [&](const char* key, double epochs) {
      if (epochs > static_cast<double>(kMost)) {
        add(key, fmt::format("{} is more than {}", shortest(epochs), kMost));
      }
    };
    const ScheduleOptions& schedule = train_.schedule;
    check_epochs("schedule.warmup_epochs", schedule.warmup_epochs);
    for (const double drop : schedule.milestones) check_epochs("schedule.milestones", drop);
  }

  void check_batches() {
    check_parts();
    if (train_.batch_size % train_.accumulate == 0) return;
    add("accumulate",
        fmt::format("{} does not divide train.batch_size {}", resolved_.at("accumulate").text(),
                    resolved_.at("batch_size").text()));
  }

  /// What other processes compute must not depend on which process it is.
  void check_parts() {
    const std::int64_t parts = train_.parts, processes = train_.processes;
    if (!is_power_of_two(parts)) {
      add("parts", fmt::format("{} is not a power of two; take 1, 2, 4, 8, ...", parts));
    } else if (parts > 1 && train_.accumulate > 1) {
      add("parts",
          "train.accumulate cuts the batch, too; set that to 1: a process takes its parts one "
          "after the other");
    } else if (parts > 1 && train_.batching.budget == 0 && train_.batch_size < parts) {
      add("parts", fmt::format("{} is more than train.batch_size {}; take fewer parts, or a larger "
                               "batch",
                               parts, train_.batch_size));
    } else if (const std::string wrong = problem_of_processes(processes, parts); !wrong.empty()) {
      add("processes", wrong);
    }
  }

  void check_optimizer() {
    const OptimizerOptions& optimizer = train_.optimizer;
    check_readers("optimizer", optimizer.use, schema_of<OptimizerOptions>(), kOptimizerReaders);
    check_inherited("optimizer.weight_decay_end", optimizer.weight_decay_end);
    if (optimizer.use == "sgd" && optimizer.nesterov && optimizer.momentum == 0) {
      add("optimizer.nesterov", "needs momentum; set train.optimizer.momentum above 0");
    }
  }

  void check_group(const std::string& name, const ParameterGroupOptions& group) {
    const std::string key = fmt::format("optimizer.groups.{}.", name);
    if (group.match.empty()) {
      add(key + "match", "names no parameters; write patterns like [\"backbone.*\"]");
    }
    check_inherited(key + "weight_decay", group.weight_decay);
    const std::vector<std::int64_t>& epochs = group.epochs;
    if (epochs.size() != 2) {
      add(key + "epochs", "expected two numbers, [first, end)");
    } else if (epochs[0] < 0) {
      add(key + "epochs", "the first epoch is 0");
    } else if (epochs[1] != -1 && epochs[1] <= epochs[0]) {
      add(key + "epochs", fmt::format("holds no epoch: the end, {}, is not above the first, {}",
                                      epochs[1], epochs[0]));
    }
  }

  void check_schedule() {
    const ScheduleOptions& schedule = train_.schedule;
    check_readers("schedule", schedule.shape, schema_of<ScheduleOptions>(), kScheduleReaders);
    if (schedule.shape != "step") return;
    const std::vector<double>& drops = schedule.milestones;
    if (drops.empty()) {
      add("schedule.milestones", "'step' needs epochs at which the learning rate drops: [60, 80]");
    } else if (std::adjacent_find(drops.begin(), drops.end(), std::greater_equal<>()) !=
               drops.end()) {
      add("schedule.milestones", "expected epochs in rising order");
    }
  }

  void check_warmup() {
    const ScheduleOptions& schedule = train_.schedule;
    const bool by_epochs = schedule.warmup_epochs > 0, by_steps = schedule.warmup_steps > 0;
    const std::string key = by_steps ? "schedule.warmup_steps" : "schedule.warmup_epochs";
    if (by_epochs && by_steps) {
      add(key, "train.schedule.warmup_epochs is given too; set one of them to 0");
    }
    const double otherwise = ScheduleOptions().pct_start;
    if (schedule.shape == "onecycle" && (by_epochs || by_steps) &&
        schedule.pct_start != otherwise) {
      add(key, "train.schedule.pct_start says how long 'onecycle' rises, too; set one of the two");
    }
    if (schedule.shape == "inverse_root" && !by_epochs && !by_steps) {
      add("schedule.shape",
          "'inverse_root' falls from the end of the warm-up on; set "
          "train.schedule.warmup_steps or warmup_epochs");
    }
  }

  void check_average() {
    check_inherited("average.end", train_.average.end);
    if (train_.average.decay == 0 && train_.average.end >= 0) {
      add("average.end", "no mean is kept without train.average.decay; set that too");
    }
  }

  void check_attention_losses() {
    for (const auto& [name, weight] : train_.attention_losses) {
      if (!std::isfinite(weight)) {
        add("attention_losses." + name, shortest(weight) + " is not finite");
      }
    }
  }

  void check_early_stop() {
    if (train_.early_stop.patience > 0) {
      add("early_stop.patience",
          "needs a split that epochs are judged by; set train.protocol to sound (validation) or "
          "published (test)");
    }
    if (!train_.early_stop.metric.empty()) {
      add("early_stop.metric",
          "with train.protocol: last no epoch is judged; set train.protocol to sound or published, "
          "or leave the metric out");
    }
  }

  const TrainOptions& train_;
  const Node& resolved_;
  Words& problems_;
};

}  // namespace

std::string problem_of_processes(std::int64_t processes, std::int64_t parts) {
  if (is_power_of_two(processes) && parts % processes == 0) return "";
  return fmt::format(
      "{} processes cannot share train.parts {}: a power of two is needed that divides it; take "
      "another number, or set train.parts: {} (which is another run)",
      processes, parts, power_from(processes));
}

void check_train(const TrainOptions& train, const Node& resolved, Words& problems) {
  Checker(train, resolved, problems).run();
}

}  // namespace attnlab
