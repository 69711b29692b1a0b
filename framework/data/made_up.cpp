#include "framework/data/made_up.h"

#include "framework/core/files.h"

namespace attnlab {
namespace {

RandomStreams streams_of(const MadeUpOptions& options, const DatasetSetup& setup) {
  return options.data_seed < 0 ? setup.streams
                               : RandomStreams(static_cast<std::uint64_t>(options.data_seed));
}

/// Beside the splits' 0, 1, 2: what all examples share.
constexpr std::uint64_t kShared = 3;

}  // namespace

MadeUpDataset::MadeUpDataset(const std::string& name, const std::string& rule,
                             const MadeUpOptions& sizes, const std::string& options,
                             const DatasetSetup& setup)
    : sizes_(sizes), streams_(streams_of(sizes, setup)) {
  info_.name = name;
  info_.source = rule;
  info_.fingerprint = hex(fingerprint(name + ";" + options, streams_.key("synthetic")));
}

std::int64_t MadeUpDataset::size(Split split) const {
  return split == Split::train        ? sizes_.train
         : split == Split::validation ? sizes_.validation
                                      : sizes_.test;
}

NamedTensors MadeUpDataset::example(Split split, std::int64_t index, Random*) const {
  if (index < 0 || index >= size(split)) {
    throw DataError(info_.name + ": there is no example " + std::to_string(index) + " in " +
                    std::string(name_of(split)) + ", which has " + std::to_string(size(split)));
  }
  Random random = streams_.stream("synthetic", static_cast<std::uint64_t>(split),
                                  static_cast<std::uint64_t>(index));
  return make(split, random);
}

Random MadeUpDataset::shared_stream() const { return streams_.stream("synthetic", kShared); }

}  // namespace attnlab
