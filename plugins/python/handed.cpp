#include "plugins/python/handed.h"

#include <c10/util/Exception.h>

#include <string>

#include "plugins/python/input_fields.h"

namespace attnlab::python {
namespace {

py::list names_in(const std::string& path) {
  py::list names;
  std::size_t begin = 0;
  for (std::size_t dot = 0; dot != std::string::npos; begin = dot + 1) {
    dot = path.find('.', begin);
    names.append(py::str(path.substr(begin, dot == std::string::npos ? dot : dot - begin)));
  }
  return names;
}

void append(const torch::OrderedDict<std::string, Tensor>& tensors, bool learned, py::list& out) {
  for (const auto& item : tensors) {
    if (!item.value().defined()) continue;
    out.append(py::make_tuple(names_in(item.key()), to_python(item.value()), py::bool_(learned)));
  }
}

}  // namespace

py::list Handed::tensors() const {
  py::list all;
  append(attention_->named_parameters(), true, all);
  append(attention_->named_buffers(), false, all);
  return all;
}

py::dict Handed::traits() const {
  py::dict all;
  attention_->traits().each(
      [&](const char* name, bool declared) { all[name] = py::bool_(declared); });
  return all;
}

py::object Handed::call(const py::dict& tensors, bool causal, std::int64_t window,
                        bool values_from_elsewhere) const {
  AttentionInput input;
  for (const auto& [name, field] : fields_of(input)) {
    if (!tensors.contains(name)) continue;
    const py::object given = tensors[name];
    if (!THPVariable_Check(given.ptr())) {
      throw ShapeError(std::string("attention input: ") + name + " must be a torch.Tensor, found " +
                       Py_TYPE(given.ptr())->tp_name);
    }
    *field = THPVariable_Unpack(given.ptr());
  }
  input.visible.causal = causal;
  input.visible.window = window;
  input.values_from_elsewhere = values_from_elsewhere;
  AttentionContext context{attention_->shape().layer, pass_->state, pass_->trace};
  Tensor out;
  {
    const py::gil_scoped_release unlocked;
    try {
      out = attention_->forward(input, context);
    } catch (const c10::Error& error) {
      throw Error(error.what_without_backtrace());
    }
  }
  return to_python(out);
}

void add_handed(py::module_& module) {
  py::class_<Handed>(module, "Attention", py::module_local())
      .def("tensors", &Handed::tensors)
      .def("traits", &Handed::traits)
      .def("train", &Handed::train)
      .def("call", &Handed::call);
}

}  // namespace attnlab::python
