// The optimiser of a run: an update rule (update_rules.h) over named parameters, each with a
// learning rate, weight decay and epochs of its own where parameter groups say so
// (parameter_groups.h). What it remembers may lie in shares with the processes of a run
// (optimizer_shares.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/contracts/trainable.h"
#include "framework/experiment/train_options.h"
#include "framework/train/optimizer_shares.h"
#include "framework/train/schedule.h"
#include "framework/train/update_rules.h"

namespace attnlab {

struct OptimizerSettings {
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  UpdateRule rule = UpdateRule::adamw;
  double momentum = 0;
  bool nesterov = false;
  double max_gradient_norm = 0;  ///< gradients above are scaled down to it, all together; 0: never
};

/// A parameter by its name in the model ("task.NAME" for the task's), and how it is trained.
struct OptimizedParameter {
  std::string name;
  Tensor parameter;
  bool decays = true;       ///< whether weight decay applies to it
  std::int64_t depth = -1;  ///< as `Trainable::depth`
  // What groups and layer decay make of it (`apply_groups`).
  double lr_scale = 1;
  std::optional<double> weight_decay{};  ///< instead of the optimiser's
  std::int64_t first_epoch = 0;          ///< frozen before
  std::int64_t end_epoch = -1;           ///< frozen from here on; -1: never
};

class Optimizer {
 public:
  /// @param parameters  floating-point leaves; they share storage with the model's.
  /// @param world       processes that remember a share each; null: this one remembers all. All of
  ///                    them call `step`, and `write_checkpoint` or `hand_over`, together.
  /// @throws ConfigError for settings without meaning, ShapeError for a parameter that is not a
  ///         floating-point tensor, or a name that stands twice.
  Optimizer(std::vector<OptimizedParameter> parameters, const OptimizerSettings& settings,
            std::shared_ptr<World> world = nullptr);

  /// What changes from step to step. Without it every step is one of epoch 0, with the settings'
  /// learning rate and weight decay. A frozen parameter is left as if it had no gradient.
  void set_pace(const Pace& pace) { pace_ = pace; }
  void set_learning_rate(double learning_rate) { pace_.learning_rate = learning_rate; }
  double learning_rate() const { return pace_.learning_rate; }

  /// L2 norm of all gradients together, summed in double; not finite when a gradient is not.
  /// Gradients of frozen parameters do not count.
  double gradient_norm() const;

  /// One update. Parameters without a gradient stay as they are, and so does what is remembered of
  /// them.
  /// @param factor  multiplies every gradient: clipping (`clip_factor`), accumulation.
  /// @throws WorldError with shares, where another process is gone: then the parameters are of no
  /// step.
  void step(double factor = 1.0);
  /// Forgets all gradients (they become undefined).
  void zero_grad();

  /// Updates made so far.
  std::int64_t steps() const { return steps_; }

  /// `step` [] int64, and of every parameter `step.NAME` [] int64, its own updates, and in its
  /// shape `exp_avg.NAME` and `exp_avg_sq.NAME`, or `momentum_buffer.NAME` of SGD with momentum.
  /// What is remembered is the optimiser's own tensors, not copies; what other processes have a
  /// part of is of the device `meta`, without numbers.
  NamedTensors state() const;
  /// Whether this process remembers all by itself.
  bool is_whole() const { return !shares_; }
  /// In process 0, while the others are in `hand_over`: such a tensor of the state, by its name, on
  /// the CPU. @throws WorldError.
  Tensor collect(const std::string& name) const;
  /// In process 0: lets the others go on.
  void end_collecting() const;
  /// In the others: gives process 0 what it asks for, until it has all. @throws WorldError.
  void hand_over() const;
  /// Copies a state in; with shares, this process's. Nothing is changed when it does not fit.
  /// @throws DataError naming every entry that is missing, of another shape or dtype, or unknown.
  void load_state(const NamedTensors& state);

 private:
  /// A parameter with what is remembered of it.
  struct Item {
    OptimizedParameter given;
    ParameterShare own{};        ///< of its numbers, what this process remembers and updates
    Tensor average{}, square{};  ///< undefined where the rule has none; [own.size] of a piece
    std::int64_t steps = 0;

    const Tensor& gradient() const { return given.parameter.grad(); }
    bool is_whole() const { return own.size == given.parameter.numel(); }
    /// Of a tensor like the parameter: what goes with `average` and `square`.
    Tensor part(const Tensor& tensor) const {
      return is_whole() ? tensor : own.of(tensor.detach());
    }
  };

  void share_out(std::shared_ptr<World> world);

  /// Whether the item has a gradient to be updated by.
  bool moves(const Item& item) const;
  /// The names under which a state holds what is remembered of an item.
  std::vector<std::pair<std::string, Tensor>> memory_of(const Item& item) const;

  /// What process 0 wants: the parts of a tensor of the state. @returns as OptimizerShares::whole
  Tensor joined(const std::string& name) const;

  std::vector<Item> items_;
  std::optional<OptimizerShares> shares_;  ///< nothing: all is here
  RuleSettings rule_;
  double max_gradient_norm_ = 0;
  Pace pace_;
  std::int64_t steps_ = 0;
};

/// The parameters of a module that take gradients, with what it says of them.
/// @param prefix  before their names: "task." for a task's
std::vector<OptimizedParameter> trained_parameters(const Trainable& module,
                                                   const std::string& prefix = "");

/// The optimiser that a composition asks for.
/// @param parameters  with names, depths and whether they decay; groups are applied to them.
/// @param world       as `Optimizer`
/// @throws ConfigError as `Optimizer` and `apply_groups`.
Optimizer make_optimizer(std::vector<OptimizedParameter> parameters,
                         const OptimizerOptions& options, std::shared_ptr<World> world = nullptr);
/// The same, over all parameters of a model that take gradients.
Optimizer make_optimizer(const Trainable& model, const OptimizerOptions& options);
/// Makes none: what is wrong with the options is thrown, and no memory is taken.
void check_optimizer(std::vector<OptimizedParameter> parameters, const OptimizerOptions& options);

/// The factor that brings gradients of norm `norm` down to `max_norm`: min(1, max_norm / (norm +
/// 1e-6)), as torch's clip_grad_norm_. 1 when max_norm is 0 (no clipping).
double clip_factor(double norm, double max_norm);

}  // namespace attnlab
