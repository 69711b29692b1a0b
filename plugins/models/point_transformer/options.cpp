#include "plugins/models/point_transformer/options.h"

#include <fmt/format.h>

#include <cmath>

namespace attnlab {
namespace {

using Sizes = std::vector<std::int64_t>;

struct Preset {
  Sizes encoder_depths, encoder_dims, encoder_heads, decoder_depths, decoder_dims, decoder_heads;
  std::int64_t patch_size;
};

Preset preset_of(const std::string& name) {
  if (name == "ptv3") {
    return {{2, 2, 2, 6, 2},
            {32, 64, 128, 256, 512},
            {2, 4, 8, 16, 32},
            {2, 2, 2, 2},
            {64, 64, 128, 256},
            {4, 4, 8, 16},
            1024};
  }
  return {{2, 2, 2}, {32, 64, 128}, {2, 4, 8}, {1, 1}, {32, 64}, {2, 4}, 128};
}

void fill(Sizes& given, const Sizes& preset) {
  if (given.empty()) given = preset;
}

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

PointTransformerOptions resolved(PointTransformerOptions options) {
  const Preset preset = preset_of(options.preset);
  fill(options.encoder_depths, preset.encoder_depths);
  fill(options.encoder_dims, preset.encoder_dims);
  fill(options.encoder_heads, preset.encoder_heads);
  fill(options.decoder_depths, preset.decoder_depths);
  fill(options.decoder_dims, preset.decoder_dims);
  fill(options.decoder_heads, preset.decoder_heads);
  if (options.patch_size == 0) options.patch_size = preset.patch_size;
  const std::size_t stages = options.encoder_depths.size();
  expect_length("encoder_dims", options.encoder_dims, stages);
  expect_length("encoder_heads", options.encoder_heads, stages);
  expect_heads("encoder_heads", options.encoder_heads, options.encoder_dims);
  if (options.head == "cloud") return options;
  expect_length("decoder_depths", options.decoder_depths, stages - 1);
  expect_length("decoder_dims", options.decoder_dims, stages - 1);
  expect_length("decoder_heads", options.decoder_heads, stages - 1);
  expect_heads("decoder_heads", options.decoder_heads, options.decoder_dims);
  return options;
}

}  // namespace attnlab
