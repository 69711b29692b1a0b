#include "framework/data/image/few_shot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace attnlab {
namespace {

/// How many of a class's images are taken.
std::int64_t wanted(const FewShotOptions& options, std::int64_t images) {
  if (options.per_class > 0) return options.per_class;
  return std::max<std::int64_t>(1, std::llround(options.share * static_cast<double>(images)));
}

}  // namespace

std::vector<std::int64_t> few_of_each_class(const std::vector<std::int64_t>& indices,
                                            const std::vector<std::int64_t>& labels,
                                            const DatasetInfo& info,
                                            const FewShotOptions& options) {
  if (!options.any()) return indices;
  if (options.per_class > 0 && options.share > 0) {
    throw OptionError("few_shot.share", "per_class says how many already; leave one of them out");
  }
  std::vector<std::vector<std::int64_t>> by_class(static_cast<std::size_t>(info.classes));
  for (const std::int64_t index : indices) {
    by_class.at(static_cast<std::size_t>(labels.at(static_cast<std::size_t>(index))))
        .push_back(index);
  }
  const RandomStreams streams(static_cast<std::uint64_t>(options.seed));
  std::vector<std::int64_t> few;
  for (std::size_t k = 0; k < by_class.size(); ++k) {
    const std::vector<std::int64_t>& images = by_class[k];
    const std::int64_t count = std::ssize(images);
    const std::int64_t take = wanted(options, count);
    if (take > count) {
      throw OptionError(
          options.per_class > 0 ? "few_shot.per_class" : "few_shot.share",
          fmt::format("class {} of '{}' has {} training images, not {}; ask for fewer, hold fewer "
                      "out for validation, or leave the class out of the data",
                      info.class_word(static_cast<std::int64_t>(k)), info.name, count, take));
    }
    const std::vector<std::int64_t> order = permutation(count, streams.stream("few_shot", k));
    for (std::int64_t i = 0; i < take; ++i) {
      few.push_back(images[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])]);
    }
  }
  std::sort(few.begin(), few.end());
  return few;
}

}  // namespace attnlab
