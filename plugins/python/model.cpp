// Models in Python files: a torch.nn.Module that is handed a factory of attentions, and the fields
// of batches.
//
// Its attentions are modules of LibTorch among its own: those of C++ stay what they are, and the
// Python module has their parameters, the very same tensors. The lock is held while Python runs,
// and free while an attention in C++ computes.
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plugins/python/handed.h"
#include "plugins/python/parts.h"

namespace attnlab::python {
namespace {

/// Says for the time of one forward pass what its layers share.
class During {
 public:
  During(Pass& place, const Pass& now) : place_(place) { place_ = now; }
  ~During() { place_ = {}; }
  During(const During&) = delete;
  During& operator=(const During&) = delete;

 private:
  Pass& place_;
};

class PythonModel final : public Model {
 public:
  /// @param said    what the text of the file says
  /// @param hosted  attnlab._host.HostedModel
  /// @param pass    what the attentions look at
  PythonModel(const py::object& said, Shared hosted, std::shared_ptr<Pass> pass)
      : hosted_(std::move(hosted)), pass_(std::move(pass)) {
    inputs_ = said["inputs"].cast<std::map<std::string, std::string>>();
    const py::object module = member("module");
    steps_ = py::hasattr(module, "after_step");
    decays_ = py::hasattr(module, "decays");
    call_ = shared(member("call"));
    std::vector<std::pair<Names, std::shared_ptr<Attention>>> attentions;
    const py::object handed = member("attentions")();
    for (const py::handle item : handed) {
      const auto one = py::reinterpret_borrow<py::tuple>(item);
      attentions.emplace_back(one[0].cast<Names>(), one[1].cast<Handed&>().attention());
    }
    share_tensors(*this, member("tensors")(), attentions);
  }

  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    ForwardState state;
    const During during(*pass_, {&state, pass.trace});
    const Lock lock;
    py::dict fields;
    for (const auto& [parameter, field] : inputs_) {
      if (field.empty()) {  // `offsets`
        py::dict offsets;
        for (const auto& [axis, tensor] : batch.offsets) offsets[axis.c_str()] = to_python(tensor);
        fields[parameter.c_str()] = offsets;
      } else if (const Tensor* given = batch.fields.find(field)) {
        fields[parameter.c_str()] = to_python(in_own_dtype(*given));
      }
    }
    const py::dict out = ask<Error>(handle(call_), fields);
    NamedTensors outputs;
    for (const auto& [name, tensor] : out) {
      outputs.set(name.cast<std::string>(), to_tensor(tensor));
    }
    return outputs;
  }

  bool decays(const std::string& name, const Tensor& parameter) const override {
    if (!decays_) return Model::decays(name, parameter);
    const Lock lock;
    return ask<PluginError>(member("decays"), name, to_python(parameter)).cast<bool>();
  }

  void train(bool on) override {
    Model::train(on);
    const Lock lock;
    ask<PluginError>(member("train"), on);
  }

  void after_step(const StepFacts& facts) override {
    if (!steps_) return;
    const Lock lock;
    ask<PluginError>(member("after_step"), facts.step, facts.learning_rate);
  }

  using Model::to;
  void to(at::Device device, at::ScalarType dtype, bool non_blocking) override {
    keep_whole_numbers(*this, [&] { Model::to(device, dtype, non_blocking); });
  }
  void to(at::ScalarType dtype, bool non_blocking) override {
    keep_whole_numbers(*this, [&] { Model::to(dtype, non_blocking); });
  }

 private:
  /// Of the hosted object. With the lock.
  py::object member(const char* name) const { return handle(hosted_).attr(name); }

  /// Floating-point fields come in the dtype of the model's parameters.
  Tensor in_own_dtype(const Tensor& field) const {
    if (!field.is_floating_point()) return field;
    for (const Tensor& parameter : parameters()) return field.to(parameter.scalar_type());
    return field;
  }

  Shared hosted_, call_;
  std::shared_ptr<Pass> pass_;
  /// Parameters of forward and the fields that they get; an empty name: `offsets`.
  std::map<std::string, std::string> inputs_;
  bool steps_ = false, decays_ = false;  ///< whether the class has these methods
};

/// What a constructor may ask for of the data.
py::dict facts_of(const DatasetInfo& data) {
  py::dict shapes;
  for (const FieldInfo& field : data.fields) {
    shapes[field.name.c_str()] = py::tuple(py::cast(field.shape));
  }
  py::dict all;
  all["classes"] = data.classes;
  all["vocabulary"] = data.vocabulary;
  all["shapes"] = shapes;
  return all;
}

AttentionShape shape_of(const py::dict& asked) {
  const auto number = [&](const char* name) { return asked[name].cast<std::int64_t>(); };
  AttentionShape shape;
  shape.heads = number("heads");
  shape.head_dim = number("head_dim");
  shape.value_dim = number("value_dim");
  shape.layer = number("layer");
  shape.layers = number("layers");
  shape.dropout = asked["dropout"].cast<double>();
  shape.query_width = number("query_width");
  shape.key_width = number("key_width");
  shape.value_width = number("value_width");
  return shape;
}

}  // namespace

std::shared_ptr<Model> build_model(const Node& section, const ModelSetup& setup) {
  if (setup.members > 1) {
    throw ConfigError(
        "a class in Python holds one run's parameters, so several runs cannot be trained together "
        "with it; run them one by one (--ensemble 1)");
  }
  start();
  const Lock lock;
  const std::string file = section.at("file").text();
  const py::object said = read_class(file, section.at("class").text(), Kind::model);
  const auto pass = std::make_shared<Pass>();
  std::exception_ptr refused;  // by an attention's own code: as it was thrown
  const py::cpp_function make([&](const py::dict& asked) {
    try {
      return py::cast(Handed(setup.attention(shape_of(asked)), pass));
    } catch (...) {
      refused = std::current_exception();
      throw;
    }
  });
  static const py::handle kBuild = host("build_model");
  try {
    Shared hosted = shared(
        ask<ConfigError>(kBuild, file, said, options_of(section), facts_of(setup.data), make));
    return std::make_shared<PythonModel>(said, std::move(hosted), pass);
  } catch (const ConfigError&) {
    if (refused) std::rethrow_exception(refused);
    throw;
  }
}

}  // namespace attnlab::python
