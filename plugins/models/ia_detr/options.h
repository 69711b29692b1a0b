// The options of IA-DETR.
#pragma once

#include "framework/config/options.h"

namespace attnlab {

struct IaDetrOptions {
  std::string decoder = "indirect";
  std::string backbone = "swin";
  std::string swin = "S";
  std::int64_t window = 8;
  std::int64_t resnet = 50;
  std::int64_t stride = 16;
  std::int64_t dim = 256, heads = 8, hidden = 2048, depth = 6;
  std::int64_t encoder_depth = 0;
  std::int64_t queries = 300, many_queries = 1500;
  bool proposals = true;
  bool look_forward_twice = true;
  std::int64_t bias_hidden = 512;
  bool contrast = false;
  std::int64_t feature_dim = 128;
  double dropout = 0, drop_path = -1;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("decoder", decoder, one_of("indirect", "misaligned", "double_cross", "plain"),
      "indirect: keys of the prompt, values of the image, bias from boxes; misaligned: without the "
      "bias; double_cross: the image attends to the prompt first; plain: no prompt, all classes");
    v("backbone", backbone, one_of("swin", "resnet"),
      "network that computes an image's feature map");
    v("swin", swin, one_of("nano", "T", "S", "B"), "for backbone swin: its size");
    v("window", window, range(1, 64), "for backbone swin: side of a window in cells");
    v("resnet", resnet, range(18, 101), "for backbone resnet: 18, 34, 50 or 101 layers");
    v("stride", stride, range(4, 32), "pixels per cell of the feature map: 4, 8, 16 or 32");
    v("dim", dim, range(8, 1 << 24), "channels of a token; a multiple of 4 and of heads");
    v("heads", heads, at_least(1), "attention heads");
    v("hidden", hidden, at_least(1), "hidden channels of an MLP");
    v("depth", depth, range(1, 10000), "decoder layers; also layers of the first cross-attention");
    v("encoder_depth", encoder_depth, range(0, 10000), "layers of self-attention on each map");
    v("queries", queries, at_least(1), "one-to-one queries: predictions per image");
    v("many_queries", many_queries, at_least(0), "one-to-many queries, only in training");
    v("proposals", proposals,
      "queries begin at the best places of the image (two-stage); false: at learned places");
    v("look_forward_twice", look_forward_twice,
      "a layer's boxes also give gradients to the layer before");
    v("bias_hidden", bias_hidden, at_least(1), "hidden channels of the bias from boxes");
    v("contrast", contrast, "give features of queries, for the contrastive loss of stage one");
    v("feature_dim", feature_dim, at_least(1), "channels of these features");
    v("dropout", dropout, range(0, 0.99), "after attention and MLP");
    v("drop_path", drop_path, range(-1, 0.99),
      "for backbone swin: probability of dropping a branch in the last block; -1: the preset's");
  }
};

}  // namespace attnlab
