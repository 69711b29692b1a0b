// Swin Transformer V2 as a classifier of images: framework/nn/backbones/swin.h, the mean over the
// map, and a linear map to classes. The attention of its windows is the composition's; the
// published one is configs/attention/swin_v2.yaml.
//
// Source: Liu et al., Swin Transformer V2, CVPR 2022, arXiv:2111.09883.
#include "framework/nn/backbones/swin.h"

#include "framework/plugin.h"

namespace attnlab {
namespace {

struct SwinModelOptions {
  std::string preset = "T";
  std::int64_t window = 8, stages = 4;
  double drop_path = -1;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("preset", preset, one_of("nano", "T", "S", "B"),
      "published sizes; nano: 32 channels, 8 blocks");
    v("window", window, range(1, 64), "side of a window in cells");
    v("stages", stages, range(1, 4),
      "number of stages; fewer suit small images: 3 end at stride 16");
    v("drop_path", drop_path, range(-1, 0.99),
      "probability of dropping a branch in the last block; -1: the preset's");
  }
};

SwinSizes sizes_of(const SwinModelOptions& options, const DatasetInfo& data) {
  const std::vector<std::int64_t>& image = data.field("image").shape;
  if (image.size() != 3 || image[0] < 1 || data.classes < 1) {
    throw ShapeError("swin needs images [C, H, W] and classes; dataset '" + data.name +
                     "' gives others");
  }
  SwinSizes sizes = swin_sizes(options.preset);
  sizes.channels = image[0];
  sizes.window = options.window;
  sizes.depths.resize(std::size_t(options.stages));
  sizes.heads.resize(std::size_t(options.stages));
  if (options.drop_path >= 0) sizes.drop_path = options.drop_path;
  return sizes;
}

class SwinModel final : public Model {
 public:
  SwinModel(const SwinModelOptions& options, const ModelSetup& setup) {
    net_ = register_module("net",
                           std::make_shared<Swin>(sizes_of(options, setup.data), setup.attention));
    head_ =
        register_module("head", std::make_shared<Linear>(net_->out_channels(), setup.data.classes));
  }

  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    const Tensor images = batch.fields.at("image").to(head_->weight.scalar_type());
    const Tensor map = net_->forward({images, {}}, pass.trace).map;
    if (pass.features != nullptr) add_map(*pass.features, map);
    return {{"logits", head_->forward(map.mean({2, 3}))}};
  }

  std::int64_t depth(const std::string& name) const override {
    return name.starts_with("net.") ? net_->depth_of(name.substr(4)) : -1;
  }

  Tensor adapt(const std::string& name, const Tensor& saved) const override {
    return Swin::adapted(name, saved);
  }

 private:
  std::shared_ptr<Swin> net_;
  std::shared_ptr<Linear> head_;
};

}  // namespace

ATTNLAB_PLUGIN(model, SwinModel, SwinModelOptions,
               {.id = "attnlab/swin",
                .version = "1.0.0",
                .summary = "Swin Transformer V2: attention in shifted windows, one class per image",
                .citation = "Liu et al., Swin Transformer V2, CVPR 2022, arXiv:2111.09883",
                .licence = "Apache-2.0",
                .takes = {"image"},
                .gives = {"logits", "layer_features?"},
                .needs = {"bias", "pair_mask"},
                .recompute = true})

}  // namespace attnlab
