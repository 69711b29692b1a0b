// The module attnlab._native: the host's attentions in a Python process, on PyTorch's own tensors.
// python/attnlab/attention.py is its only user, and says what arguments mean.
#include <torch/csrc/autograd/python_variable.h>

#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>
#include <signal.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/random.h"
#include "framework/contracts/attention.h"
#include "framework/experiment/part.h"
#include "framework/host/registry.h"
#include "plugins/python/input_fields.h"

namespace attnlab {
namespace {

std::string type_of(const py::handle& value) { return Py_TYPE(value.ptr())->tp_name; }

/// The Python tensor that stands for this one; for each tensor there is one object.
py::object python_tensor(const Tensor& tensor) {
  PyObject* const object = THPVariable_Wrap(tensor);
  if (object == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(object);
}

// Options.

/// A number as a composition writes it.
std::string number_text(const py::handle& number) {
  const std::string text = py::str(number);
  if (text == "inf") return ".inf";
  if (text == "-inf") return "-.inf";
  return text == "nan" ? ".nan" : text;
}

/// A number that Python calls whole, numpy's among them; null where it is none.
py::object whole_number(const py::handle& value) {
  if (PyIndex_Check(value.ptr()) == 0) return py::none();
  PyObject* const number = PyNumber_Index(value.ptr());
  if (number == nullptr) {
    PyErr_Clear();
    return py::none();
  }
  return py::reinterpret_steal<py::object>(number);
}

/// What Python gave for an option, as the same value in a file would be.
/// @param key  what messages call it
/// @throws ConfigError for a value that no file can have.
Node node_of(const py::handle& value, const std::string& key, const Place& place) {
  PyObject* const object = value.ptr();
  if (value.is_none()) {
    Node null;
    null.set_place(place);
    return null;
  }
  if (PyBool_Check(object)) return Node::scalar(object == Py_True ? "true" : "false", place);
  if (PyUnicode_Check(object)) return Node::scalar(value.cast<std::string>(), place, true);
  if (PyFloat_Check(object)) {
    return Node::scalar(number_text(py::float_(PyFloat_AS_DOUBLE(object))), place);
  }
  if (PyList_Check(object) || PyTuple_Check(object)) {
    Node list = Node::list(place);
    for (const py::handle item : value) list.items().push_back(node_of(item, key, place));
    return list;
  }
  if (PyDict_Check(object)) {
    Node map = Node::map(place);
    for (const auto& [name, inner] : py::reinterpret_borrow<py::dict>(value)) {
      const std::string text = py::str(name);
      map.set(text, node_of(inner, key + "." + text, place));
      map.set_key_place(text, place);
    }
    return map;
  }
  const py::object whole = whole_number(value);
  if (!whole.is_none()) return Node::scalar(number_text(whole), place);
  throw ConfigError(
      place, key + ": expected a bool, int, float, str, list or dict, found " + type_of(value));
}

// Building.

/// The registry in which a name was found. Each other name, and each other place to look, is looked
/// for anew: a notebook may set ATTNLAB_PLUGIN_PATH, or build a plugin, between two calls.
std::unique_ptr<Registry>& registry_of(const std::string& name) {
  static std::map<std::string, std::unique_ptr<Registry>> registries;
  const char* const path = std::getenv("ATTNLAB_PLUGIN_PATH");
  std::error_code ignored;
  return registries[name + '\n' + (path == nullptr ? "" : path) + '\n' +
                    std::filesystem::current_path(ignored).string()];
}

void check_shape(const AttentionShape& shape, const Place& place) {
  const auto refuse = [&](const std::string& what) { throw ConfigError(place, what); };
  const auto count = [&](const char* name, std::int64_t value, std::int64_t low) {
    if (value >= low) return;
    refuse(std::string(name) + ": expected " + std::to_string(low) + " or more, found " +
           std::to_string(value));
  };
  count("heads", shape.heads, 1);
  count("head_dim", shape.head_dim, 1);
  count("value_dim", shape.value_dim, 0);
  count("layers", shape.layers, 1);
  count("layer", shape.layer, 0);
  count("query_width", shape.query_width, 0);
  count("key_width", shape.key_width, 0);
  count("value_width", shape.value_width, 0);
  if (shape.layer >= shape.layers) {
    refuse("layer: expected less than layers, which is " + std::to_string(shape.layers) +
           ", found " + std::to_string(shape.layer) + " (layers count from 0)");
  }
  if (!(shape.dropout >= 0 && shape.dropout < 1)) {
    refuse("dropout: expected a probability in [0, 1), found " + std::to_string(shape.dropout));
  }
}

/// As a run with this seed builds its layer's attention.
std::shared_ptr<Attention> build(const std::string& name, const py::dict& options,
                                 const Place& place, const AttentionShape& shape,
                                 std::uint64_t seed) {
  check_shape(shape, place);
  Node section = node_of(options, "attention", place);
  section.set("use", Node::scalar(name, place));
  Node composed = Node::map(place);
  composed.set("attention", std::move(section));

  std::unique_ptr<Registry>& known = registry_of(name);
  std::unique_ptr<Registry> fresh;
  if (!known) fresh = std::make_unique<Registry>(Catalogue::of_this_program());
  Registry& registry = known ? *known : *fresh;
  Part part;
  Node resolved = Node::map(place);
  Problems problems;
  resolve_part(composed, Kind::attention, registry.catalogue(), part, resolved, problems);
  if (!problems.empty()) throw ConfigError(problems);
  auto built = registry.attention_builder(part, RandomStreams(seed))(shape);
  if (!known) known = std::move(fresh);
  return built;
}

// Calling.

/// Kernels read memory: a tensor must have some, and where they look for it. (A mask or a parameter
/// on another device is what the contract does not check.)
void check_memory(const char* name, const Tensor& tensor, const Tensor& queries) {
  const std::string who = std::string("attention input: ") + name;
  if (tensor.key_set().has(c10::DispatchKey::Python)) {
    throw ShapeError(who + " is of a tensor class of Python's; attnlab computes on plain tensors");
  }
  const at::Device device = tensor.device();
  if ((!device.is_cpu() && !device.is_cuda()) || tensor.layout() != at::kStrided) {
    throw ShapeError(who + " must be a dense tensor on the CPU or a CUDA device, found " +
                     describe(tensor) + " on " + device.str());
  }
  const bool offsets = std::strstr(name, "offsets") != nullptr;  // stay on the CPU
  if (offsets || !queries.defined() || device == queries.device()) return;
  throw ShapeError(who + " lies on " + device.str() + ", the queries on " + queries.device().str() +
                   "; move it: .to(queries.device)");
}

/// An attention as Python holds it.
class Held {
 public:
  Held(const std::string& name, const py::dict& options, const std::string& file, int line,
       const AttentionShape& shape, std::uint64_t seed)
      : module_(build(name, options, {file, line, 0}, shape, seed)),
        parameters_(module_->named_parameters()),
        layer_(shape.layer) {}

  py::list parameters() const { return listed(parameters_); }
  py::list buffers() const { return listed(module_->named_buffers()); }

  py::dict traits() const {
    py::dict all;
    module_->traits().each([&](std::string_view name, bool honoured) {
      all[py::str(std::string(name))] = py::bool_(honoured);
    });
    return all;
  }

  void train(bool on) { module_->train(on); }

  void after_step(std::int64_t step, double learning_rate) {
    const c10::NoGradGuard no_gradients;
    module_->after_step({step, learning_rate});
  }

  /// @returns [B, H, Lq, Dv]; where something is to be recorded, with what was, by name.
  py::object forward(const py::dict& tensors, bool causal, std::int64_t window,
                     bool values_from_elsewhere, ForwardState* state,
                     const std::vector<std::string>& record, bool attached) {
    AttentionInput input = input_of(tensors);
    input.visible.causal = causal;
    input.visible.window = window;
    input.values_from_elsewhere = values_from_elsewhere;
    AttentionTrace trace = trace_of(record);
    trace.attached = attached;
    AttentionContext context;
    context.layer = layer_;
    context.state = state;
    context.trace = record.empty() ? nullptr : &trace;
    Tensor out;
    {
      const py::gil_scoped_release others_may_run;
      // Mechanisms compute in float32 or float64, whatever PyTorch's autocast is told.
      const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
      out = module_->forward(input, context);
    }
    if (record.empty()) return python_tensor(out);
    return py::make_tuple(python_tensor(out), recorded(trace));
  }

 private:
  static py::list listed(const torch::OrderedDict<std::string, Tensor>& tensors) {
    py::list all;
    for (const auto& item : tensors) {
      if (!item.value().defined()) continue;
      all.append(py::make_tuple(item.key(), python_tensor(item.value())));
    }
    return all;
  }

  AttentionInput input_of(const py::dict& tensors) const {
    AttentionInput input;
    for (const python::InputField& field : python::fields_of(input)) {
      PyObject* const given = PyDict_GetItemString(tensors.ptr(), field.name);
      if (given == nullptr || given == Py_None) continue;
      if (!THPVariable_Check(given)) {
        throw ShapeError(std::string("attention input: ") + field.name +
                         " must be a torch.Tensor, found " + type_of(given));
      }
      *field.tensor = THPVariable_Unpack(given);
      check_memory(field.name, *field.tensor, input.queries);
    }
    for (const auto& item : parameters_) {
      if (!input.queries.defined() || item.value().device() == input.queries.device()) continue;
      throw ShapeError("attention input: queries lie on " + input.queries.device().str() +
                       ", the parameter '" + item.key() + "' on " + item.value().device().str() +
                       "; move the module: .to(queries.device)");
    }
    return input;
  }

  static AttentionTrace trace_of(const std::vector<std::string>& record) {
    AttentionTrace trace;
    for (const std::string& name : record) {
      bool* const wanted = name == "weights"   ? &trace.weights
                           : name == "logits"  ? &trace.logits
                           : name == "norms"   ? &trace.norms
                           : name == "entropy" ? &trace.entropy
                           : name == "bias"    ? &trace.bias
                                               : nullptr;
      if (wanted == nullptr) {
        throw ConfigError("record: expected weights, logits, norms, entropy or bias, found '" +
                          name + "'");
      }
      *wanted = true;
    }
    return trace;
  }

  static py::dict recorded(const AttentionTrace& trace) {
    py::dict all;
    for (const LayerTrace& layer : trace.layers) {
      for (const auto& [name, tensor] :
           {std::pair{"weights", &layer.weights}, std::pair{"logits", &layer.logits},
            std::pair{"query_norms", &layer.query_norms}, std::pair{"key_norms", &layer.key_norms},
            std::pair{"entropy", &layer.entropy}, std::pair{"bias", &layer.bias}}) {
        if (tensor->defined()) all[name] = python_tensor(*tensor);
      }
    }
    return all;
  }

  std::shared_ptr<Attention> module_;
  torch::OrderedDict<std::string, Tensor> parameters_;
  std::int64_t layer_;
};

// Errors.

void set_error(const char* type, const char* text) {
  const auto whole = py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::strlen(text)), "replace"));
  PyErr_SetObject(py::module_::import("attnlab.errors").attr(type).ptr(), whole.ptr());
}

/// What is thrown here as the classes of attnlab/errors.py.
void translate(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const ConfigError& error) {
    set_error("ConfigError", error.what());
  } catch (const ShapeError& error) {
    set_error("ShapeError", error.what());
  } catch (const TraitError& error) {
    set_error("TraitError", error.what());
  } catch (const PluginError& error) {
    set_error("PluginError", error.what());
  } catch (const Error& error) {
    set_error("AttnlabError", error.what());
  } catch (const c10::Error& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
  }
}

/// oneDNN's products use the stack pointer as one more register while they run, so that a signal's
/// handler must not write its frame there (runner/engine/start.cpp). Python's handlers run on the
/// thread's own stack for signals where it has one; the kernel prefers the main thread, which
/// imports this.
void give_signals_a_stack() {
  stack_t now{};
  if (::sigaltstack(nullptr, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0) return;
  static std::array<char, 1 << 16> room;
  stack_t own{};
  own.ss_sp = room.data();
  own.ss_size = room.size();
  ::sigaltstack(&own, nullptr);
}

}  // namespace
}  // namespace attnlab

PYBIND11_MODULE(_native, m) {
  using namespace py::literals;
  using attnlab::AttentionShape;
  using attnlab::Held;
  m.doc() = "attnlab's attentions in this process; use attnlab.Attention.";
  py::register_local_exception_translator(&attnlab::translate);
  attnlab::give_signals_a_stack();
  py::class_<attnlab::ForwardState>(
      m, "ForwardState",
      "What the layers of one forward pass share: make one for each pass and stack of layers, and "
      "give it to each layer as `state`.")
      .def(py::init<>());
  py::class_<Held>(m, "Attention")
      .def(py::init([](const std::string& name, const py::dict& options, const std::string& file,
                       int line, std::int64_t heads, std::int64_t head_dim, std::int64_t value_dim,
                       std::int64_t layer, std::int64_t layers, double dropout,
                       std::int64_t query_width, std::int64_t key_width, std::int64_t value_width,
                       std::uint64_t seed) {
             AttentionShape shape;
             shape.heads = heads;
             shape.head_dim = head_dim;
             shape.value_dim = value_dim;
             shape.layer = layer;
             shape.layers = layers;
             shape.dropout = dropout;
             shape.query_width = query_width;
             shape.key_width = key_width;
             shape.value_width = value_width;
             return std::make_unique<Held>(name, options, file, line, shape, seed);
           }),
           "name"_a, "options"_a, "file"_a, "line"_a, py::kw_only(), "heads"_a, "head_dim"_a,
           "value_dim"_a, "layer"_a, "layers"_a, "dropout"_a, "query_width"_a, "key_width"_a,
           "value_width"_a, "seed"_a)
      .def("parameters", &Held::parameters)
      .def("buffers", &Held::buffers)
      .def("traits", &Held::traits)
      .def("train", &Held::train)
      .def("after_step", &Held::after_step)
      .def("forward", &Held::forward, "tensors"_a, "causal"_a, "window"_a,
           "values_from_elsewhere"_a, "state"_a, "record"_a, "attached"_a);
}
