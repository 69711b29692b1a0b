#include "framework/contracts/recompute.h"

#include <ATen/Context.h>
#include <ATen/SequenceNumber.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <unordered_set>

namespace attnlab {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

thread_local RecomputeLayers* innermost = nullptr;

/// LibTorch's default generators as they stand: the processor's, and that of a device.
class RandomState {
 public:
  explicit RandomState(const at::Device& device) {
    keep(at::kCPU);
    if (!device.is_cpu()) keep(device);
  }
  void set() const {
    for (const auto& [kept, state] : states_) {
      at::Generator generator = kept;
      const std::lock_guard<std::mutex> lock(generator.mutex());
      generator.set_state(state);
    }
  }

 private:
  void keep(const at::Device& device) {
    at::Generator generator = at::globalContext().defaultGenerator(device);
    const std::lock_guard<std::mutex> lock(generator.mutex());
    states_.emplace_back(generator, generator.get_state());
  }

  std::vector<std::pair<at::Generator, Tensor>> states_;
};

/// Buffers, each with a value.
using Buffers = std::vector<std::pair<Tensor, Tensor>>;

Buffers buffers_of(const torch::nn::Module& layer) {
  Buffers all;
  for (const Tensor& live : layer.buffers()) {
    if (live.defined()) all.emplace_back(live, live.detach().clone());
  }
  return all;
}

/// Puts values into buffers. @returns those that were there.
Buffers exchange(const Buffers& buffers) {
  const at::NoGradGuard no_gradients;
  Buffers before;
  for (const auto& [live, value] : buffers) {
    before.emplace_back(live, live.detach().clone());
    live.copy_(value);
  }
  return before;
}

/// Has a layer's attentions add their losses here while it lives.
class OwnLosses {
 public:
  /// @param all  of those attentions, too, that add none at present
  OwnLosses(const torch::nn::Module& layer, bool all) {
    for (const auto& module : layer.modules(/*include_self=*/false)) {
      auto attention = std::dynamic_pointer_cast<Attention>(module);
      if (attention == nullptr || (!all && attention->losses() == nullptr)) continue;
      before_.emplace_back(attention, attention->losses());
      attention->add_losses_to(&losses_);
    }
  }
  ~OwnLosses() {
    for (const auto& [attention, losses] : before_) attention->add_losses_to(losses);
  }
  OwnLosses(const OwnLosses&) = delete;
  OwnLosses& operator=(const OwnLosses&) = delete;

  /// Where they are added otherwise; null: nowhere.
  AttentionLosses* others() const { return before_.empty() ? nullptr : before_.front().second; }
  std::vector<std::pair<std::string, Tensor>> added() const {
    std::vector<std::pair<std::string, Tensor>> all;
    for (const auto& [name, values] : losses_.all()) {
      for (const Tensor& value : values) all.emplace_back(name, value);
    }
    return all;
  }

 private:
  AttentionLosses losses_;
  std::vector<std::pair<std::shared_ptr<Attention>, AttentionLosses*>> before_;
};

/// What one pass gives.
struct Given {
  std::vector<Tensor> outputs;
  ForwardState state;
  std::vector<std::pair<std::string, Tensor>> losses;

  /// All tensors, in the same order in every pass.
  std::vector<Tensor*> tensors() {
    std::vector<Tensor*> all;
    for (Tensor& output : outputs) all.push_back(&output);
    state.each([&](Tensor& tensor) { all.push_back(&tensor); });
    for (auto& [name, value] : losses) all.push_back(&value);
    return all;
  }
};

/// The place of a tensor in a list; -1: it is not there.
std::int64_t place_in(const variable_list& list, const Tensor& tensor) {
  const auto found = std::find_if(list.begin(), list.end(),
                                  [&](const Tensor& one) { return one.is_same(tensor); });
  return found == list.end() ? -1 : found - list.begin();
}

/// The place of a tensor in a list, where it is put if it is not there; -1: it is undefined.
std::int64_t put_in(variable_list& list, const Tensor& tensor) {
  if (!tensor.defined()) return -1;
  const std::int64_t place = place_in(list, tensor);
  if (place >= 0) return place;
  list.push_back(tensor);
  return static_cast<std::int64_t>(list.size()) - 1;
}

/// The same numbers, where a graph begins.
variable_list leaves_of(const variable_list& tensors, std::size_t count) {
  variable_list leaves;
  for (std::size_t i = 0; i < count; ++i) {
    leaves.push_back(tensors[i].detach().requires_grad_(tensors[i].requires_grad()));
  }
  return leaves;
}

/// The tensors that a graph of their own leads to.
variable_list with_graph(Given& given, const variable_list& leaves) {
  variable_list all;
  for (const Tensor* tensor : given.tensors()) {
    if (!tensor->defined() || !tensor->requires_grad() || place_in(leaves, *tensor) >= 0) continue;
    all.push_back(*tensor);
  }
  return all;
}

/// Parameters at the ends of a graph, beside its leaves.
/// @param begin  the number of the graph's first node
/// @throws ShapeError where it goes on into another graph.
variable_list parameters_of(const variable_list& outputs, const variable_list& leaves,
                            std::uint64_t begin, const torch::nn::Module& layer) {
  variable_list parameters;
  std::unordered_set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> open;
  const auto visit = [&](torch::autograd::Node* node) {
    if (node == nullptr || !seen.insert(node).second) return;
    if (const auto* end = dynamic_cast<torch::autograd::AccumulateGrad*>(node)) {
      if (place_in(leaves, end->variable) < 0) parameters.push_back(end->variable);
    } else if (node->sequence_nr() < begin) {
      throw ShapeError(fmt::format(
          "{}: the layer reads a tensor with a graph ({}) that is not among its inputs; give it to "
          "`recomputed`, or set train.recompute to none",
          layer.name(), node->name()));
    } else {
      open.push_back(node);
    }
  };
  for (const Tensor& output : outputs) {
    const auto edge = torch::autograd::impl::gradient_edge(output);
    visit(edge.function.get());
  }
  while (!open.empty()) {
    const torch::autograd::Node* node = open.back();
    open.pop_back();
    for (const torch::autograd::Edge& edge : node->next_edges()) visit(edge.function.get());
  }
  return parameters;
}

/// A layer's pass, and what it began with.
class KeptPass : public torch::CustomClassHolder {
 public:
  /// @param given  the tensors that it began with, each once, are put here
  KeptPass(const torch::nn::Module& layer, const std::vector<Tensor>& inputs,
           const AttentionContext& context, LayerPass pass, variable_list& given)
      : layer_(layer), pass_(std::move(pass)), number_(context.layer) {
    for (const Tensor& input : inputs) inputs_.push_back(put_in(given, input));
    if (context.state != nullptr) {
      state_ = *context.state;
      state_->each([&](Tensor& tensor) {
        of_state_.push_back(put_in(given, tensor));
        tensor = Tensor();
      });
    }
    given_ = given.size();
    random_.emplace(given.empty() ? at::Device(at::kCPU) : given.front().device());
  }

  /// The first pass.
  /// @param losses  where its attentions add losses; null: nowhere
  Given first(const variable_list& leaves, AttentionLosses*& losses) {
    const Buffers before = buffers_of(layer_);
    OwnLosses own(layer_, /*all=*/false);
    losses = own.others();
    adds_losses_ = losses != nullptr;
    Given given = run(leaves);
    given.losses = own.added();
    for (const auto& [live, value] : before) {
      if (!live.equal(value)) buffers_.emplace_back(live, value);
    }
    return given;
  }

  /// @param saved      the tensors that the pass began with, and parameters
  /// @param gradients  of the tensors with a graph that the pass gave; undefined: 0
  /// @returns those of `saved`.
  variable_list gradients(const variable_list& saved, const variable_list& gradients) const {
    const RecomputeLayers once(false);
    const variable_list leaves = leaves_of(saved, given_);
    const Buffers now = exchange(buffers_);
    variable_list all;
    {
      const at::AutoGradMode with_gradients(true);
      const RandomState random(leaves.empty() ? at::Device(at::kCPU) : leaves.front().device());
      random_->set();
      std::optional<OwnLosses> own;
      if (adds_losses_) own.emplace(layer_, /*all=*/true);
      Given given = run(leaves);
      if (own) given.losses = own->added();
      all = with_graph(given, leaves);
      random.set();
    }
    if (all.size() != gradients.size()) {
      throw ShapeError(
          fmt::format("{}: the layer gave {} tensors with a graph, and {} when it was computed "
                      "again; set train.recompute to none",
                      layer_.name(), gradients.size(), all.size()));
    }
    variable_list roots, of_roots, ends = leaves;
    ends.insert(ends.end(), saved.begin() + std::int64_t(given_), saved.end());
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!gradients[i].defined()) continue;
      roots.push_back(all[i]);
      of_roots.push_back(gradients[i]);
    }
    all.clear();
    variable_list found = gradients_at(roots, of_roots, ends);
    exchange(now);
    return found;
  }

  variable_list results;  ///< of the first pass, until they have left

 private:
  Given run(const variable_list& leaves) const {
    const auto leaf = [&](std::int64_t place) {
      return place < 0 ? Tensor() : leaves[static_cast<std::size_t>(place)];
    };
    Given given;
    if (state_) {
      given.state = *state_;
      std::size_t next = 0;
      given.state.each([&](Tensor& tensor) { tensor = leaf(of_state_[next++]); });
    }
    std::vector<Tensor> inputs;
    for (const std::int64_t place : inputs_) inputs.push_back(leaf(place));
    AttentionContext context{number_, state_ ? &given.state : nullptr};
    given.outputs = pass_(inputs, context);
    return given;
  }

  /// By each of `ends`; undefined where there is none.
  static variable_list gradients_at(const variable_list& roots, const variable_list& of_roots,
                                    const variable_list& ends) {
    variable_list wanted;
    for (const Tensor& end : ends) {
      if (end.requires_grad()) wanted.push_back(end);
    }
    variable_list all(ends.size());
    if (roots.empty() || wanted.empty()) return all;
    const variable_list found =
        torch::autograd::grad(roots, wanted, of_roots, /*retain_graph=*/false,
                              /*create_graph=*/false, /*allow_unused=*/true);
    for (std::size_t i = 0, next = 0; i < ends.size(); ++i) {
      if (ends[i].requires_grad()) all[i] = found[next++];
    }
    return all;
  }

  const torch::nn::Module& layer_;
  LayerPass pass_;
  std::int64_t number_;
  std::optional<ForwardState> state_;  ///< without tensors
  std::vector<std::int64_t> inputs_, of_state_;
  std::size_t given_ = 0;
  std::optional<RandomState> random_;
  Buffers buffers_;  ///< those that the pass changed, as they were
  bool adds_losses_ = false;
};

class ComputedAgain : public torch::autograd::Function<ComputedAgain> {
 public:
  static variable_list forward(AutogradContext* context, at::TensorList saved,
                               const c10::intrusive_ptr<KeptPass>& pass) {
    context->set_materialize_grads(false);
    context->save_for_backward(saved.vec());
    context->saved_data["pass"] = c10::IValue::make_capsule(pass);
    return std::exchange(pass->results, {});
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (at::GradMode::is_enabled()) {
      throw ConfigError(
          "train.recompute: layers that are computed again have no gradients of gradients; set it "
          "to none");
    }
    const auto pass =
        c10::static_intrusive_pointer_cast<KeptPass>(context->saved_data.at("pass").toCapsule());
    variable_list all = pass->gradients(context->get_saved_variables(), gradients);
    all.emplace_back();  // of the pass
    return all;
  }
};

}  // namespace

RecomputeLayers::RecomputeLayers(bool on) : on_(on), outer_(std::exchange(innermost, this)) {}
RecomputeLayers::~RecomputeLayers() { innermost = outer_; }

std::vector<Tensor> recomputed(const torch::nn::Module& layer, const std::vector<Tensor>& inputs,
                               AttentionContext& context, const LayerPass& pass) {
  if (innermost == nullptr || !innermost->on_ || !at::GradMode::is_enabled() ||
      context.trace != nullptr || context.losses != nullptr) {
    return pass(inputs, context);
  }
  ++innermost->count_;
  const RecomputeLayers once(false);
  variable_list saved;
  const auto kept = c10::make_intrusive<KeptPass>(layer, inputs, context, pass, saved);
  const variable_list given_tensors = saved;
  const variable_list leaves = leaves_of(given_tensors, given_tensors.size());
  const std::uint64_t begin = at::sequence_number::peek();
  AttentionLosses* losses = nullptr;
  // With a graph, so that both passes choose the same kernels; it ends with this function.
  Given given = kept->first(leaves, losses);
  const variable_list results = with_graph(given, leaves);
  for (const Tensor& parameter : parameters_of(results, leaves, begin, layer)) {
    saved.push_back(parameter);
  }
  for (const Tensor& result : results) kept->results.push_back(result.variable_data());
  variable_list linked;
  if (!results.empty()) linked = ComputedAgain::apply(at::TensorList(saved), kept);
  for (Tensor* tensor : given.tensors()) {
    if (!tensor->defined()) continue;
    const std::int64_t leaf = place_in(leaves, *tensor);
    const std::int64_t result = place_in(results, *tensor);
    if (leaf >= 0) {
      *tensor = given_tensors[static_cast<std::size_t>(leaf)];
    } else if (result >= 0) {
      *tensor = linked[static_cast<std::size_t>(result)];
    }
  }
  if (context.state != nullptr) *context.state = std::move(given.state);
  for (const auto& [name, value] : given.losses) losses->add(name, value);
  return given.outputs;
}

}  // namespace attnlab
