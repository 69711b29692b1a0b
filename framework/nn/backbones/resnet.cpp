#include "framework/nn/backbones/resnet.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "framework/nn/kernels/batch_statistics.h"
#include "framework/nn/kernels/precision.h"

namespace attnlab {

Convolution::Convolution(std::int64_t in, std::int64_t out, std::int64_t side, std::int64_t stride)
    : stride_(stride), padding_(side / 2) {
  const double deviation = std::sqrt(2.0 / static_cast<double>(side * side * out));
  weight = register_parameter("weight", at::empty({out, in, side, side}).normal_(0, deviation));
}

Tensor Convolution::forward(const Tensor& x) const {
  return convolution(x, weight, {}, stride_, padding_);
}

MapNorm::MapNorm(std::int64_t channels, bool frozen) : frozen_(frozen) {
  if (frozen) {
    weight = register_buffer("weight", at::ones({channels}));
    bias = register_buffer("bias", at::zeros({channels}));
  } else {
    weight = register_parameter("weight", at::ones({channels}));
    bias = register_parameter("bias", at::zeros({channels}));
  }
  running_mean = register_buffer("running_mean", at::zeros({channels}));
  running_var = register_buffer("running_var", at::ones({channels}));
}

Tensor MapNorm::forward(const Tensor& x) {
  const bool learns = is_training() && !frozen_ && has_statistics(x.numel() / x.size(1));
  return at::batch_norm(x, weight, bias, running_mean, running_var, learns, 0.1, 1e-5,
                        /*cudnn_enabled=*/true);
}

class ResNet::Block : public torch::nn::Module {
 public:
  Block(std::int64_t in, std::int64_t width, std::int64_t stride, bool wide, bool frozen) {
    const std::int64_t out = wide ? 4 * width : width;
    if (wide) {
      add(in, width, 1, 1, frozen);
      add(width, width, 3, stride, frozen);
      add(width, out, 1, 1, frozen);
    } else {
      add(in, width, 3, stride, frozen);
      add(width, width, 3, 1, frozen);
    }
    if (in == out && stride == 1) return;
    const auto shortcut = std::make_shared<torch::nn::Module>();
    short_convolution_ =
        shortcut->register_module("0", std::make_shared<Convolution>(in, out, 1, stride));
    short_norm_ = shortcut->register_module("1", std::make_shared<MapNorm>(out, frozen));
    register_module("downsample", shortcut);
  }

  ImageFeatures forward(const ImageFeatures& x) {
    ImageFeatures y = x;
    for (std::size_t i = 0; i < convolutions_.size(); ++i) {
      const bool sees_neighbours = convolutions_[i]->weight.size(2) > 1;
      const Tensor seen = sees_neighbours ? hidden_padding(y) : y.map;
      y.map = norms_[i]->forward(convolutions_[i]->forward(seen));
      y.valid = every(y.valid, convolutions_[i]->stride());
      if (i + 1 < convolutions_.size()) y.map = at::relu(y.map);
    }
    const Tensor residual = short_convolution_ == nullptr
                                ? x.map
                                : short_norm_->forward(short_convolution_->forward(x.map));
    return {at::relu(y.map + residual), y.valid};
  }

 private:
  void add(std::int64_t in, std::int64_t out, std::int64_t side, std::int64_t stride, bool frozen) {
    const std::string number = std::to_string(convolutions_.size() + 1);
    convolutions_.push_back(
        register_module("conv" + number, std::make_shared<Convolution>(in, out, side, stride)));
    norms_.push_back(register_module("bn" + number, std::make_shared<MapNorm>(out, frozen)));
  }

  std::vector<std::shared_ptr<Convolution>> convolutions_;
  std::vector<std::shared_ptr<MapNorm>> norms_;
  std::shared_ptr<Convolution> short_convolution_;  ///< null: the input itself is added
  std::shared_ptr<MapNorm> short_norm_;
};

class ResNet::Stage : public torch::nn::Module {
 public:
  void add(std::shared_ptr<Block> block) {
    blocks_.push_back(register_module(std::to_string(blocks_.size()), std::move(block)));
  }
  std::size_t size() const { return blocks_.size(); }
  ImageFeatures forward(ImageFeatures x) {
    for (const auto& block : blocks_) x = block->forward(x);
    return x;
  }

 private:
  std::vector<std::shared_ptr<Block>> blocks_;
};

ResNet::ResNet(const ResNetOptions& options) {
  struct Sizes {
    std::int64_t depth;
    bool wide;
    std::int64_t blocks[4];
  };
  constexpr Sizes kSizes[] = {{18, false, {2, 2, 2, 2}},
                              {34, false, {3, 4, 6, 3}},
                              {50, true, {3, 4, 6, 3}},
                              {101, true, {3, 4, 23, 3}}};
  const Sizes* sizes = nullptr;
  for (const Sizes& known : kSizes) {
    if (known.depth == options.depth) sizes = &known;
  }
  if (sizes == nullptr) {
    throw OptionError(
        "depth", "a ResNet has 18, 34, 50 or 101 layers, not " + std::to_string(options.depth));
  }
  conv1_ = register_module("conv1", std::make_shared<Convolution>(options.channels, 64, 7, 2));
  bn1_ = register_module("bn1", std::make_shared<MapNorm>(64, options.frozen_norm));
  for (std::int64_t s = 0; s < options.stages; ++s) {
    const auto stage = std::make_shared<Stage>();
    const std::int64_t width = 64 << s;
    for (std::int64_t b = 0; b < sizes->blocks[s]; ++b) {
      const std::int64_t stride = b == 0 && s > 0 ? 2 : 1;
      stage->add(
          std::make_shared<Block>(out_channels_, width, stride, sizes->wide, options.frozen_norm));
      out_channels_ = sizes->wide ? 4 * width : width;
      stride_ *= stride;
    }
    stages_.push_back(register_module("layer" + std::to_string(s + 1), stage));
  }
}

std::int64_t ResNet::depth_of(const std::string& name) const {
  if (name.starts_with("conv1.") || name.starts_with("bn1.")) return 0;
  std::int64_t depth = 1;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    for (std::size_t b = 0; b < stages_[s]->size(); ++b, ++depth) {
      if (name.starts_with(fmt::format("layer{}.{}.", s + 1, b))) return depth;
    }
  }
  return depth;
}

ImageFeatures ResNet::forward(const ImageFeatures& images) {
  ImageFeatures x = {at::relu(bn1_->forward(conv1_->forward(hidden_padding(images)))),
                     every(images.valid, 2)};
  // What is hidden is 0, and after ReLU nothing is less: it is never the maximum of real cells.
  x = {at::max_pool2d(hidden_padding(x), 3, 2, 1), every(x.valid, 2)};
  for (const auto& stage : stages_) x = stage->forward(x);
  return x;
}

}  // namespace attnlab
