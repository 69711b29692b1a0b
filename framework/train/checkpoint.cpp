#include "framework/train/checkpoint.h"

#include <c10/core/GradMode.h>

#include <charconv>
#include <cstdio>
#include <set>

#include "framework/base/text.h"
#include "framework/data/formats/safetensors.h"

namespace attnlab {
namespace {

const std::string kModel = "model.";
const std::string kOptimizer = "optimizer.";

/// Hexadecimal: reads back as exactly the same double.
std::string exact(double value) {
  char text[48];
  std::snprintf(text, sizeof text, "%a", value);
  return text;
}

/// Visits every field of a position with the name it has in the file.
template <class AnyPosition, class Visit>
void each_field(AnyPosition& position, Visit&& visit) {
  visit("step", position.step);
  visit("evaluated_epochs", position.evaluated_epochs);
  visit("epoch_loss", position.epoch_loss);
  visit("best_epoch", position.best.epoch);
  visit("best_value", position.best.value);
  visit("best_stale", position.best.stale);
  visit("last_epoch_loss", position.last_epoch_loss);
  visit("metrics_bytes", position.metrics_bytes);
  visit("seconds", position.seconds);
  visit("train_seconds", position.train_seconds);
  visit("step_seconds", position.step_seconds);
}

std::vector<std::pair<std::string, Tensor>> model_tensors(const Model& model) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const auto& item : model.named_parameters()) tensors.emplace_back(item.key(), item.value());
  for (const auto& item : model.named_buffers()) tensors.emplace_back(item.key(), item.value());
  return tensors;
}

class Reader {
 public:
  Reader(const std::string& path, TensorFile file) : path_(path), file_(std::move(file)) {}

  Position position() const {
    Position position;
    each_field(position, [&](const char* name, auto& value) { value = number(name, value); });
    return position;
  }

  void check_hash(const std::string& hash) const {
    if (text("hash") == hash) return;
    throw DataError(path_ + ": belongs to another configuration (hash " + text("hash") +
                    ", this run has " + hash + "); start a new run");
  }

  /// The tensors for the model, in its order; all checked.
  std::vector<Tensor> model(const Model& model) const {
    std::vector<std::string> problems;
    std::vector<Tensor> found;
    std::set<std::string> known;
    for (const auto& [name, tensor] : model_tensors(model)) {
      known.insert(kModel + name);
      const Tensor* saved = file_.tensors.find(kModel + name);
      if (saved == nullptr) {
        problems.push_back(name + " is missing");
      } else if (saved->sizes() != tensor.sizes() || saved->scalar_type() != tensor.scalar_type()) {
        problems.push_back(name + " is " + describe(*saved) + ", expected " + describe(tensor));
      } else {
        found.push_back(*saved);
      }
    }
    for (const auto& [name, tensor] : file_.tensors) {
      if (name.rfind(kModel, 0) == 0 && known.count(name) == 0) {
        problems.push_back(name.substr(kModel.size()) + " is unknown to the model");
      }
    }
    if (!problems.empty()) {
      throw DataError(path_ + ": does not fit the model: " + join(problems, "; "));
    }
    return found;
  }

  NamedTensors optimizer() const {
    NamedTensors state;
    for (const auto& [name, tensor] : file_.tensors) {
      if (name.rfind(kOptimizer, 0) == 0) state.set(name.substr(kOptimizer.size()), tensor);
    }
    return state;
  }

 private:
  const std::string& text(const std::string& name) const {
    const auto entry = file_.metadata.find(name);
    if (entry == file_.metadata.end()) {
      throw DataError(path_ + ": is no checkpoint of a run: '" + name + "' is missing");
    }
    return entry->second;
  }

  template <class T>
  T number(const std::string& name, T) const {
    const std::string& digits = text(name);
    if constexpr (std::is_same_v<T, double>) {
      char* end = nullptr;
      const double value = std::strtod(digits.c_str(), &end);  // reads %a exactly
      if (!digits.empty() && *end == '\0') return value;
    } else {
      T value{};
      const char* end = digits.data() + digits.size();
      const auto result = std::from_chars(digits.data(), end, value);
      if (result.ec == std::errc() && result.ptr == end) return value;
    }
    throw DataError(path_ + ": damaged: " + name + " is '" + digits + "'");
  }

  std::string path_;
  TensorFile file_;
};

TensorFile model_file(const Model& model, const std::string& hash) {
  TensorFile file;
  for (const auto& [name, tensor] : model_tensors(model)) {
    file.tensors.set(kModel + name, tensor.detach());
  }
  file.metadata["hash"] = hash;
  return file;
}

void copy_into(const Model& model, const std::vector<Tensor>& saved) {
  const c10::NoGradGuard no_grad;
  std::size_t index = 0;
  for (auto& [name, tensor] : model_tensors(model)) tensor.copy_(saved[index++]);
}

}  // namespace

void write_checkpoint(const std::string& path, const Model& model, const Optimizer& optimizer,
                      const Position& position, const std::string& hash) {
  TensorFile file = model_file(model, hash);
  for (const auto& [name, tensor] : optimizer.state()) {
    file.tensors.set(kOptimizer + name, tensor);
  }
  each_field(position, [&](const char* name, auto value) {
    if constexpr (std::is_same_v<decltype(value), double>) {
      file.metadata[name] = exact(value);
    } else {
      file.metadata[name] = std::to_string(value);
    }
  });
  write_safetensors(path, file);
}

Position read_checkpoint(const std::string& path, Model& model, Optimizer* optimizer,
                         const std::string& hash) {
  const Reader reader(path, read_safetensors(path));
  reader.check_hash(hash);
  const Position position = reader.position();
  const std::vector<Tensor> saved = reader.model(model);
  if (optimizer != nullptr) {
    try {
      optimizer->load_state(reader.optimizer());
    } catch (const DataError& error) {
      throw DataError(path + ": " + error.what());
    }
  }
  copy_into(model, saved);
  return position;
}

void write_model(const std::string& path, const Model& model, const std::string& hash) {
  write_safetensors(path, model_file(model, hash));
}

void read_model(const std::string& path, Model& model, const std::string& hash) {
  const Reader reader(path, read_safetensors(path));
  reader.check_hash(hash);
  copy_into(model, reader.model(model));
}

}  // namespace attnlab
