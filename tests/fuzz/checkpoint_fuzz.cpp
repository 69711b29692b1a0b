// Fuzzes the reader of checkpoints and weights, as runs write them, into modules and an optimiser:
// whatever the bytes, they are read whole or refused with a DataError that names the file, and what
// is refused changes nothing. What is read as a checkpoint is a place where a run can stand.
// Code: framework/train/checkpoint.cpp framework/data/formats/safetensors.cpp
#include <cmath>

#include "framework/train/checkpoint.h"
#include "tests/fuzz/files_in_memory.h"

namespace attnlab::fuzz {
namespace {

const FileOwner kOwner{"hash", 0};

/// What a checkpoint is read into.
class Small : public torch::nn::Module {
 public:
  Small() : weight(register_parameter("weight", at::ones({2, 3}))) {
    register_buffer("steps", at::ones({1}, at::kLong));
  }
  Tensor weight;
};

struct Parts {
  Small module;
  Optimizer optimizer{{{"weight", module.weight}}, {}};
  NamedTensors carried{{"memory", at::ones({2})}};

  CheckpointParts all() { return {{{"model.", &module}}, optimizer, carried}; }

  /// Whether they are as they were made.
  bool untouched() const {
    return module.weight.equal(at::ones({2, 3})) && optimizer.steps() == 0 &&
           optimizer.state().at("exp_avg.weight").equal(at::zeros({2, 3})) &&
           carried.find("memory") != nullptr;
  }
};

const MemoryFolder& folder() {
  static const MemoryFolder made;
  return made;
}

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Without a checksum, as earlier versions wrote it: changes reach what comes after that.
std::string unsealed(const std::string& sealed) {
  TensorFile file = read_sealed(sealed);
  file.metadata.erase("checksum");
  const std::string path = folder().path() + "/unsealed";
  write_safetensors(path, file);
  return content_of(path);
}

void check(const Position& at) {
  for (const std::int64_t count :
       {at.step, at.evaluated_epochs, at.units, at.best.epoch, at.best.stale, at.metrics_bytes}) {
    if (count < 0) fail("a position with " + std::to_string(count));
  }
  for (const double duration :
       {at.seconds, at.processor_seconds, at.device_seconds, at.train_seconds, at.step_seconds}) {
    if (!(duration >= 0) || std::isinf(duration)) fail("a position without a time");
  }
}

/// @param read  reads the file into the parts
/// @returns whether it did.
template <class Read>
bool is_read_whole_or_refused(const std::string& path, Read&& read) {
  Parts parts;
  try {
    read(parts);
    return true;
  } catch (const DataError& error) {
    if (!parts.untouched()) fail("a file that is refused changed what it was read into");
    check_names(path, error);
    return false;
  }
}

}  // namespace

Target target() {
  Parts parts;
  const std::string weights = folder().path() + "/weights",
                    checkpoint = folder().path() + "/checkpoint";
  write_weights(weights, {{"model.", &parts.module}}, kOwner);
  folder().write("metrics.jsonl", "{\"step\":1}\n{\"step\":2}\n");
  Position position;
  position.step = 1;
  position.metrics_bytes = 11;
  write_checkpoint(checkpoint, parts.all(), position, kOwner);
  const std::string whole = content_of(weights);
  Target target;
  target.seeds = {content_of(checkpoint),
                  unsealed(checkpoint),
                  whole,
                  unsealed(weights),
                  whole.substr(0, whole.size() - 1),
                  ""};
  target.words = {"model.weight",
                  "model.steps",
                  "optimizer.step.weight",
                  "optimizer.exp_avg.weight",
                  "carried.",
                  "__metadata__",
                  "checksum",
                  "\"F32\"",
                  "\"I64\"",
                  "[2,3]",
                  "data_offsets",
                  "\"-1\"",
                  "\"nan\"",
                  "\"0x1p+9\"",
                  "{",
                  "}",
                  std::string(8, '\0')};
  return target;
}

}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  using fuzz::Parts;
  const std::string path =
      fuzz::folder().write("input", {reinterpret_cast<const char*>(data), size});
  const bool whole = fuzz::is_read_whole_or_refused(
      path, [&](Parts& parts) { fuzz::check(read_checkpoint(path, parts.all(), fuzz::kOwner)); });
  const bool weights = fuzz::is_read_whole_or_refused(path, [&](Parts& parts) {
    read_weights(path, {{"model.", &parts.module}}, fuzz::kOwner);
  });
  if (whole && !weights) fuzz::fail("a checkpoint without weights");
  return weights ? 0 : -1;
}
