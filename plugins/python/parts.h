// What attentions, models and datasets in Python share: what their files say, their options, and
// the tensors of their modules.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/contracts/dataset.h"
#include "framework/contracts/model.h"
#include "framework/manifest/schema.h"
#include "plugins/python/interpreter.h"

namespace attnlab::python {

/// @param section  {file, class, options}, resolved
/// @throws ConfigError, PluginError.
std::shared_ptr<Model> build_model(const Node& section, const ModelSetup& setup);
std::shared_ptr<Dataset> build_dataset(const Node& section, const DatasetSetup& setup);

// ---- with the lock

/// What the text of a file says of a class, a dictionary (python/attnlab/_plugin_file.py).
/// @throws ConfigError with file, line and column.
py::object read_class(const std::string& file, const std::string& name, Kind kind);

/// The options of a class as Python has them.
py::dict options_of(const Node& section);

/// Names from a module down to what is below it: {"layers", "0", "weight"}.
using Names = std::vector<std::string>;

/// Registers parameters and buffers of a Python module below one of LibTorch's, the very same
/// tensors under their names.
/// @param tensors     of attnlab._host.Hosted: (names, tensor, whether it is a parameter)
/// @param attentions  modules that stand below it, with what they have registered themselves
void share_tensors(
    torch::nn::Module& top, const py::object& tensors,
    const std::vector<std::pair<Names, std::shared_ptr<Attention>>>& attentions = {});

// ---- without

/// LibTorch's `to` gives whole numbers and truth values the dtype of the others, too; Python's
/// leaves them.
template <class Move>
void keep_whole_numbers(torch::nn::Module& module, const Move& move) {
  std::vector<std::pair<Tensor, Tensor>> kept;  // a buffer, and its numbers
  for (const auto& item : module.named_buffers()) {
    const Tensor& buffer = item.value();
    if (!buffer.is_floating_point()) kept.emplace_back(buffer, buffer.detach().clone());
  }
  move();
  for (const auto& [buffer, numbers] : kept) buffer.set_data(numbers.to(buffer.device()));
}

}  // namespace attnlab::python
