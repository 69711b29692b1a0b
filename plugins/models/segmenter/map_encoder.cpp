#include "plugins/models/segmenter/map_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace attnlab {

MapEncoder::MapEncoder(torch::nn::Module& owner, const MapEncoderOptions& options, double drop_path,
                       const std::vector<std::int64_t>& image, const AttentionBuilder& attention)
    : image_channels_(image[0]) {
  if (options.backbone == "swin") {
    SwinSizes sizes = swin_sizes(options.swin);
    sizes.depths.resize(static_cast<std::size_t>(options.stages));
    sizes.heads.resize(static_cast<std::size_t>(options.stages));
    sizes.window = options.swin_window;
    sizes.drop_path = drop_path;
    sizes.channels = image_channels_;
    swin_ = owner.register_module("encoder", std::make_shared<Swin>(sizes, attention));
    stride_ = swin_->stride();
    first_ = swin_->parameters().front();
  } else {
    constexpr std::int64_t kDepths[] = {18, 34, 50, 101};
    if (std::count(std::begin(kDepths), std::end(kDepths), options.resnet) == 0) {
      throw OptionError(
          "resnet", fmt::format("a ResNet has 18, 34, 50 or 101 layers, not {}", options.resnet));
    }
    resnet_ = owner.register_module(
        "encoder",
        std::make_shared<ResNet>(ResNetOptions{
            .depth = options.resnet, .channels = image_channels_, .stages = options.stages}));
    stride_ = resnet_->stride();
    first_ = resnet_->parameters().front();
  }
  const bool known = image[1] > 0 && image[2] > 0;
  if (known && (image[1] % stride_ != 0 || image[2] % stride_ != 0)) {
    throw OptionError(
        "stages",
        fmt::format("{} end at stride {}, which does not divide images of {} x {} pixels; "
                    "take fewer, or images of other sizes",
                    options.stages, stride_, image[1], image[2]));
  }
}

PatchTokens MapEncoder::forward(const Tensor& images, AttentionTrace* trace) const {
  if (images.dim() != 4 || images.size(1) != image_channels_ || images.size(2) % stride_ != 0 ||
      images.size(3) % stride_ != 0 || images.size(2) == 0 || images.size(3) == 0) {
    throw ShapeError(fmt::format(
        "segmenter: images must be [B, {}, H, W] with sides that are multiples of {}, the stride "
        "of the last of model.stages, found {}; choose dataset.crop and task.window so",
        image_channels_, stride_, describe(images)));
  }
  const ImageFeatures seen{images.to(first_.scalar_type()), {}};
  const Tensor map =
      swin_ != nullptr ? swin_->forward(seen, trace).map : resnet_->forward(seen).map;
  return {map.flatten(2).transpose(1, 2), map.size(2), map.size(3)};
}

std::int64_t MapEncoder::channels() const {
  return swin_ != nullptr ? swin_->out_channels() : resnet_->out_channels();
}

std::int64_t MapEncoder::depth_of(const std::string& name) const {
  return swin_ != nullptr ? swin_->depth_of(name) : resnet_->depth_of(name);
}

}  // namespace attnlab
