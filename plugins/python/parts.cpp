#include "plugins/python/parts.h"

#include <map>

namespace attnlab::python {
namespace {

/// A value of a resolved configuration as Python has it.
py::object value_of(const Node& node) {
  if (node.is_list()) {
    py::list list;
    for (const Node& item : node.items()) list.append(value_of(item));
    return list;
  }
  if (!node.quoted()) {
    if (const auto truth = node.as_bool()) return py::bool_(*truth);
    if (const auto whole = node.as_int()) return py::int_(*whole);
    if (const auto number = node.as_double()) return py::float_(*number);
  }
  return py::str(node.text());
}

/// Modules below one of LibTorch's, by their paths; made where they are asked for first.
class Places {
 public:
  explicit Places(torch::nn::Module& top) : top_(&top) {}

  /// The module in which the last of these names stands.
  torch::nn::Module& of(const Names& names) {
    torch::nn::Module* place = top_;
    std::string path;
    for (std::size_t i = 0; i + 1 < names.size(); ++i) {
      path += names[i] + ".";
      std::shared_ptr<torch::nn::Module>& part = parts_[path];
      if (!part) {
        part = place->register_module(names[i], std::make_shared<torch::nn::Module>(names[i]));
      }
      place = part.get();
    }
    return *place;
  }

 private:
  torch::nn::Module* top_;
  std::map<std::string, std::shared_ptr<torch::nn::Module>> parts_;
};

}  // namespace

py::object read_class(const std::string& file, const std::string& name, Kind kind) {
  static const py::handle kRead = host("read");
  return ask<ConfigError>(kRead, file, name, std::string(name_of(kind)));
}

py::dict options_of(const Node& section) {
  py::dict options;
  if (const Node* own = section.find("options")) {
    for (const auto& [name, value] : own->entries()) options[py::str(name)] = value_of(value);
  }
  return options;
}

void share_tensors(torch::nn::Module& top, const py::object& tensors,
                   const std::vector<std::pair<Names, std::shared_ptr<Attention>>>& attentions) {
  Places places(top);
  for (const py::handle item : tensors) {
    const auto one = py::reinterpret_borrow<py::tuple>(item);
    const auto names = one[0].cast<Names>();
    const Tensor tensor = to_tensor(one[1].cast<py::object>());
    torch::nn::Module& place = places.of(names);
    if (one[2].cast<bool>()) {
      place.register_parameter(names.back(), tensor, tensor.requires_grad());
    } else {
      place.register_buffer(names.back(), tensor);
    }
  }
  for (const auto& [names, attention] : attentions) {
    places.of(names).register_module(names.back(), attention);
  }
}

}  // namespace attnlab::python
