// IA-DETR's decoder: queries ask each other, then read values by keys, guided by their boxes.
#pragma once

#include "framework/nn/boxes/box_bias.h"
#include "plugins/models/ia_detr/heads.h"

namespace attnlab {

struct DecoderOptions {
  LayerSizes sizes;  ///< its `layer`: the first of 2 depth layers
  std::int64_t depth = 6, classes = 1, features = 0;
  std::int64_t bias_hidden = 0;  ///< of the bias from boxes; 0: no bias
  std::int64_t stride = 16;      ///< pixels from cell to cell
  bool look_forward_twice = true;
  double first_side = 0;  ///< what the first layer adds to width and height before it has learned
};

/// What the queries read, on a grid.
struct Memory {
  Tensor keys, values;  ///< [B, rows columns, dim]
  Tensor valid;         ///< [B, rows, columns] bool: which slots may be seen
  Tensor pixels;        ///< [B, 2] height and width of each image
};

struct Queries {
  Tensor content;         ///< [B, Q, dim]
  Tensor places;          ///< [B, Q, dim]
  Tensor boxes;           ///< [B, Q, 4] centred, in shares
  std::int64_t ones = 0;  ///< of them one-to-one; they and the others do not see each other
};

/// By layer: [B, L, Q, ...].
struct Answers {
  Tensor logits, boxes, features;  ///< features undefined: none
};

class Decoder : public torch::nn::Module {
 public:
  Decoder(const DecoderOptions& options, const AttentionBuilder& attention);
  Answers forward(const Queries& queries, const Memory& memory, AttentionTrace* trace) const;

 private:
  struct Layer {
    std::shared_ptr<ReadingBlock> asking, reading;
    std::shared_ptr<BoxBias> bias;  ///< null: none
    std::shared_ptr<MlpBlock> mlp;
    std::shared_ptr<Heads> heads;
  };

  DecoderOptions options_;
  std::vector<Layer> layers_;
  std::shared_ptr<LayerNorm> norm_;
};

}  // namespace attnlab
