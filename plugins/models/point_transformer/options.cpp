#include "plugins/models/point_transformer/options.h"

#include <fmt/format.h>

namespace attnlab {
namespace {

using Sizes = std::vector<std::int64_t>;

void expect_length(const char* name, const Sizes& sizes, std::size_t length) {
  if (sizes.size() == length) return;
  throw OptionError(name, fmt::format("has {} numbers, expected {}: encoder lists have one for "
                                      "each stage, decoder lists one fewer",
                                      sizes.size(), length));
}

void expect_heads(const char* name, const Sizes& heads, const Sizes& dims) {
  for (std::size_t i = 0; i < heads.size(); ++i) {
    if (dims[i] % heads[i] == 0) continue;
    throw OptionError(
        name, fmt::format("{} heads do not divide {} channels; change either", heads[i], dims[i]));
  }
}

}  // namespace

void check(const PointTransformerOptions& options) {
  const std::size_t stages = options.encoder_depths.size();
  expect_length("encoder_dims", options.encoder_dims, stages);
  expect_length("encoder_heads", options.encoder_heads, stages);
  expect_heads("encoder_heads", options.encoder_heads, options.encoder_dims);
  if (options.head == "cloud") return;
  expect_length("decoder_depths", options.decoder_depths, stages - 1);
  expect_length("decoder_dims", options.decoder_dims, stages - 1);
  expect_length("decoder_heads", options.decoder_heads, stages - 1);
  expect_heads("decoder_heads", options.decoder_heads, options.decoder_dims);
}

}  // namespace attnlab
