// Attentions in Python files: a class that is a torch.nn.Module becomes an attention of the lab.
// Models and datasets: model.cpp, dataset.cpp.
//
// The module's parameters and buffers are this one's, the very same tensors, so that training,
// checkpoints, moves and means are what they are for C++; autograd is one for both. The class gets
// by name what its constructor and its `forward` ask for; the traits are what `forward` takes
// (python/attnlab/_plugin_file.py). Cost: Python's own, and some microseconds a call.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <vector>

#include "framework/nn/attention/dot_product_attention.h"
#include "framework/plugin.h"
#include "plugins/python/parts.h"

namespace attnlab::python {
namespace {

// ---- what a class says of itself, and its options

/// What `attnlab._host.read` gives, kept beside the object that it is of.
struct Said {
  Shared all;  ///< the whole dictionary
  AttentionTraits traits;
  std::vector<std::string> inputs;  ///< what forward takes behind q, k and v
  bool couples_queries = false, reads_order = false;
  std::string where;  ///< of forward: "mine.py:12"
  std::string name;   ///< the class
};

/// Reads the traits by name into the struct.
AttentionTraits traits_of(const std::map<std::string, bool>& said) {
  AttentionTraits traits;
  const std::map<std::string_view, bool AttentionTraits::*> members = {
      {"bias", &AttentionTraits::bias},
      {"causal", &AttentionTraits::causal},
      {"window", &AttentionTraits::window},
      {"pair_mask", &AttentionTraits::pair_mask},
      {"padding", &AttentionTraits::padding},
      {"different_lengths", &AttentionTraits::different_lengths},
      {"different_source", &AttentionTraits::different_source},
      {"relative_positions", &AttentionTraits::relative_positions},
      {"second_order", &AttentionTraits::second_order},
      {"linear_cost", &AttentionTraits::linear_cost},
      {"sources", &AttentionTraits::sources},
      {"ordered", &AttentionTraits::ordered},
      {"places", &AttentionTraits::places}};
  for (const auto& [name, member] : members) {
    const auto found = said.find(std::string(name));
    traits.*member = found != said.end() && found->second;
  }
  return traits;
}

Said read_attention(const std::string& file, const std::string& name) {
  const py::object all = read_class(file, name, Kind::attention);
  Said said;
  said.traits = traits_of(all["traits"].cast<std::map<std::string, bool>>());
  said.inputs = all["inputs"].cast<std::vector<std::string>>();
  said.couples_queries = all["beside"]["couples_queries"].cast<bool>();
  said.reads_order = all["beside"]["reads_order"].cast<bool>();
  said.name = all["class"].cast<std::string>();
  said.where = fmt::format("{}:{}", file, all["forward_line"].cast<int>());
  said.all = shared(all);
  return said;
}

py::dict dictionary_of(const AttentionShape& shape) {
  py::dict all;
  all["heads"] = shape.heads;
  all["head_dim"] = shape.head_dim;
  all["value_dim"] = shape.values();
  all["layer"] = shape.layer;
  all["layers"] = shape.layers;
  all["dropout"] = shape.dropout;
  all["query_width"] = shape.query_width;
  all["key_width"] = shape.key_width;
  all["value_width"] = shape.value_width;
  return all;
}

// ---- what forward takes

/// The dictionary `state` that the layers of one pass share.
struct State {
  Shared dictionary;
};

/// The pairs that a query may see, [B or 1, H or 1, Lq, Lk] bool; None: every query sees every key.
py::object visible_of(const AttentionInput& in) {
  Tensor pairs = visible_pairs(in.visible, in.query_count(), in.key_count(), in.queries.device());
  if (!pairs.defined()) return py::none();
  while (pairs.dim() < 4) pairs = pairs.unsqueeze(0);
  return to_python(pairs.expand({-1, -1, in.query_count(), in.key_count()}));
}

py::object relative_of(const AttentionInput& in) {
  static const py::handle kRelative = host("relative");
  if (!in.relative.defined()) return py::none();
  return kRelative(to_python(in.relative.keys), to_python(in.relative.content_bias),
                   to_python(in.relative.position_bias));
}

py::object state_of(const AttentionContext& context) {
  if (context.state == nullptr) return py::dict();
  State& state = context.state->of<State>();
  if (!state.dictionary) state.dictionary = shared(py::dict());
  return py::reinterpret_borrow<py::object>(handle(state.dictionary));
}

using Make = py::object (*)(const AttentionInput&, const AttentionContext&);
const std::map<std::string_view, Make>& makers() {
  static const std::map<std::string_view, Make> all = {
      {"visible", [](const AttentionInput& in, const AttentionContext&) { return visible_of(in); }},
      {"causal",
       [](const AttentionInput& in, const AttentionContext&) -> py::object {
         return py::bool_(in.visible.causal);
       }},
      {"window",
       [](const AttentionInput& in, const AttentionContext&) -> py::object {
         return py::int_(in.visible.window);
       }},
      {"pairs", [](const AttentionInput& in,
                   const AttentionContext&) { return to_python(in.visible.pairs); }},
      {"key_valid", [](const AttentionInput& in,
                       const AttentionContext&) { return to_python(in.visible.key_valid); }},
      {"query_valid", [](const AttentionInput& in,
                         const AttentionContext&) { return to_python(in.visible.query_valid); }},
      {"bias",
       [](const AttentionInput& in, const AttentionContext&) { return to_python(in.bias); }},
      {"relative",
       [](const AttentionInput& in, const AttentionContext&) { return relative_of(in); }},
      {"values_from_elsewhere",
       [](const AttentionInput& in, const AttentionContext&) -> py::object {
         return py::bool_(in.values_from_elsewhere);
       }},
      {"query_positions", [](const AttentionInput& in,
                             const AttentionContext&) { return to_python(in.query_positions); }},
      {"key_positions", [](const AttentionInput& in,
                           const AttentionContext&) { return to_python(in.key_positions); }},
      {"query_source", [](const AttentionInput& in,
                          const AttentionContext&) { return to_python(in.query_source); }},
      {"key_source",
       [](const AttentionInput& in, const AttentionContext&) { return to_python(in.key_source); }},
      {"value_source", [](const AttentionInput& in,
                          const AttentionContext&) { return to_python(in.value_source); }},
      {"state",
       [](const AttentionInput&, const AttentionContext& context) { return state_of(context); }},
      {"trace",
       [](const AttentionInput&, const AttentionContext& context) -> py::object {
         return py::bool_(context.trace != nullptr);
       }},
  };
  return all;
}

// ---- what it gives

/// What a call gave; weights and logits may be undefined.
struct Given {
  Tensor output, weights, logits;
};

/// Adds what is asked of a layer to the trace.
void record(const AttentionInput& in, AttentionContext& context, const Given& given) {
  AttentionTrace& asked = *context.trace;
  const at::AutoGradMode gradients(asked.attached && at::GradMode::is_enabled());
  const auto kept = [&](const Tensor& x) { return asked.attached ? x : x.detach(); };
  LayerTrace layer;
  layer.layer = context.layer;
  if (asked.norms) {
    layer.query_norms = kept(in.queries).norm(2, -1);
    layer.key_norms = kept(in.keys).norm(2, -1);
  }
  if (given.weights.defined()) {
    const Tensor weights = kept(given.weights);
    if (asked.weights) layer.weights = weights;
    const Tensor sizes = weights.abs();  // some mechanisms subtract values
    if (asked.entropy) layer.entropy = -at::xlogy(sizes, sizes).sum(-1);
  }
  if (asked.logits && given.logits.defined()) {
    layer.logits = kept(given.logits);
    const Tensor visible =
        visible_pairs(in.visible, in.query_count(), in.key_count(), in.queries.device());
    if (visible.defined()) {
      layer.logits = layer.logits.masked_fill(visible.logical_not(), -INFINITY);
    }
  }
  asked.take(std::move(layer));
}

/// One layer.
class PythonAttention final : public Attention {
 public:
  /// @param hosted  attnlab._host.Hosted
  PythonAttention(Said said, Shared hosted, const AttentionShape& shape)
      : Attention(shape, said.traits), said_(std::move(said)), hosted_(std::move(hosted)) {
    for (const std::string& name : said_.inputs) inputs_.emplace_back(name, makers().at(name));
    const Lock lock;
    steps_ = py::hasattr(member("module"), "after_step");
    call_ = shared(member("call"));
    share_tensors(*this, member("tensors")());
  }

  bool couples_queries() const override { return said_.couples_queries; }
  bool reads_order() const override { return said_.reads_order; }

  void train(bool on) override {
    Attention::train(on);
    const Lock lock;
    ask<PluginError>(member("train"), on);
  }

  void after_step(const StepFacts& facts) override {
    if (!steps_) return;
    const Lock lock;
    ask<PluginError>(member("after_step"), facts.step, facts.learning_rate);
  }

  using Attention::to;
  void to(at::Device device, at::ScalarType dtype, bool non_blocking) override {
    keep_whole_numbers(*this, [&] { Attention::to(device, dtype, non_blocking); });
  }
  void to(at::ScalarType dtype, bool non_blocking) override {
    keep_whole_numbers(*this, [&] { Attention::to(dtype, non_blocking); });
  }

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext& context) override {
    Given given = call(input, context);
    check(given, input);
    if (context.trace != nullptr) record(input, context, given);
    // What a model changes in place must not be what another layer reads.
    const Tensor* const inputs[] = {&input.queries,     &input.keys,         &input.values,
                                    &input.bias,        &input.query_source, &input.key_source,
                                    &input.value_source};
    for (const Tensor* one : inputs) {
      if (one->defined() && given.output.is_alias_of(*one)) return given.output.clone();
    }
    return given.output;
  }

 private:
  /// Of the hosted object. With the lock.
  py::object member(const char* name) const { return handle(hosted_).attr(name); }

  Given call(const AttentionInput& input, const AttentionContext& context) const {
    const Lock lock;
    py::dict named;
    for (const auto& [name, make] : inputs_) named[name.c_str()] = make(input, context);
    const py::tuple out = ask<Error>(handle(call_), to_python(input.queries), to_python(input.keys),
                                     to_python(input.values), named, context.losses != nullptr);
    for (const auto& [name, loss] : out[3].cast<py::dict>()) {
      context.losses->add(name.cast<std::string>(), to_tensor(loss));
    }
    const auto part = [&](std::size_t i) { return to_tensor(out[i].cast<py::object>()); };
    return {part(0), part(1), part(2)};
  }

  /// @throws ShapeError with file and line.
  void check(const Given& given, const AttentionInput& input) const {
    const std::int64_t batch = input.batch(), heads = input.heads(), queries = input.query_count();
    const auto expect = [&](const char* what, const Tensor& found, const char* letters,
                            const std::vector<std::int64_t>& sizes) {
      const Tensor& like = input.values;
      if (found.sizes() == at::IntArrayRef(sizes) && found.scalar_type() == like.scalar_type() &&
          found.device() == like.device()) {
        return;
      }
      throw ShapeError(fmt::format(
          "{}: forward of {} returned {} {} on {}, expected {} = {} on {}", said_.where, said_.name,
          what, describe(found), found.device().str(), letters,
          describe(at::empty(sizes, like.options().device(at::kMeta))), like.device().str()));
    };
    expect("an output", given.output, "[B, H, Lq, Dv]",
           {batch, heads, queries, input.values.size(3)});
    const std::vector<std::int64_t> pairs = {batch, heads, queries, input.key_count()};
    if (given.weights.defined()) expect("weights", given.weights, "[B, H, Lq, Lk]", pairs);
    if (given.logits.defined()) expect("logits", given.logits, "[B, H, Lq, Lk]", pairs);
  }

  Said said_;
  Shared hosted_, call_;
  std::vector<std::pair<std::string, Make>> inputs_;
  bool steps_ = false;  ///< whether the class has `after_step`
};

/// @param section  {file, class, options}, resolved
std::shared_ptr<Attention> build_attention(const Node& section, const AttentionShape& shape) {
  if (shape.members > 1) {
    throw ConfigError(
        "a class in Python holds one run's parameters, so several runs cannot be trained together "
        "with it; run them one by one (--ensemble 1)");
  }
  start();
  const Lock lock;
  const std::string file = section.at("file").text();
  Said said = read_attention(file, section.at("class").text());
  static const py::handle kBuild = host("build");
  Shared hosted = shared(
      ask<ConfigError>(kBuild, file, handle(said.all), options_of(section), dictionary_of(shape)));
  return std::make_shared<PythonAttention>(std::move(said), std::move(hosted), shape);
}

}  // namespace
}  // namespace attnlab::python

extern "C" [[gnu::visibility("default")]] const attnlab::PluginEntry* attnlab_plugin();
const attnlab::PluginEntry* attnlab_plugin() {
  static const attnlab::PluginEntry entry = [] {
    attnlab::PluginEntry made{attnlab::Kind::attention, "attnlab/python"};
    made.attention = &attnlab::python::build_attention;
    made.model = &attnlab::python::build_model;
    made.dataset = &attnlab::python::build_dataset;
    return made;
  }();
  return &entry;
}
