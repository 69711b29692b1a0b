#include "framework/train/checkpoint.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <set>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/data/formats/files.h"
#include "framework/tensor/saved_layout.h"

namespace attnlab {
namespace {

const std::string kOptimizer = "optimizer.";
const std::string kCarried = "carried.";

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
  visit("units", position.units);
  visit("epoch_loss", position.epoch_loss);
  visit("best_epoch", position.best.epoch);
  visit("best_value", position.best.value);
  visit("best_stale", position.best.stale);
  visit("last_epoch_loss", position.last_epoch_loss);
  visit("metrics_bytes", position.metrics_bytes);
  visit("seconds", position.seconds);
  visit("processor_seconds", position.processor_seconds);
  visit("device_seconds", position.device_seconds);
  visit("train_seconds", position.train_seconds);
  visit("step_seconds", position.step_seconds);
  visit("loss_scale", position.loss_scale.value);
  visit("loss_scale_steps", position.loss_scale.steps);
}

using TensorList = std::vector<std::pair<std::string, Tensor>>;

TensorList tensors_of(const torch::nn::Module& module) {
  TensorList tensors;
  for (const auto& item : module.named_parameters()) tensors.emplace_back(item.key(), item.value());
  for (const auto& item : module.named_buffers()) tensors.emplace_back(item.key(), item.value());
  return tensors;
}

/// "model." as messages call it: "the model".
std::string owner_of(const std::string& prefix) {
  if (prefix == "model.") return "the model";
  if (prefix == "task.") return "the task";
  return "the average of " + owner_of(prefix.substr(prefix.find('.') + 1));
}

constexpr const char* kChecksum = "checksum";         // of all else in the file
constexpr const char* kLinesCheck = "metrics_check";  // of the lines that belong to it
constexpr const char* kSeed = "seed";
constexpr const char* kEpoch = "epoch";  // of weights alone: after which they stood so

/// Of names, shapes, dtypes and bytes of all tensors, and of all metadata but itself.
/// @param numbers  as of `write_safetensors`
std::string checksum_of(const TensorFile& file, const TensorNumbers& numbers = nullptr) {
  std::uint64_t hash = 0;
  for (const auto& [name, tensor] : file.tensors) {
    const Tensor held = numbers ? numbers(name, tensor) : tensor;
    const Tensor dense = held.detach().to(at::kCPU).contiguous();
    hash = content_fingerprint(fmt::format("{} {}", name, describe(dense)), hash);
    hash = content_fingerprint({static_cast<const char*>(dense.data_ptr()), dense.nbytes()}, hash);
  }
  for (const auto& [key, text] : file.metadata) {
    if (key != kChecksum) hash = content_fingerprint(fmt::format("{}={}", key, text), hash);
  }
  return hex(hash);
}

/// Of the beginning of the metrics.jsonl beside a checkpoint; empty where that is shorter.
std::string check_of_lines(const std::string& checkpoint, std::int64_t bytes) {
  const std::filesystem::path path =
      std::filesystem::path(checkpoint).replace_filename("metrics.jsonl");
  std::error_code error;
  if (bytes == 0 || !std::filesystem::is_regular_file(path, error)) return "";
  const auto begin = file_fingerprint(path.string(), static_cast<std::uint64_t>(bytes));
  return begin ? hex(*begin) : "";
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), file_(read_sealed(path)) {}

  /// The lines that were written before the checkpoint are those that it saw.
  void check_lines(std::int64_t bytes) const {
    const auto check = file_.metadata.find(kLinesCheck);
    if (check == file_.metadata.end() || check->second == check_of_lines(path_, bytes)) return;
    throw DataError(fmt::format(
        "{}: the metrics.jsonl beside it is missing or was changed since; put it back, or start a "
        "new run",
        path_));
  }

  Position position() const {
    Position position;
    each_field(position, [&](const std::string& name, auto& value) {
      const bool younger =
          name == "processor_seconds" || name == "device_seconds" || name.starts_with("loss_scale");
      if (younger && file_.metadata.count(name) == 0) return;  // of an earlier version
      value = number(name, value);
      constexpr bool kCount = std::is_integral_v<std::remove_reference_t<decltype(value)>>;
      constexpr double kMost = 9007199254740992.0;  // 2^53: no run counts so far
      const auto size = static_cast<double>(value);
      const bool duration = name.ends_with("seconds");
      if ((kCount || duration) && !(size >= 0 && size < kMost)) refuse_value(name);
      if (name == "loss_scale" && !(size > 0 && std::isfinite(size))) refuse_value(name);
    });
    return position;
  }

  std::int64_t epoch() const {
    return file_.metadata.count(kEpoch) == 0 ? 0 : number(kEpoch, std::int64_t{});
  }

  void check_owner(const FileOwner& owner) const {
    if (text("hash") != owner.hash) {
      throw DataError(fmt::format(
          "{}: belongs to another configuration (hash {}, this run has {}); start a new run", path_,
          one_line(text("hash"), 100), owner.hash));
    }
    if (file_.metadata.count(kSeed) == 0) return;  // of an earlier version
    const std::int64_t seed = number(kSeed, owner.seed);
    if (seed == owner.seed) return;
    throw DataError(fmt::format(
        "{}: belongs to the run of seed {}, this run has seed {}; put its own file back, "
        "or start a new run",
        path_, seed, owner.seed));
  }

  /// The tensors of a module, in its order; all checked.
  std::vector<Tensor> module(const std::string& prefix, const torch::nn::Module& module) const {
    std::vector<std::string> problems;
    std::vector<Tensor> found;
    std::set<std::string> known;
    for (const auto& [name, tensor] : tensors_of(module)) {
      known.insert(prefix + name);
      const Tensor* saved = file_.tensors.find(prefix + name);
      if (saved == nullptr) {
        problems.push_back(name + " is missing");
      } else if (saved->sizes() != tensor.sizes() || saved->scalar_type() != tensor.scalar_type()) {
        problems.push_back(
            fmt::format("{} is {}, expected {}", name, describe(*saved), describe(tensor)));
      } else {
        found.push_back(*saved);
      }
    }
    for (const auto& [name, tensor] : file_.tensors) {
      if (name.starts_with(prefix) && known.count(name) == 0) {
        problems.push_back(fmt::format(
            "{} is unknown to {}", one_line(name.substr(prefix.size()), 100), owner_of(prefix)));
      }
    }
    if (problems.empty()) return found;
    throw DataError(
        fmt::format("{}: does not fit {}: {}", path_, owner_of(prefix), join(problems, "; ")));
  }

  /// All tensors whose names begin so, by the rest of the name.
  NamedTensors all_of(const std::string& prefix) const {
    NamedTensors all;
    for (const auto& [name, tensor] : file_.tensors) {
      if (name.starts_with(prefix)) all.set(name.substr(prefix.size()), tensor);
    }
    return all;
  }

 private:
  const std::string& text(const std::string& name) const {
    const auto entry = file_.metadata.find(name);
    if (entry == file_.metadata.end()) {
      throw DataError(
          fmt::format("{}: is not a checkpoint of a run: '{}' is missing", path_, name));
    }
    return entry->second;
  }

  template <class T>
  T number(const std::string& name, T) const {
    const std::string& digits = text(name);
    if constexpr (std::is_same_v<T, double>) {
      char* end = nullptr;
      const double value = std::strtod(digits.c_str(), &end);  // reads %a exactly
      if (!digits.empty() && end == digits.c_str() + digits.size()) return value;
    } else {
      if (const auto value = parsed_number<T>(digits)) return *value;
    }
    refuse_value(name);
  }

  [[noreturn]] void refuse_value(const std::string& name) const {
    throw DataError(fmt::format("{}: damaged: {} is '{}'", path_, name, one_line(text(name), 100)));
  }

  std::string path_;
  TensorFile file_;
};

TensorFile file_of(const SavedModules& modules, const FileOwner& owner) {
  TensorFile file;
  for (const auto& [prefix, module] : modules) {
    for (const auto& [name, tensor] : tensors_of(*module)) {
      file.tensors.set(prefix + name, tensor.detach());
    }
    for (const auto& [entry, layout] : saved_layouts(*module)) {
      file.metadata[entry] = layout->layout_entry().second;
    }
  }
  file.metadata["hash"] = owner.hash;
  file.metadata[kSeed] = std::to_string(owner.seed);
  return file;
}

/// Tensors that were read for modules and are not in them yet.
class Pending {
 public:
  Pending(const Reader& reader, const SavedModules& modules) : modules_(modules) {
    for (const auto& [prefix, module] : modules) {
      saved_.push_back(reader.module(prefix, *module));
    }
  }

  void copy() const {
    const c10::NoGradGuard no_grad;
    for (std::size_t m = 0; m < modules_.size(); ++m) {
      std::size_t index = 0;
      for (auto& [name, tensor] : tensors_of(*modules_[m].second)) {
        tensor.copy_(saved_[m][index++]);
      }
    }
  }

 private:
  const SavedModules& modules_;
  std::vector<std::vector<Tensor>> saved_;
};

}  // namespace

TensorFile read_sealed(const std::string& path) {
  TensorFile file = read_safetensors(path);
  const auto checksum = file.metadata.find(kChecksum);
  const bool sealed = checksum != file.metadata.end() && file.metadata.count("hash") > 0;
  if (!sealed || checksum->second == checksum_of(file)) return file;
  throw DataError(
      fmt::format("{}: damaged: its content does not fit its checksum; take a copy of it, or start "
                  "a new run",
                  path));
}

void write_sealed(const std::string& path, TensorFile file, const TensorNumbers& numbers) {
  file.metadata[kChecksum] = checksum_of(file, numbers);
  write_safetensors(path, file, numbers);
}

SavedModules modules_of(const BuiltRun& run) {
  SavedModules modules = {{"model.", run.model.get()}, {"task.", run.task.get()}};
  if (run.average_model != nullptr) {
    modules.emplace_back("average.model.", run.average_model.get());
    modules.emplace_back("average.task.", run.average_task.get());
  }
  return modules;
}

void write_checkpoint(const std::string& path, const CheckpointParts& parts,
                      const Position& position, const FileOwner& owner) {
  TensorFile file = file_of(parts.modules, owner);
  for (const auto& [name, tensor] : parts.optimizer.state()) {
    file.tensors.set(kOptimizer + name, tensor);
  }
  for (const auto& [name, tensor] : parts.carried) file.tensors.set(kCarried + name, tensor);
  each_field(position, [&](const char* name, auto value) {
    if constexpr (std::is_same_v<decltype(value), double>) {
      file.metadata[name] = exact(value);
    } else {
      file.metadata[name] = std::to_string(value);
    }
  });
  const std::string lines = check_of_lines(path, position.metrics_bytes);
  if (!lines.empty()) file.metadata[kLinesCheck] = lines;
  if (parts.optimizer.is_whole()) return write_sealed(path, std::move(file));
  // One tensor at a time: all processes' shares may be more than this one has room for.
  write_sealed(path, std::move(file), [&](const std::string& name, const Tensor& tensor) {
    return tensor.is_meta() ? parts.optimizer.collect(name.substr(kOptimizer.size())) : tensor;
  });
  parts.optimizer.end_collecting();
}

Position read_checkpoint(const std::string& path, const CheckpointParts& parts,
                         const FileOwner& owner) {
  const Reader reader(path);
  reader.check_owner(owner);
  const Position position = reader.position();
  reader.check_lines(position.metrics_bytes);
  const Pending pending(reader, parts.modules);
  try {
    parts.optimizer.load_state(reader.all_of(kOptimizer));
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}: {}", path, error.what()));
  }
  parts.carried = reader.all_of(kCarried);
  pending.copy();
  return position;
}

void write_weights(const std::string& path, const SavedModules& modules, const FileOwner& owner,
                   std::int64_t epoch) {
  TensorFile file = file_of(modules, owner);
  if (epoch > 0) file.metadata[kEpoch] = std::to_string(epoch);
  write_sealed(path, std::move(file));
}

std::int64_t epoch_of_weights(const std::string& path) { return Reader(path).epoch(); }

void read_weights(const std::string& path, const SavedModules& modules, const FileOwner& owner) {
  const Reader reader(path);
  reader.check_owner(owner);
  Pending(reader, modules).copy();
}

}  // namespace attnlab
