#include "framework/nn/backbones/swin.h"

#include <numeric>

#include "framework/contracts/recompute.h"
#include "framework/nn/attention/attention_maps.h"
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/backbones/window_attention.h"
#include "framework/nn/backbones/windows.h"
#include "framework/nn/kernels/precision.h"

namespace attnlab {
namespace {

constexpr double kEps = 1e-5;
constexpr std::int64_t kPatch = 4;

class CosineLogits final : public DotProductAttention {
 public:
  explicit CosineLogits(const AttentionShape& shape)
      : DotProductAttention(shape, {.scale = 1.0, .unit_keys = folded_sphere(sphere())}) {
    ScaleOptions options;
    options.kind = "learned";
    scale_ = register_module("scale", std::make_shared<LearnedScale>(options, shape));
  }

 protected:
  Tensor map_queries(const Tensor& queries, AttentionContext&) const override {
    return scale_->forward(unit(queries, 1e-12));
  }

 private:
  static MapOptions sphere() {
    MapOptions options;
    options.map = "sphere";
    return options;
  }

  std::shared_ptr<LearnedScale> scale_;
};

}  // namespace

std::int64_t SwinSizes::blocks() const {
  return std::accumulate(depths.begin(), depths.end(), std::int64_t{0});
}

SwinSizes swin_sizes(const std::string& preset) {
  SwinSizes sizes;  // T
  sizes.drop_path = 0.2;
  if (preset == "S") {
    sizes.depths = {2, 2, 18, 2};
    sizes.drop_path = 0.3;
  } else if (preset == "B") {
    sizes.dim = 128;
    sizes.depths = {2, 2, 18, 2};
    sizes.heads = {4, 8, 16, 32};
    sizes.drop_path = 0.5;
  } else if (preset == "nano") {
    sizes.dim = 32;
    sizes.depths = {2, 2, 2, 2};
    sizes.heads = {2, 4, 8, 16};
    sizes.drop_path = 0;
  } else if (preset != "T") {
    throw OptionError("preset", "is T, S, B or nano, not '" + preset + "'");
  }
  return sizes;
}

AttentionBuilder swin_attention() {
  return [](const AttentionShape& shape) { return std::make_shared<CosineLogits>(shape); };
}

/// Patches of 4 x 4 pixels to tokens, normalised: [B, C, H, W] to [B, h, w, dim].
class Swin::Embedding : public torch::nn::Module {
 public:
  Embedding(std::int64_t channels, std::int64_t dim) {
    PatchOptions one;
    one.channels = channels;
    one.height = one.width = one.patch_height = one.patch_width = kPatch;
    one.dim = dim;
    patches_ = register_module("patches", std::make_shared<PatchEmbedding>(one));
    norm_ = register_module("norm", std::make_shared<LayerNorm>(dim, kEps));
  }

  Tensor forward(const ImageFeatures& x) const {
    const std::int64_t height = x.map.size(2), width = x.map.size(3);
    const std::int64_t down = (kPatch - height % kPatch) % kPatch;
    const std::int64_t right = (kPatch - width % kPatch) % kPatch;
    Tensor images = hidden_padding(x);
    if (down > 0 || right > 0) images = at::constant_pad_nd(images, {0, right, 0, down});
    const Tensor y = convolution(images, patches_->weight, patches_->bias, kPatch, 0);
    return norm_->forward(y.permute({0, 2, 3, 1}));
  }

 private:
  std::shared_ptr<PatchEmbedding> patches_;
  std::shared_ptr<LayerNorm> norm_;
};

/// Four neighbours to one cell of twice the channels: [B, h, w, C] to [B, h / 2, w / 2, 2 C].
class Swin::Merging : public torch::nn::Module {
 public:
  explicit Merging(std::int64_t dim) {
    reduction_ = register_module("reduction", std::make_shared<Linear>(4 * dim, 2 * dim, false));
    norm_ = register_module("norm", std::make_shared<LayerNorm>(2 * dim, kEps));
  }

  Tensor forward(const Tensor& given, const Tensor& valid) const {
    Tensor x = given;
    if (valid.defined()) x = x * valid.unsqueeze(-1).to(x.scalar_type());
    const std::int64_t rows = x.size(1), columns = x.size(2);
    if (rows % 2 != 0 || columns % 2 != 0) {
      x = at::constant_pad_nd(x, {0, 0, 0, columns % 2, 0, rows % 2});
    }
    const auto cells = [&](std::int64_t down, std::int64_t right) {
      return x.slice(1, down, x.size(1), 2).slice(2, right, x.size(2), 2);
    };
    return norm_->forward(
        reduction_->forward(at::cat({cells(0, 0), cells(1, 0), cells(0, 1), cells(1, 1)}, -1)));
  }

 private:
  std::shared_ptr<Linear> reduction_;
  std::shared_ptr<LayerNorm> norm_;
};

class Swin::Block : public torch::nn::Module {
 public:
  Block(std::int64_t dim, const SwinSizes& sizes, bool shifted, double drop,
        const AttentionShape& shape, const AttentionBuilder& attention)
      : side_(sizes.window), shift_(shifted ? sizes.window / 2 : 0), layer_(shape.layer) {
    attention_ = register_module(
        "attention", std::make_shared<WindowAttention>(dim, sizes.window, shape, attention));
    attention_norm_ = register_module("attention_norm", std::make_shared<LayerNorm>(dim, kEps));
    const auto hidden = static_cast<std::int64_t>(sizes.mlp_ratio * static_cast<double>(dim));
    mlp_ = register_module("mlp", std::make_shared<Mlp>(dim, hidden));
    mlp_norm_ = register_module("mlp_norm", std::make_shared<LayerNorm>(dim, kEps));
    drop_ = register_module("drop_path", std::make_shared<DropPath>(drop));
  }

  /// [B, h, w, dim] to the same.
  Tensor forward(const Tensor& x, const Tensor& valid, AttentionTrace* trace) const {
    AttentionContext context{layer_, nullptr, trace};
    return recomputed(*this, {x}, context,
                      [this, valid](const std::vector<Tensor>& in, AttentionContext& own) {
                        return std::vector<Tensor>{pass(in[0], valid, own)};
                      })[0];
  }

 private:
  Tensor pass(const Tensor& x, const Tensor& valid, AttentionContext& context) const {
    const Windows windows(x.size(1), x.size(2), side_, shift_, valid);
    const Tensor attended =
        windows.joined(attention_->forward(windows.cut(x), windows.visible(x.device()), context));
    const Tensor y = x + drop_->forward(attention_norm_->forward(attended));
    return y + drop_->forward(mlp_norm_->forward(mlp_->forward(y)));
  }

  std::int64_t side_, shift_, layer_;
  std::shared_ptr<WindowAttention> attention_;
  std::shared_ptr<LayerNorm> attention_norm_, mlp_norm_;
  std::shared_ptr<Mlp> mlp_;
  std::shared_ptr<DropPath> drop_;
};

Swin::Swin(const SwinSizes& sizes, const AttentionBuilder& attention)
    : out_channels_(sizes.dim), stride_(kPatch) {
  if (sizes.depths.empty() || sizes.depths.size() != sizes.heads.size()) {
    throw OptionError("heads", "needs a number for each stage, as depths has");
  }
  embedding_ = register_module("embedding", std::make_shared<Embedding>(sizes.channels, sizes.dim));
  AttentionShape shape;
  shape.layers = sizes.blocks();
  for (std::size_t s = 0; s < sizes.depths.size(); ++s) {
    const std::string name = "stage" + std::to_string(s);
    const auto part = std::make_shared<torch::nn::Module>();
    Stage stage;
    if (s > 0) {
      stage.merging = part->register_module("merging", std::make_shared<Merging>(out_channels_));
      out_channels_ *= 2;
      stride_ *= 2;
    }
    shape.heads = sizes.heads[s];
    if (out_channels_ % shape.heads != 0) {
      throw OptionError("heads", std::to_string(shape.heads) + " do not divide the " +
                                     std::to_string(out_channels_) + " channels of stage " +
                                     std::to_string(s));
    }
    shape.head_dim = out_channels_ / shape.heads;
    for (std::int64_t b = 0; b < sizes.depths[s]; ++b, ++shape.layer) {
      const auto last = static_cast<double>(std::max<std::int64_t>(shape.layers - 1, 1));
      stage.blocks.push_back(part->register_module(
          "block" + std::to_string(b),
          std::make_shared<Block>(out_channels_, sizes, b % 2 == 1,
                                  sizes.drop_path * static_cast<double>(shape.layer) / last, shape,
                                  attention)));
    }
    register_module(name, part);
    stages_.push_back(std::move(stage));
  }
  norm_ = register_module("norm", std::make_shared<LayerNorm>(out_channels_, kEps));
}

Tensor Swin::adapted(const std::string& name, const Tensor& saved) {
  return name.ends_with(".log_scale") ? saved.flatten() : saved;
}

std::int64_t Swin::depth_of(const std::string& name) const {
  if (name.starts_with("embedding.")) return 0;
  std::int64_t depth = 1;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const std::string stage = "stage" + std::to_string(s) + ".";
    if (name.starts_with(stage + "merging.")) return depth;
    for (std::size_t b = 0; b < stages_[s].blocks.size(); ++b, ++depth) {
      if (name.starts_with(stage + "block" + std::to_string(b) + ".")) return depth;
    }
  }
  return depth;
}

ImageFeatures Swin::forward(const ImageFeatures& images, AttentionTrace* trace) {
  Tensor x = embedding_->forward(images), valid = every(images.valid, kPatch);
  for (const Stage& stage : stages_) {
    if (stage.merging != nullptr) {
      x = stage.merging->forward(x, valid);
      valid = every(valid, 2);
    }
    for (const auto& block : stage.blocks) x = block->forward(x, valid, trace);
  }
  return {norm_->forward(x).permute({0, 3, 1, 2}), valid};
}

}  // namespace attnlab
