// Segmenter: a vision transformer whose patches are told their classes, by a linear map or by a
// second, small transformer in which classes are tokens.
//
//   x = LayerNorm(layers([class token; patches] + positions)),  the class token dropped
//   mask_logits [B, K, H / p, W / p] = decoder(x)               (decoder.h)
//
// With `backbone: swin` or `resnet` x are the cells of that network's last map (map_encoder.h) in
// the patches' place, and p is its stride.
//
// A task resizes mask_logits to the picture's size. Images of another size than that of the
// positions are taken, too: the positions are resized then, bilinear, as the public code does;
// saved ones when they are read. Encoder and decoder are two stacks of layers, each counted from 0;
// a ResNet has none.
// An attention that reads places is told each patch's row and column, in patches; the class token
// of the encoder and the classes of the decoder stand in the middle of the image.
// Source: Strudel et al., Segmenter, ICCV 2021, arXiv:2105.05633, and its public code: norms with
// eps 1e-5, the decoder as wide as the encoder, with dropout also of attention weights. Its
// published encoders have DeiT's distillation token, which is not here.
// Cost: O(depth N dim (N + dim)) for N patches, and O(decoder_depth M dim (M + dim)) for M = N + K,
// with attention of quadratic cost.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/nn/modules/multi_head_attention.h"
#include "framework/plugin.h"
#include "plugins/models/segmenter/decoder.h"
#include "plugins/models/segmenter/map_encoder.h"

namespace attnlab {
namespace {

struct SegmenterOptions : MapEncoderOptions {
  std::string preset;
  std::int64_t dim = 0, depth = 0, heads = 0;
  double mlp_ratio = 0;
  std::int64_t patch_size = 0, size = 0;
  bool qkv_bias = true;
  double drop_path = 0, dropout = 0, attention_dropout = 0;
  std::string decoder = "mask";
  std::int64_t decoder_depth = 2;
  double decoder_drop_path = 0, decoder_dropout = 0;
  double norm_eps = 1e-5;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("preset", preset, "sizes of a published model; options below that are not 0 override them");
    v("dim", dim, range(0, 1 << 24),
      "channels of a token (for other backbones than vit: only in the mask transformer); 0: the "
      "preset's");
    v("depth", depth, range(0, 10000), "layers of the encoder; 0: the preset's");
    v("heads", heads, at_least(0), "attention heads, a divisor of dim; 0: the preset's");
    v("mlp_ratio", mlp_ratio, range(0, 64), "hidden channels of the MLP, divided by dim; 0: 4");
    v("patch_size", patch_size, at_least(0), "side of a patch in pixels; 0: the preset's");
    v("size", size, range(0, 8192),
      "side in pixels of the images that positions are learned for; 0: the dataset's, if all "
      "images have one size");
    v("qkv_bias", qkv_bias, "biases on queries, keys and values");
    v("drop_path", drop_path, range(0, 0.99),
      "probability of dropping a branch in the encoder's last layer, rising from 0 in the first");
    v("dropout", dropout, range(0, 0.99),
      "dropout in the encoder: after the positions, the attention and the MLP");
    v("attention_dropout", attention_dropout, range(0, 0.99),
      "dropout of the encoder's attention weights");
    v("decoder", decoder, one_of("mask", "linear"), "the mask transformer, or one linear map");
    v("decoder_depth", decoder_depth, range(1, 1000), "layers of the mask transformer");
    v("decoder_drop_path", decoder_drop_path, range(0, 0.99),
      "probability of dropping a branch in the mask transformer's last layer");
    v("decoder_dropout", decoder_dropout, range(0, 0.99),
      "dropout in the mask transformer: after attention and MLP, and of attention weights");
    v("norm_eps", norm_eps, range(0, 1), "added to the variance in each layer norm");
    MapEncoderOptions::describe(v);
  }
};

/// @throws OptionError for an option that does nothing with another backbone than `vit`.
void refuse_options_of_vit(const SegmenterOptions& o) {
  const auto refuse = [&](const char* name, bool given) {
    if (!given) return;
    throw OptionError(name, fmt::format("is the ViT's, and backbone is {0}; leave it out (sizes of "
                                        "{0} are its own options: swin, swin_window, resnet, "
                                        "stages)",
                                        o.backbone));
  };
  refuse("preset", !o.preset.empty());
  refuse("depth", o.depth > 0);
  refuse("patch_size", o.patch_size > 0);
  refuse("size", o.size > 0);
  refuse("dropout", o.dropout > 0);
  refuse("attention_dropout", o.attention_dropout > 0);
  if (o.backbone == "resnet" && o.drop_path > 0) {
    throw OptionError("drop_path", "does nothing with backbone resnet; leave it out");
  }
}

/// The options, checked. A size that is still 0 is in no preset.
SegmenterOptions resolved(SegmenterOptions options) {
  if (options.mlp_ratio == 0) options.mlp_ratio = 4;
  const bool vit = options.backbone == "vit";
  if (!vit) refuse_options_of_vit(options);
  const auto need = [&](const char* name, std::int64_t value) {
    if (value > 0) return;
    throw OptionError(name, vit ? "is 0 and there is no preset to take it from; set it, or set "
                                  "preset to Ti, S, B or L"
                                : "is 0; set it: the mask transformer's own, which the backbone "
                                  "does not give, or take decoder linear");
  };
  if (!vit && options.decoder == "linear") return options;
  need("dim", options.dim);
  need("heads", options.heads);
  if (vit) {
    need("depth", options.depth);
    need("patch_size", options.patch_size);
  }
  check_heads(options.dim, options.heads);
  return options;
}

/// [C, H, W] of the dataset's images; H and W -1 where they differ.
const std::vector<std::int64_t>& image_shape(const DatasetInfo& data) {
  const std::vector<std::int64_t>& image = data.field("image").shape;
  if (image.size() == 3 && image[0] > 0) return image;
  throw ShapeError(
      fmt::format("segmenter needs images [C, H, W]; dataset '{}' gives others", data.name));
}

/// The patches of the images that positions are learned for.
PatchOptions patches_of(const SegmenterOptions& options, const DatasetInfo& data) {
  const std::vector<std::int64_t>& image = image_shape(data);
  PatchOptions patches;
  patches.channels = image[0];
  patches.height = options.size > 0 ? options.size : image[1];
  patches.width = options.size > 0 ? options.size : image[2];
  if (patches.height < 1 || patches.width < 1) {
    throw OptionError("size",
                      fmt::format("is 0, and the images of dataset '{}' differ in size; set it to "
                                  "the side of its crops (${{dataset.crop}})",
                                  data.name));
  }
  const std::int64_t side = options.patch_size;
  if (patches.height % side != 0 || patches.width % side != 0) {
    throw OptionError("patch_size", fmt::format("{} does not divide images of {} x {} pixels; take "
                                                "a common divisor of height and width",
                                                side, patches.height, patches.width));
  }
  patches.patch_height = patches.patch_width = side;
  patches.dim = options.dim;
  return patches;
}

StackOptions stack_of(const SegmenterOptions& options) {
  StackOptions stack;
  stack.dim = options.dim;
  stack.heads = options.heads;
  stack.hidden =
      std::max<std::int64_t>(1, std::llround(options.mlp_ratio * static_cast<double>(options.dim)));
  stack.qkv_bias = options.qkv_bias;
  stack.norm_eps = options.norm_eps;
  return stack;
}

class Segmenter final : public Model {
 public:
  Segmenter(const SegmenterOptions& given, const ModelSetup& setup)
      : options_(resolved(given)), classes_(setup.data.classes) {
    const SegmenterOptions& o = options_;
    if (classes_ < 1) {
      throw ShapeError(
          fmt::format("segmenter needs a dataset with classes; '{}' has none", setup.data.name));
    }
    const std::int64_t channels = make_encoder(setup);
    if (o.decoder == "linear") {
      decoder_ = std::make_shared<LinearDecoder>(channels, classes_);
    } else {
      StackOptions layers = stack_of(o);
      layers.depth = o.decoder_depth;
      layers.drop_path = o.decoder_drop_path;
      layers.dropout = layers.attention_dropout = o.decoder_dropout;
      decoder_ = std::make_shared<MaskDecoder>(channels, classes_, layers, setup.attention);
    }
    register_module("decoder", decoder_);
  }

  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    const Tensor& images = batch.fields.at("image");
    const PatchTokens patches =
        vit_ != nullptr ? vit_->forward(images, pass.trace) : map_->forward(images, pass.trace);
    return {{"mask_logits", decoder_->forward(patches, pass.trace)}};
  }

  std::vector<FieldInfo> outputs() const override {
    return {{"mask_logits", {classes_, -1, -1}, at::kFloat}};
  }

  bool decays(const std::string& name, const Tensor& parameter) const override {
    return name != "encoder.positions" && name != "encoder.class_token" &&
           name != "decoder.class_embeddings" && Model::decays(name, parameter);
  }

  /// Layers of the encoder from 1 on, what comes before them 0; the decoder is as deep as it gets.
  std::int64_t depth(const std::string& name) const override {
    constexpr std::string_view kEncoder = "encoder.", kLayer = "encoder.layer";
    if (vit_ == nullptr) {
      return name.starts_with(kEncoder) ? map_->depth_of(name.substr(kEncoder.size())) : -1;
    }
    if (name.starts_with(kLayer)) return 1 + std::stoll(name.substr(kLayer.size()));
    const bool first = name.starts_with("encoder.patches.") || name == "encoder.positions" ||
                       name == "encoder.class_token";
    return first ? 0 : -1;
  }

  Tensor adapt(const std::string& name, const Tensor& saved) const override {
    if (vit_ == nullptr) {
      return name.starts_with("encoder.") ? Swin::adapted(name, saved) : saved;
    }
    return name == "encoder.positions" ? vit_->resized_from_square(saved) : saved;
  }

 private:
  /// @returns channels of its tokens.
  std::int64_t make_encoder(const ModelSetup& setup) {
    const SegmenterOptions& o = options_;
    if (o.backbone != "vit") {
      map_ = std::make_unique<MapEncoder>(*this, o, o.drop_path, image_shape(setup.data),
                                          setup.attention);
      return map_->channels();
    }
    StackOptions layers = stack_of(o);
    layers.depth = o.depth;
    layers.drop_path = o.drop_path;
    layers.dropout = o.dropout;
    layers.attention_dropout = o.attention_dropout;
    vit_ = register_module("encoder", std::make_shared<SegmenterEncoder>(patches_of(o, setup.data),
                                                                         layers, setup.attention));
    return o.dim;
  }

  SegmenterOptions options_;
  std::int64_t classes_;
  std::shared_ptr<SegmenterEncoder> vit_;  ///< one of both is null
  std::unique_ptr<MapEncoder> map_;
  std::shared_ptr<SegmenterDecoder> decoder_;
};

}  // namespace

ATTNLAB_PLUGIN(
    model, Segmenter, SegmenterOptions,
    {.id = "attnlab/segmenter",
     .version = "1.0.0",
     .summary =
         "ViT, Swin or ResNet with a linear or a mask-transformer decoder: one class per patch",
     .citation = "Strudel et al., ICCV 2021, arXiv:2105.05633",
     .licence = "Apache-2.0",
     .takes = {"image"},
     .gives = {"mask_logits"},
     .needs = {"bias if backbone=swin", "pair_mask if backbone=swin"},
     .stacks = {"depth if backbone=vit", "decoder_depth if decoder=mask"},
     .recompute = true})

}  // namespace attnlab
