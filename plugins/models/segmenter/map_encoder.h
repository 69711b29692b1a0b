// Segmenter's other encoders: a Swin Transformer V2 or a ResNet, whose last map is the grid of
// tokens.
#pragma once

#include <string>
#include <vector>

#include "framework/config/options.h"
#include "framework/nn/backbones/resnet.h"
#include "framework/nn/backbones/swin.h"
#include "plugins/models/segmenter/encoder.h"

namespace attnlab {

struct MapEncoderOptions {
  std::string backbone = "vit", swin = "T";
  std::int64_t swin_window = 8, resnet = 50, stages = 4;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("backbone", backbone, one_of("vit", "swin", "resnet"),
      "the encoder: ViT, Swin V2 (attention in windows) or ResNet (without attention)");
    v("swin", swin, one_of("nano", "T", "S", "B"), "published sizes of swin; nano: 32 channels");
    v("swin_window", swin_window, range(1, 64), "side of Swin's windows in cells");
    v("resnet", resnet, range(18, 101), "layers of resnet: 18, 34, 50 or 101");
    v("stages", stages, range(1, 4),
      "for swin and resnet: number of stages; 3 stages end at stride 16");
  }
};

class MapEncoder {
 public:
  /// Registers the network, with its own names of parameters, as "encoder" of a module.
  /// @param drop_path  of swin's last block; from 0 in the first along a line
  /// @param image      [C, H, W]; H and W -1 where they differ
  /// @throws OptionError, also where the stride does not divide H and W.
  MapEncoder(torch::nn::Module& owner, const MapEncoderOptions& options, double drop_path,
             const std::vector<std::int64_t>& image, const AttentionBuilder& attention);

  /// @param images  [B, C, H, W], H and W multiples of the stride
  /// @throws ShapeError.
  PatchTokens forward(const Tensor& images, AttentionTrace* trace) const;

  std::int64_t channels() const;
  /// Trainable::depth of a parameter of the network.
  std::int64_t depth_of(const std::string& name) const;

 private:
  std::int64_t image_channels_, stride_ = 0;
  std::shared_ptr<Swin> swin_;  ///< one of both is null
  std::shared_ptr<ResNet> resnet_;
  Tensor first_;  ///< a parameter: of which type images become
};

}  // namespace attnlab
