// ResNet as a classifier of images: framework/nn/backbones/resnet.h, the mean over the map, and a
// linear map to classes. It has no attention; the composition's is not asked.
//
// Source: He et al., Deep Residual Learning, CVPR 2016. Names are torchvision's, so its checkpoints
// load with `net.` before all names but those of `fc`.
#include "framework/nn/backbones/resnet.h"

#include "framework/nn/modules/layers.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct ResNetModelOptions {
  std::int64_t depth = 50, stages = 4;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("depth", depth, range(18, 101), "layers: 18, 34, 50 or 101");
    v("stages", stages, range(1, 4), "how many of the four stages are used");
  }
};

std::int64_t channels_of(const DatasetInfo& data) {
  const std::vector<std::int64_t>& image = data.field("image").shape;
  if (image.size() != 3 || image[0] < 1 || data.classes < 1) {
    throw ShapeError("resnet needs images [C, H, W] and classes; dataset '" + data.name +
                     "' gives others");
  }
  return image[0];
}

class ResNetModel final : public Model {
 public:
  ResNetModel(const ResNetModelOptions& options, const ModelSetup& setup) {
    net_ = register_module(
        "net", std::make_shared<ResNet>(ResNetOptions{.depth = options.depth,
                                                      .channels = channels_of(setup.data),
                                                      .stages = options.stages}));
    head_ =
        register_module("fc", std::make_shared<Linear>(net_->out_channels(), setup.data.classes));
    start_uniform(*head_);
  }

  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    const Tensor images = batch.fields.at("image").to(head_->weight.scalar_type());
    const Tensor map = net_->forward({images, {}}).map;
    if (pass.features != nullptr) add_map(*pass.features, map);
    return {{"logits", head_->forward(map.mean({2, 3}))}};
  }

  std::int64_t depth(const std::string& name) const override {
    constexpr std::string_view kNet = "net.";
    return name.starts_with(kNet) ? net_->depth_of(name.substr(kNet.size())) : -1;
  }

 private:
  std::shared_ptr<ResNet> net_;
  std::shared_ptr<Linear> head_;
};

}  // namespace

ATTNLAB_PLUGIN(model, ResNetModel, ResNetModelOptions,
               {.id = "attnlab/resnet",
                .version = "1.0.0",
                .summary = "residual convolutional network, one class per image",
                .citation = "He et al., Deep Residual Learning, CVPR 2016",
                .licence = "Apache-2.0",
                .takes = {"image"},
                .gives = {"logits", "layer_features?"}})

}  // namespace attnlab
