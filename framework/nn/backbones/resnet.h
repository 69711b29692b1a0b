// ResNet: the residual convolutional network of images.
//
//   stem: 7 x 7 convolution of stride 2, norm, ReLU, 3 x 3 maximum of stride 2
//   four stages of blocks, strides 4, 8, 16, 32:   x = ReLU(F(x) + x)
//     depth 18, 34: F = two 3 x 3 convolutions;  50, 101: 1 x 1, 3 x 3, 1 x 1 (four times as wide)
//
// The stride of a stage is that of its first 3 x 3 convolution (torchvision's "V1.5"). Names of
// parameters are torchvision's, so its checkpoints need no map.
// Source: He et al., Deep Residual Learning, CVPR 2016.
#pragma once

#include <string>
#include <vector>

#include "framework/nn/backbones/image_features.h"

namespace attnlab {

/// A convolution without bias, padded by half its side. Starts as He et al. 2015: normal, of
/// variance 2 / (side^2 out).
class Convolution : public torch::nn::Module {
 public:
  Convolution(std::int64_t in, std::int64_t out, std::int64_t side, std::int64_t stride);
  Tensor forward(const Tensor& x) const;
  std::int64_t stride() const { return stride_; }

  Tensor weight;  ///< [out, in, side, side]

 private:
  std::int64_t stride_, padding_;
};

/// Batch normalisation of maps [B, C, h, w]; a channel with a single number is normalised by the
/// running statistics (framework/nn/kernels/batch_statistics.h). Frozen, it keeps all four numbers
/// of a channel as they are, in training, too (torchvision's FrozenBatchNorm2d, but for its eps).
class MapNorm : public torch::nn::Module {
 public:
  MapNorm(std::int64_t channels, bool frozen);
  Tensor forward(const Tensor& x);

  /// [C]; the last two are buffers, and all are if it is frozen.
  Tensor weight, bias, running_mean, running_var;

 private:
  bool frozen_;
};

struct ResNetOptions {
  std::int64_t depth = 50;  ///< 18, 34, 50 or 101
  std::int64_t channels = 3;
  std::int64_t stages = 4;  ///< number of stages; 3 end at stride 16
  bool frozen_norm = false;
};

class ResNet : public torch::nn::Module {
 public:
  /// @throws OptionError for another depth.
  explicit ResNet(const ResNetOptions& options);
  /// The map of the last stage. @param x  images [B, channels, H, W], zeros where they are padded.
  ImageFeatures forward(const ImageFeatures& x);

  /// How deep a parameter of this name lies, for rates that fall with depth: 0 the stem, 1 and on
  /// the blocks.
  std::int64_t depth_of(const std::string& name) const;

  std::int64_t out_channels() const { return out_channels_; }
  std::int64_t stride() const { return stride_; }

 private:
  class Block;
  class Stage;

  std::shared_ptr<Convolution> conv1_;
  std::shared_ptr<MapNorm> bn1_;
  std::vector<std::shared_ptr<Stage>> stages_;
  std::int64_t out_channels_ = 64, stride_ = 4;
};

}  // namespace attnlab
