#include "framework/train/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "framework/base/text.h"
#include "framework/train/parameter_groups.h"

namespace attnlab {
namespace {

using Problems = std::vector<std::string>;

void check(const OptimizerSettings& s) {
  Problems problems;
  const auto need = [&](const char* name, double value, bool good, const char* what) {
    if (!good) problems.push_back(fmt::format("{}: {} is not {}", name, shortest(value), what));
  };
  const auto decay_of_mean = [](double beta) { return beta >= 0 && beta < 1; };
  need("lr", s.learning_rate, s.learning_rate >= 0, "at least 0");
  need("beta1", s.beta1, decay_of_mean(s.beta1), "in [0, 1)");
  need("beta2", s.beta2, decay_of_mean(s.beta2), "in [0, 1)");
  need("eps", s.epsilon, s.epsilon >= 0, "at least 0");
  need("weight_decay", s.weight_decay, s.weight_decay >= 0, "at least 0");
  need("momentum", s.momentum, decay_of_mean(s.momentum), "in [0, 1)");
  need("max_grad_norm", s.max_gradient_norm, s.max_gradient_norm >= 0, "at least 0");
  if (!problems.empty()) throw ConfigError(problems);
}

/// Says what is wrong with an entry of a saved state, or nothing.
std::string misfit(const std::string& name, const Tensor* found, const Tensor& expected) {
  if (found == nullptr) return name + ": missing";
  if (found->defined() && found->sizes() == expected.sizes() &&
      found->scalar_type() == expected.scalar_type()) {
    const bool counts = expected.scalar_type() == at::kLong;
    constexpr std::int64_t kMost = std::int64_t{1} << 53;  // no run does so many
    if (!counts || (found->item<std::int64_t>() >= 0 && found->item<std::int64_t>() < kMost)) {
      return "";
    }
    return fmt::format("{}: {} updates", name, found->item<std::int64_t>());
  }
  return fmt::format("{}: {}, expected {}", name, describe(*found), describe(expected));
}

UpdateRule rule_of(const std::string& name) {
  if (name == "adamw") return UpdateRule::adamw;
  if (name == "radam") return UpdateRule::radam;
  if (name == "adam") return UpdateRule::adam;
  if (name == "sgd") return UpdateRule::sgd;
  if (name == "lamb") return UpdateRule::lamb;
  throw ConfigError(fmt::format("train.optimizer.use: there is no optimiser '{}'", name));
}

}  // namespace

Optimizer::Optimizer(std::vector<OptimizedParameter> parameters, const OptimizerSettings& settings,
                     std::shared_ptr<World> world)
    : rule_{.rule = settings.rule,
            .beta1 = settings.beta1,
            .beta2 = settings.beta2,
            .epsilon = settings.epsilon,
            .momentum = settings.momentum,
            .nesterov = settings.nesterov},
      max_gradient_norm_(settings.max_gradient_norm),
      pace_{.learning_rate = settings.learning_rate, .weight_decay = settings.weight_decay} {
  check(settings);
  std::set<std::string> names;
  for (OptimizedParameter& given : parameters) {
    if (!given.parameter.defined() || !given.parameter.is_floating_point()) {
      throw ShapeError(
          fmt::format("optimiser: parameter '{}' is {}, expected a floating-point tensor",
                      given.name, describe(given.parameter)));
    }
    if (!names.insert(given.name).second) {
      throw ShapeError(fmt::format("optimiser: two parameters are called '{}'", given.name));
    }
    Item item{.given = std::move(given)};
    item.own.size = item.given.parameter.numel();
    items_.push_back(std::move(item));
  }
  if (world != nullptr && world->size() > 1) share_out(std::move(world));
  const bool sgd = settings.rule == UpdateRule::sgd;
  for (Item& item : items_) {
    const Tensor data = item.part(item.given.parameter.detach());
    if (!sgd || settings.momentum > 0) item.average = at::zeros_like(data);
    if (!sgd) item.square = at::zeros_like(data);
  }
}

/// LAMB looks at the norms of whole parameters. Parameters that are not float32 in plain memory are
/// updated by tensor operations, whose last digits may depend on where a tensor begins.
void Optimizer::share_out(std::shared_ptr<World> world) {
  std::vector<SharedParameter> parameters;
  parameters.reserve(items_.size());
  for (const Item& item : items_) {
    const Tensor& parameter = item.given.parameter;
    parameters.push_back({.length = parameter.numel(),
                          .whole = rule_.rule == UpdateRule::lamb || !is_plain_float(parameter)});
  }
  shares_.emplace(std::move(world), parameters);
  for (std::size_t i = 0; i < items_.size(); ++i) items_[i].own = shares_->own(i);
}

bool Optimizer::moves(const Item& item) const {
  const OptimizedParameter& given = item.given;
  const bool frozen =
      pace_.epoch < given.first_epoch || (given.end_epoch >= 0 && pace_.epoch >= given.end_epoch);
  return !frozen && item.gradient().defined();
}

double Optimizer::gradient_norm() const {
  std::vector<Tensor> gradients;
  gradients.reserve(items_.size());
  for (const Item& item : items_) {
    if (moves(item)) gradients.push_back(item.gradient());
  }
  return norm_of(gradients);
}

void Optimizer::step(double factor) {
  if (max_gradient_norm_ > 0) {
    const double norm = factor * gradient_norm();
    if (norm > max_gradient_norm_) factor *= max_gradient_norm_ / norm;
  }
  ++steps_;
  std::vector<ParameterUpdate> updates;
  updates.reserve(items_.size());
  std::vector<std::size_t> moved;
  std::vector<Tensor> parameters;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    Item& item = items_[i];
    if (!moves(item)) continue;
    const OptimizedParameter& given = item.given;
    moved.push_back(i);
    parameters.push_back(given.parameter);
    ++item.steps;
    if (item.own.size == 0) continue;
    updates.push_back(
        {.parameter = item.part(given.parameter),
         .gradient = item.part(item.gradient()),
         .average = item.average,
         .square = item.square,
         .learning_rate = pace_.learning_rate * given.lr_scale,
         .weight_decay = given.decays ? given.weight_decay.value_or(pace_.weight_decay) : 0,
         .step = item.steps});
  }
  apply_updates(rule_, updates, factor);
  if (shares_) shares_->spread(moved, parameters);
}

void Optimizer::zero_grad() {
  for (Item& item : items_) item.given.parameter.mutable_grad() = Tensor();
}

std::vector<std::pair<std::string, Tensor>> Optimizer::memory_of(const Item& item) const {
  const std::string& name = item.given.name;
  const bool sgd = rule_.rule == UpdateRule::sgd;
  std::vector<std::pair<std::string, Tensor>> memory;
  if (item.average.defined()) {
    memory.emplace_back((sgd ? "momentum_buffer." : "exp_avg.") + name, item.average);
  }
  if (item.square.defined()) memory.emplace_back("exp_avg_sq." + name, item.square);
  return memory;
}

NamedTensors Optimizer::state() const {
  NamedTensors state;
  state.set("step", at::scalar_tensor(steps_, at::kLong));
  for (const Item& item : items_) {
    state.set("step." + item.given.name, at::scalar_tensor(item.steps, at::kLong));
    const Tensor& like = item.given.parameter;
    for (const auto& [name, tensor] : memory_of(item)) {
      const auto options = tensor.options().device(at::kMeta);
      state.set(name, item.is_whole() ? tensor : at::empty(like.sizes(), options));
    }
  }
  return state;
}

Tensor Optimizer::joined(const std::string& name) const {
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (!name.ends_with(items_[i].given.name)) continue;
    for (const auto& [own, tensor] : memory_of(items_[i])) {
      if (own == name) return shares_->whole(i, tensor, items_[i].given.parameter);
    }
  }
  throw Error("optimiser: remembers no " + name);
}

Tensor Optimizer::collect(const std::string& name) const {
  shares_->world().gather(name);
  return joined(name);
}

void Optimizer::end_collecting() const {
  if (shares_) shares_->world().gather("");
}

void Optimizer::hand_over() const {
  if (!shares_) return;
  for (std::string wanted = shares_->world().gather("").front(); !wanted.empty();
       wanted = shares_->world().gather("").front()) {
    joined(wanted);
  }
}

void Optimizer::load_state(const NamedTensors& state) {
  const at::NoGradGuard no_gradients;
  const NamedTensors own = this->state();
  Problems problems;
  for (const auto& [name, tensor] : own) {
    const std::string problem = misfit(name, state.find(name), tensor);
    if (!problem.empty()) problems.push_back(problem);
  }
  for (const auto& [name, tensor] : state) {
    if (own.find(name) == nullptr) problems.push_back(name + ": no parameter of that name");
  }
  if (!problems.empty()) {
    throw DataError("the optimiser's state does not fit this model:\n  " + join(problems, "\n  "));
  }
  for (Item& item : items_) {
    item.steps = state.at("step." + item.given.name).item<std::int64_t>();
    for (const auto& [name, tensor] : memory_of(item)) tensor.copy_(item.part(state.at(name)));
  }
  steps_ = state.at("step").item<std::int64_t>();
}

namespace {

OptimizerSettings settings_of(const OptimizerOptions& options) {
  OptimizerSettings settings;
  settings.learning_rate = options.lr;
  settings.beta1 = options.beta1;
  settings.beta2 = options.beta2;
  settings.epsilon = options.eps;
  settings.weight_decay = options.weight_decay;
  settings.rule = rule_of(options.use);
  settings.momentum = options.momentum;
  settings.nesterov = options.nesterov;
  if (settings.rule == UpdateRule::lamb) settings.max_gradient_norm = options.max_grad_norm;
  return settings;
}

}  // namespace

Optimizer make_optimizer(std::vector<OptimizedParameter> parameters,
                         const OptimizerOptions& options, std::shared_ptr<World> world) {
  apply_groups(parameters, options);
  return {std::move(parameters), settings_of(options), std::move(world)};
}

void check_optimizer(std::vector<OptimizedParameter> parameters, const OptimizerOptions& options) {
  apply_groups(parameters, options);
  check(settings_of(options));
}

std::vector<OptimizedParameter> trained_parameters(const Trainable& module,
                                                   const std::string& prefix) {
  std::vector<OptimizedParameter> parameters;
  for (const auto& item : module.named_parameters()) {
    const std::string& name = item.key();
    if (!item.value().requires_grad()) continue;
    parameters.push_back(
        {prefix + name, item.value(), module.decays(name, item.value()), module.depth(name)});
  }
  return parameters;
}

Optimizer make_optimizer(const Trainable& model, const OptimizerOptions& options) {
  return make_optimizer(trained_parameters(model), options);
}

double clip_factor(double norm, double max_norm) {
  if (max_norm <= 0) return 1.0;
  return std::min(1.0, max_norm / (norm + 1e-6));
}

}  // namespace attnlab
