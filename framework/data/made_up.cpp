#include "framework/data/made_up.h"

#include <fmt/format.h>

#include "framework/base/files.h"

namespace attnlab {
namespace {

RandomStreams streams_of(const MadeUpOptions& options, const DatasetSetup& setup) {
  return options.data_seed < 0 ? setup.streams
                               : RandomStreams(static_cast<std::uint64_t>(options.data_seed));
}

/// Beside the splits' 0, 1, 2: what all examples share.
constexpr std::uint64_t kShared = 3;

/// Bytes of the largest split that is kept.
constexpr std::size_t kMostKept = 64 << 20;

}  // namespace

MadeUpDataset::MadeUpDataset(const std::string& name, const std::string& rule,
                             const MadeUpOptions& sizes, const std::string& options,
                             const DatasetSetup& setup)
    : sizes_(sizes), streams_(streams_of(sizes, setup)) {
  info_.name = name;
  info_.source = rule;
  info_.fingerprint =
      hex(fingerprint(fmt::format("{};{}", name, options), streams_.key("synthetic")));
}

std::int64_t MadeUpDataset::size(Split split) const {
  return split == Split::train        ? sizes_.train
         : split == Split::validation ? sizes_.validation
                                      : sizes_.test;
}

NamedTensors MadeUpDataset::make_example(Split split, std::int64_t index, Random*) const {
  Random random = streams_.stream("synthetic", static_cast<std::uint64_t>(split),
                                  static_cast<std::uint64_t>(index));
  return make(split, random);
}

const Batch* MadeUpDataset::resident(Split split) const {
  Kept& kept = kept_.at(static_cast<std::size_t>(split));
  std::call_once(kept.made, [&] { keep(split, kept); });
  return kept.batch ? &*kept.batch : nullptr;
}

void MadeUpDataset::keep(Split split, Kept& kept) const {
  const std::int64_t count = size(split);
  if (count == 0) return;
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : example(split, 0, nullptr)) {
    if (!parse_field_name(name).axis.empty()) return;  // loaders take rows of examples alone
    bytes += tensor.nbytes();
  }
  if (bytes * static_cast<std::size_t>(count) > kMostKept) return;
  std::vector<NamedTensors> examples;
  examples.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) examples.push_back(example(split, i, nullptr));
  kept.batch = collate(examples);
}

Random MadeUpDataset::shared_stream() const { return streams_.stream("synthetic", kShared); }

}  // namespace attnlab
