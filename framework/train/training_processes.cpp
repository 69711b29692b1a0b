// What the processes of one run agree on: their weights, and the rows that each carries.
#include <fmt/format.h>

#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/data/formats/files.h"
#include "framework/train/training.h"

namespace attnlab {

/// All processes stand at the same step with the same weights, or the run cannot go on.
/// @param stands  "begins": what the others do
/// @throws DataError, in all of them.
void Training::agree_on_weights(const std::string& stands, const std::string& remedy) {
  if (world_.size() == 1) return;
  std::uint64_t hash = 0;
  for (const auto& [prefix, module] : modules_) {
    for (const Tensor& parameter : module->parameters()) {
      const Tensor dense = parameter.detach().to(at::kCPU).contiguous();
      hash =
          content_fingerprint({static_cast<const char*>(dense.data_ptr()), dense.nbytes()}, hash);
    }
  }
  const std::vector<std::string> all =
      world_.gather(fmt::format("step {}, weights {}", position_.step, hex(hash)));
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (all[i] == all.front()) continue;
    throw DataError(fmt::format("{}: {} {} at {}, and {} at {}; {}", folder_.path(),
                                world_.name(std::int64_t(i)), stands, all[i], world_.name(0),
                                all.front(), remedy));
  }
}

/// Of what a checkpoint carries: the rows of this process's parts.
void Training::keep_own_rows() {
  if (world_.size() == 1 || carried_.size() == 0) return;
  continuing_ = true;
  const OwnParts own = own_parts(world_, train_.parts);
  const std::int64_t rows = carried_.begin()->second.size(0);
  const std::int64_t begin = part_begin(rows, own.first, train_.parts);
  const std::int64_t end = part_begin(rows, own.first + own.count, train_.parts);
  carried_ = carried_rows(carried_, begin, end - begin);
}

/// Each part of batches that continue each other has rows of its own.
void Training::check_rows(const EpochPlan& plan) const {
  if (!plan.continues || plan.ends.empty() || plan.ends.front() >= train_.parts) return;
  const Node* const key = find_key(run_.experiment.resolved, "train.parts");
  throw ConfigError(
      key == nullptr ? Place() : key->place(),
      fmt::format("train.parts: {} is more than the {} rows of a batch, which continue each other; "
                  "take fewer parts, or more rows (train.batch_size)",
                  train_.parts, plan.ends.front()));
}

/// Time of the processors and of the GPUs so far. Of a process that does not answer any more, as
/// much as of this one.
void Training::count_use() {
  const auto processes = static_cast<double>(world_.size());
  double processors = processor_seconds() - processor_began_;
  if (lost_) {
    processors *= processes;
  } else if (world_.size() > 1) {
    const std::vector<std::string> all = world_.gather(fmt::format("{}", processors));
    processors = 0;
    for (const std::string& one : all) processors += parsed_number<double>(one).value_or(0);
  }
  const auto together = static_cast<double>(run_.together);
  position_.processor_seconds = before_.processor_seconds + processors / together;
  if (run_.device.is_cpu()) return;
  position_.device_seconds = before_.device_seconds + seconds_since(began_) * processes / together;
}

/// What is carried, of all processes.
NamedTensors Training::all_rows() {
  if (world_.size() == 1 || !continuing_) return carried_;
  std::vector<NamedTensors> parts;
  for (const std::string& text : world_.gather(packed(carried_))) {
    parts.push_back(unpacked(text));
  }
  return joined_rows(parts);
}

}  // namespace attnlab
