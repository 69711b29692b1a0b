// What a point transformer is made of; named ones are in point_transformer.presets.yaml.
#pragma once

#include "framework/config/options.h"

namespace attnlab {

struct PointTransformerOptions {
  std::string preset = "lite";
  std::vector<std::int64_t> encoder_depths, encoder_dims, encoder_heads;
  std::vector<std::int64_t> decoder_depths, decoder_dims, decoder_heads;
  std::int64_t patch_size = 0;
  double mlp_ratio = 4;
  double drop_path = 0.3, dropout = 0, attention_dropout = 0;
  std::string curves = "shuffled";
  std::string head = "point";

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("preset", preset, "sizes of a named model; lists below that are not empty override them");
    v("encoder_depths", encoder_depths, range(1, 10000),
      "blocks of each stage, from the finest voxels on; voxels double in size from stage to stage");
    v("encoder_dims", encoder_dims, range(1, 1 << 24), "channels of each stage");
    v("encoder_heads", encoder_heads, at_least(1), "attention heads of each stage");
    v("decoder_depths", decoder_depths, range(1, 10000),
      "blocks of each stage but the coarsest, from the finest voxels on");
    v("decoder_dims", decoder_dims, range(1, 1 << 24), "channels of each decoder stage");
    v("decoder_heads", decoder_heads, at_least(1), "attention heads of each decoder stage");
    v("patch_size", patch_size, at_least(0), "voxels per attention patch; 0: the preset's");
    v("mlp_ratio", mlp_ratio, range(0.01, 64),
      "hidden channels of the MLP, divided by its channels");
    v("drop_path", drop_path, range(0, 0.99), "probability of dropping a branch in the last block");
    v("dropout", dropout, range(0, 0.99), "after the attention and in the MLP");
    v("attention_dropout", attention_dropout, range(0, 0.99), "dropout of attention weights");
    v("curves", curves, one_of("shuffled", "fixed"),
      "order of the four curves in training: drawn for each batch and stage, or fixed; always "
      "fixed in evaluation");
    v("head", head, one_of("point", "cloud"),
      "classes of every voxel, or of a whole cloud (without a decoder)");
  }
};

/// @throws OptionError for lists whose lengths contradict, and for heads that do not divide.
void check(const PointTransformerOptions& options);

}  // namespace attnlab
