// Checks of what a model gives, and of what it leaves behind: outputs, gradients, traces, places,
// memory.
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "framework/base/text.h"
#include "framework/conformance/model_checks.h"
#include "framework/conformance/stack.h"

namespace attnlab::conformance {
namespace {

/// The outputs that the manifest lists, with whether each may be absent.
std::map<std::string, bool> listed_outputs(const ModelSubject& subject) {
  std::map<std::string, bool> listed;
  for (const std::string& entry : subject.gives) {
    const std::string name = field_of_entry(entry);
    listed[name] = name != entry;  // "logits?" and "logits if head=node" need not be there
  }
  return listed;
}

std::int64_t expected_rows(const std::string& name, const Batch& batch) {
  const FieldName parsed = parse_field_name(name);
  return parsed.axis.empty() ? batch.size : rows_of(batch, parsed.axis);
}

void expect_listed(const std::string& what, const NamedTensors& outputs, const Batch& batch,
                   const ModelSubject& subject) {
  const std::map<std::string, bool> listed = listed_outputs(subject);
  for (const auto& [name, may_lack] : listed) {
    expect(may_lack || outputs.find(name) != nullptr,
           fmt::format("{}: the output '{}', which its manifest lists, is not there", what, name));
  }
  for (const auto& [name, tensor] : outputs) {
    const std::string output = fmt::format("{}: output '{}'", what, name);
    expect(listed.count(name) > 0, output + " is not among the manifest's .gives");
    expect(tensor.defined(), output + " is undefined");
    expect(tensor.dim() > 0 && tensor.size(0) == expected_rows(name, batch),
           fmt::format("{} is {}, expected {} rows", output, describe(tensor),
                       expected_rows(name, batch)));
    expect_finite(output, tensor);
  }
}

/// `Model::outputs` against what came out.
void expect_as_stated(const std::string& what, const Model& model, const NamedTensors& outputs) {
  for (const FieldInfo& info : model.outputs()) {
    const Tensor* tensor = outputs.find(info.name);
    expect(
        tensor != nullptr,
        fmt::format("{}: outputs() states '{}', which is not among the outputs", what, info.name));
    const bool rows_within = !parse_field_name(info.name).axis.empty();
    const at::IntArrayRef sizes = rows_within ? tensor->sizes() : tensor->sizes().slice(1);
    bool fits = sizes.size() == info.shape.size() && tensor->scalar_type() == info.dtype;
    for (std::size_t d = 0; fits && d < info.shape.size(); ++d) {
      fits = info.shape[d] == -1 || info.shape[d] == sizes[d];
    }
    std::vector<std::string> stated;
    for (const std::int64_t size : info.shape) stated.push_back(std::to_string(size));
    expect(fits,
           fmt::format(
               "{}: outputs() states '{}' as [{}] of one example, of dtype {}; the batch's is {}",
               what, info.name, join(stated, ", "), describe(at::empty({}, info.dtype)).substr(3),
               describe(*tensor)));
  }
}

/// Names of parameters that a backward pass reaches with something that is not 0.
std::set<std::string> reached(Model& model, const Batch& batch) {
  model.zero_grad();
  probed(seeded_pass(model, batch, 3)).backward();
  std::set<std::string> names;
  for (const auto& item : model.named_parameters()) {
    const Tensor& gradient = item.value().grad();
    if (!gradient.defined()) continue;
    expect_finite(fmt::format("the gradient of parameter '{}'", item.key()), gradient);
    if (gradient.ne(0).any().item<bool>()) names.insert(item.key());
  }
  return names;
}

/// An attention builder that notes the layers that it is asked for.
AttentionBuilder noting(const AttentionBuilder& build, std::map<std::int64_t, int>& layers) {
  return [&build, &layers](const AttentionShape& shape) {
    ++layers[shape.layer];
    return build(shape);
  };
}

/// What a layer was told of places in one call.
struct Told {
  std::int64_t layer;
  Tensor queries, keys;
};

/// An attention that asks for places, and notes those that it is given.
class AskingForPlaces final : public Attention {
 public:
  AskingForPlaces(const std::shared_ptr<Attention>& inner, std::vector<Told>& told)
      : Attention(inner->shape(), asking(inner->traits())),
        inner_(register_module("inner", inner)),
        told_(told) {}

  bool couples_queries() const override { return inner_->couples_queries(); }

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext& context) override {
    told_.push_back({context.layer, input.query_positions, input.key_positions});
    return inner_->forward(input, context);
  }

 private:
  static AttentionTraits asking(AttentionTraits traits) {
    traits.places = true;
    return traits;
  }

  std::shared_ptr<Attention> inner_;
  std::vector<Told>& told_;
};

/// @param told, again  in two passes of the same batch
/// @param built        layers, and how often each was built
/// @param coordinates  of a place, as layers before have them; 0: none yet
void expect_told(const std::vector<Told>& told, const std::vector<Told>& again,
                 const std::map<std::int64_t, int>& built, std::int64_t& coordinates) {
  std::set<std::int64_t> reached;
  for (const Told& call : told) {
    reached.insert(call.layer);
    for (const auto& [what, places] : {std::pair("queries", &call.queries), {"keys", &call.keys}}) {
      const std::string where = fmt::format("places of layer {}'s {}", call.layer, what);
      expect(places->defined(), where + " are not given, others are: give all of them, or none");
      expect(places->is_floating_point() || at::isIntegralType(places->scalar_type(), false),
             where + " are not numbers: " + describe(*places));
      expect_finite(where, *places);
      if (coordinates == 0) coordinates = places->size(2);
      expect(places->size(2) == coordinates,
             fmt::format("{} are {}, those before have {} coordinates: give all equally many",
                         where, describe(*places), coordinates));
    }
  }
  for (const auto& [layer, count] : built) {
    expect(reached.count(layer) > 0, fmt::format("layer {} is never asked", layer));
  }
  expect(told.size() == again.size(), "the same batch again asks layers another number of times");
  for (std::size_t i = 0; i < told.size(); ++i) {
    const std::string where =
        fmt::format("the same batch again: places of layer {}'s ", told[i].layer);
    expect_identical(where + "queries", again[i].queries, told[i].queries);
    expect_identical(where + "keys", again[i].keys, told[i].keys);
  }
}

/// Two batches as one, each row of the second after that of the first; fields without a sequence
/// are the first's.
Batch end_to_end(const Batch& first, const Batch& second, std::int64_t length) {
  Batch both = first;
  for (const auto& [name, tensor] : first.fields) {
    if (tensor.dim() < 2 || tensor.size(1) != length) continue;
    both.fields.set(name, at::cat({tensor, second.fields.at(name)}, 1));
  }
  return both;
}

/// The length of the batch's sequences: that of its first field of two dimensions and more.
std::int64_t length_of(const Batch& batch) {
  for (const auto& [name, tensor] : batch.fields) {
    if (tensor.dim() >= 2) return tensor.size(1);
  }
  return 0;
}

/// @param depths  that layers were built for (AttentionShape::layers)
/// @param stacks  that the manifest says; a model may have others, of depths that no option says
void expect_declared(const std::set<std::int64_t>& depths,
                     const std::vector<std::int64_t>& stacks) {
  const std::set<std::int64_t> declared(stacks.begin(), stacks.end());
  expect(std::includes(depths.begin(), depths.end(), declared.begin(), declared.end()),
         fmt::format("layers are built for stacks of {}, and .stacks of its manifest says {}: name "
                     "the options that the model gives as AttentionShape::layers",
                     fmt::join(depths, ", "), fmt::join(declared, ", ")));
}

NamedTensors carrying_pass(Model& model, const Batch& batch, NamedTensors& carried) {
  const at::NoGradGuard no_gradients;
  ForwardPass pass;
  pass.carried = &carried;
  return model.forward(batch, pass);
}

}  // namespace

std::string check_outputs(const ModelFixture& fixture) {
  bool states = false;
  for (const NamedData& data : fixture.data()) {
    for (const bool training : {false, true}) {
      const auto model = fixture.fresh({*data.dataset, fixture.subject().attentions[0].build});
      model->train(training);
      for (const std::vector<std::int64_t>& examples :
           {std::vector<std::int64_t>{0}, std::vector<std::int64_t>{0, 1, 2}}) {
        const Batch batch = batch_of(*data.dataset, examples);
        const std::string what = fmt::format("{}, {} of them, in {}", data.name, batch.size,
                                             training ? "training" : "evaluation");
        const NamedTensors outputs = seeded_pass(*model, batch, 1);
        expect_listed(what, outputs, batch, fixture.subject());
        expect_as_stated(what, *model, outputs);
        states |= !model->outputs().empty();
      }
    }
  }
  return states ? "" : "it does not state the shapes of its outputs (outputs())";
}

std::string check_parameters(const ModelFixture& fixture) {
  std::set<std::string> names, lacking;
  for (const NamedData& data : fixture.data()) {
    const auto model = fixture.model({*data.dataset, fixture.subject().attentions[0].build});
    const Batch batch = in_double(batch_of(*data.dataset, {0, 1, 2, 3}));
    std::set<std::string> found = reached(*model, batch);
    model->train();
    found.merge(reached(*model, batch));
    for (const auto& item : model->named_parameters()) {
      names.insert(item.key());
      if (found.count(item.key()) == 0) lacking.insert(item.key());
      model->decays(item.key(), item.value());
      const std::int64_t depth = model->depth(item.key());
      expect(depth >= -1,
             fmt::format("depth(\"{}\") is {}, expected 0 and more, or -1", item.key(), depth));
    }
  }
  expect(lacking.empty(),
         fmt::format("no output depends on {}: the gradient of all outputs is 0 or undefined "
                     "there; use the parameters, or do not register them",
                     join({lacking.begin(), lacking.end()}, ", ")));
  return fmt::format("{} parameters", names.size());
}

std::string check_trace(const ModelFixture& fixture) {
  std::map<std::int64_t, int> built;
  std::set<std::int64_t> depths;
  const AttentionBuilder noted = noting(fixture.subject().attentions[0].build, built);
  const AttentionBuilder builder = [&](const AttentionShape& shape) {
    depths.insert(shape.layers);
    return noted(shape);
  };
  const auto model = fixture.model({fixture.first_data(), builder});
  const Batch batch = in_double(batch_of(fixture.first_data(), {0, 1, 2}));
  if (built.empty()) throw NotApplicable("it builds no layer with the attention that it is given");
  expect_declared(depths, fixture.subject().stacks);
  AttentionTrace trace;
  trace.weights = trace.logits = trace.norms = trace.entropy = true;
  NamedTensors traced;
  {
    const at::NoGradGuard no_gradients;
    ForwardPass pass;
    pass.trace = &trace;
    traced = model->forward(batch, pass);
  }
  const NamedTensors plain = outputs_of(*model, batch);
  NamedTensors same;  // a model may add how its layers group tokens
  for (const auto& [name, tensor] : plain) same.set(name, traced.at(name));
  expect_close("with a trace, against without", same, plain);
  std::map<std::int64_t, int> recorded;
  for (const LayerTrace& layer : trace.layers) ++recorded[layer.layer];
  for (const auto& [layer, count] : built) {
    expect(recorded[layer] >= count,
           fmt::format("layer {} was built {} times and recorded {} times: hand ForwardPass::trace "
                       "to the context of each layer, with its index",
                       layer, count, recorded[layer]));
  }
  for (const auto& [layer, count] : recorded) {
    expect(built.count(layer) > 0,
           fmt::format("layer {} is recorded, and no attention was built with that index", layer));
  }
  return fmt::format("{}{}", built.size(), built.size() == 1 ? " layer" : " layers");
}

std::string check_places(const ModelFixture& fixture) {
  std::int64_t coordinates = 0;
  for (const NamedData& data : fixture.data()) {
    std::map<std::int64_t, int> built;
    std::vector<Told> told;
    const AttentionBuilder inner = noting(fixture.subject().attentions[0].build, built);
    const AttentionBuilder asking = [&](const AttentionShape& shape) {
      return std::make_shared<AskingForPlaces>(inner(shape), told);
    };
    const auto model = fixture.model({*data.dataset, asking});
    const Batch batch = in_double(batch_of(*data.dataset, {0, 1, 2}));
    outputs_of(*model, batch);
    const std::vector<Told> first = std::exchange(told, {});
    if (std::none_of(first.begin(), first.end(), [](const Told& call) {
          return call.queries.defined() || call.keys.defined();
        })) {
      continue;
    }
    outputs_of(*model, batch);
    expect_told(first, told, built, coordinates);
  }
  if (coordinates == 0) throw NotApplicable("it gives none: tokens stand at 0, 1, 2, ...");
  return fmt::format("{} coordinate{}", coordinates, coordinates == 1 ? "" : "s");
}

std::string check_carried(const ModelFixture& fixture) {
  const auto model = fixture.model();
  const Dataset& data = fixture.first_data();
  const Batch first = in_double(batch_of(data, {0, 1}));
  Batch second = in_double(batch_of(data, {2, 3}));
  second.continues = true;
  NamedTensors carried;
  const NamedTensors begun = carrying_pass(*model, first, carried);
  if (carried.size() == 0) throw NotApplicable("it carries nothing from batch to batch");
  expect_close("with somewhere to leave what is carried, against without", begun,
               outputs_of(*model, first));
  for (const auto& [name, tensor] : carried) {
    expect(tensor.defined() && tensor.dim() > 0 && tensor.size(0) == first.size,
           fmt::format("carried '{}' is {}, expected {} rows, those of the batch", name,
                       describe(tensor), first.size));
  }
  {  // where gradients are on, what is carried must hold no graph
    ForwardPass pass;
    NamedTensors left;
    pass.carried = &left;
    model->forward(first, pass);
    for (const auto& [name, tensor] : left) {
      expect(!tensor.requires_grad(), fmt::format("carried '{}' holds the graph; detach it", name));
    }
  }
  const NamedTensors found = carrying_pass(*model, second, carried);
  const std::int64_t length = length_of(first);
  NamedTensors whole;
  try {
    whole = outputs_of(*model, end_to_end(first, second, length));
  } catch (const Error& error) {
    return std::string(
               "a batch of twice the length is refused, so that only what is carried was "
               "looked at: ") +
           error.what();
  }
  bool compared = false;
  for (const auto& [name, tensor] : found) {
    const Tensor& both = whole.at(name);
    if (both.dim() < 2 || both.size(1) != 2 * length) continue;
    expect_close(
        fmt::format(
            "a batch that continues another, against the second half of both as one: output '{}'",
            name),
        tensor, both.narrow(1, length, length), kRegrouped);
    compared = true;
  }
  return compared ? "" : "no output has one row a token, so that two halves were not compared";
}

}  // namespace attnlab::conformance
