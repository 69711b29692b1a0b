// ViT: the vision transformer, as DeiT trains it.
//
//   x = [[class token; patches] + positions; registers]
//   x = x + DropPath(LayerScale(MultiHeadAttention(LayerNorm(x))))     depth times
//   x = x + DropPath(LayerScale(Mlp(LayerNorm(x))))
//   logits = W LayerNorm(x)[class token, or mean over patches]
//
// Registers are learned tokens that all layers see and that are dropped at the end: what a layer
// has no place for is kept there and not in patches (Darcet et al., Vision transformers need
// registers, ICLR 2024; start as in DINOv2's code). They stand behind the patches, without
// positions. `norm: rms` and `mlp: swiglu` are those of transformer_layer.h.
//
// Source: Dosovitskiy et al., ICLR 2021; Touvron et al., DeiT, ICML 2021 (presets Ti, S, B, the
// initialisation, drop-path); layer scale from Touvron et al., CaiT, 2021. Touvron et al., DeiT
// III, ECCV 2022: `positions: patches`, `drop_path_rule: constant`, layer_scale 1e-4. The ViT of
// the code of "Your Attention Matters": `mlp_output_gelu`, `start: pytorch`, norm_eps 1e-5, and an
// attention with `scale_by: model_dim`. An attention that reads places is told each patch's row and
// column, in patches; class token and registers stand in the middle of the image.
// `positions: sinusoidal`: half of the channels are sinusoids of the row, half of the column; the
// class token has none. Images of another size than the data's are taken, too (crops, videos):
// learned positions are then resized (bicubic, as in DINO's code).
// `mask_token`: patches that the field `masked` names are a learned token before positions are
// added, which starts at 0: masked image modelling as in iBOT (Zhou et al., ICLR 2022).
// Cost: O(depth N dim (N + dim)) for N patches, with attention of quadratic cost.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/nn/backbones/cell_places.h"
#include "framework/nn/kernels/dropout.h"
#include "framework/nn/modules/layers.h"
#include "framework/nn/modules/positions.h"
#include "framework/nn/modules/transformer_layer.h"
#include "framework/plugin.h"

namespace attnlab {

struct VitOptions {
  std::string preset;
  std::int64_t dim = 0, depth = 0, heads = 0;
  double mlp_ratio = 0;
  std::string mlp = "gelu";
  std::int64_t swiglu_multiple = 256;
  std::string norm = "layer";
  std::int64_t patch_size = 0, registers = 0;
  std::string pool = "class_token";
  std::string positions = "all";
  bool qkv_bias = true;
  double layer_scale = 0;
  double drop_path = 0, dropout = 0, attention_dropout = 0;
  std::string drop_path_rule = "linear";
  bool mlp_output_gelu = false;
  bool final_norm = true;
  double norm_eps = 1e-6;
  std::int64_t head_hidden = 0;
  bool mask_token = false;
  std::string start = "deit";

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("preset", preset, "sizes of a published model; options below that are not 0 override them");
    v("dim", dim, range(0, 1 << 24), "channels of a token; 0: the preset's");
    v("depth", depth, range(0, 10000), "number of layers; 0: the preset's");
    v("heads", heads, at_least(0), "attention heads, a divisor of dim; 0: the preset's");
    v("mlp_ratio", mlp_ratio, range(0, 64), "hidden channels of the MLP, divided by dim; 0: 4");
    v("mlp", mlp, one_of("gelu", "swiglu"),
      "swiglu: silu(W_1 x) * W_2 x in place of one map and GELU");
    v("swiglu_multiple", swiglu_multiple, at_least(0),
      "for swiglu: two thirds of mlp_ratio's hidden channels, rounded up to a multiple of this, so "
      "that the number of parameters stays (256: LLaMA's code; 8: DINOv2's); 0: all of them");
    v("norm", norm, one_of("layer", "rms"), "norm of every layer, and before the head");
    v("patch_size", patch_size, at_least(0), "side of a patch in pixels; 0: the preset's");
    v("registers", registers, range(0, 4096),
      "learned tokens beside the patches, dropped at the end; 0: none");
    v("pool", pool, one_of("class_token", "mean"), "what the head reads; mean: no class token");
    v("positions", positions, one_of("all", "patches", "sinusoidal", "none"),
      "all: learned, for class token and patches; patches: learned, only for patches; sinusoidal: "
      "for patches, sinusoids of row and column");
    v("qkv_bias", qkv_bias, "biases on queries, keys and values");
    v("layer_scale", layer_scale, at_least(0),
      "initial value of LayerScale's channel factors; 0: none");
    v("drop_path", drop_path, range(0, 0.99), "probability of dropping a branch in the last layer");
    v("drop_path_rule", drop_path_rule, one_of("linear", "constant"),
      "linear: from 0 in the first layer to drop_path in the last; constant: the same in all");
    v("dropout", dropout, range(0, 0.99), "after the positions, the attention and the MLP");
    v("attention_dropout", attention_dropout, range(0, 0.99), "dropout of attention weights");
    v("mlp_output_gelu", mlp_output_gelu, "a second GELU, at the end of each MLP");
    v("final_norm", final_norm, "a norm before the head");
    v("norm_eps", norm_eps, range(0, 1), "added to the variance (rms: mean square) in each norm");
    v("head_hidden", head_hidden, at_least(0), "hidden channels of the head, with GELU; 0: linear");
    v("mask_token", mask_token, "a learned token for patches that are hidden from the model");
    v("start", start, one_of("deit", "pytorch"),
      "deit: truncated normal, std 0.02; pytorch: maps uniform in +-1/sqrt(in), positions and "
      "class token N(0, 1)");
  }

  bool swiglu() const { return mlp == "swiglu"; }
  NormKind norm_kind() const { return norm == "rms" ? NormKind::rms : NormKind::layer; }
};

/// The options, checked. A size that is still 0 is in no preset.
VitOptions resolve(VitOptions options) {
  if (options.mlp_ratio == 0) options.mlp_ratio = 4;
  const auto need = [](const char* name, std::int64_t value) {
    if (value > 0) return;
    throw OptionError(name,
                      "is 0 and there is no preset to take it from; set it, or set preset to "
                      "Ti, S, B, L or H");
  };
  need("dim", options.dim);
  need("depth", options.depth);
  need("heads", options.heads);
  need("patch_size", options.patch_size);
  check_heads(options.dim, options.heads);
  if (options.positions == "sinusoidal" && options.dim % 4 != 0) {
    throw OptionError("positions", fmt::format("sinusoidal: rows and columns take a quarter of the "
                                               "{} channels for each sine and cosine; make dim a "
                                               "multiple of 4",
                                               options.dim));
  }
  if (options.swiglu() && options.mlp_output_gelu) {
    throw OptionError("mlp_output_gelu", "is of an MLP with GELU; leave it out, or set mlp: gelu");
  }
  return options;
}

PatchOptions patches_of(const DatasetInfo& data, const VitOptions& options) {
  const std::vector<std::int64_t> image = data.field("image").shape;
  if (image.size() != 3 || image[0] <= 0 || image[1] <= 0 || image[2] <= 0) {
    throw ShapeError(
        fmt::format("vit needs images [C, H, W] of one size; dataset '{}' gives images of varying "
                    "size or other rank",
                    data.name));
  }
  const std::int64_t side = options.patch_size;
  if (image[1] % side != 0 || image[2] % side != 0) {
    throw OptionError("patch_size", fmt::format("{} does not divide images of {} x {} pixels; take "
                                                "a common divisor of height and width",
                                                side, image[1], image[2]));
  }
  PatchOptions patches;
  patches.channels = image[0];
  patches.height = image[1];
  patches.width = image[2];
  patches.patch_height = patches.patch_width = side;
  patches.dim = options.dim;
  return patches;
}

/// Patches of one image, row by row.
struct PatchGrid {
  std::int64_t rows = 0, columns = 0;
  bool operator==(const PatchGrid&) const = default;
};

/// What a dataset has beside its images must fit the patches.
void check_crops(const DatasetInfo& data, const VitOptions& options, std::int64_t patches) {
  for (const FieldInfo& field : data.fields) {
    if (field.name == "crop@local" && field.shape.at(2) % options.patch_size != 0) {
      throw OptionError("patch_size",
                        fmt::format("{} does not divide local crops of {} pixels; change it, or "
                                    "dataset.multi_crop.local_size",
                                    options.patch_size, field.shape.at(2)));
    }
    if (field.name != "masked@global") continue;
    if (!options.mask_token) {
      throw OptionError("mask_token",
                        fmt::format("dataset '{}' hides patches, and there is no token for them; "
                                    "set it to true, or dataset.multi_crop.patch_size to 0",
                                    data.name));
    }
    if (field.shape.at(1) != patches) {
      throw OptionError("patch_size",
                        fmt::format("{} makes {} patches of an image, and dataset '{}' hides some "
                                    "of {}; set it to dataset.multi_crop.patch_size",
                                    options.patch_size, patches, data.name, field.shape.at(1)));
    }
  }
}

std::shared_ptr<TransformerLayer> vit_layer(const VitOptions& o, std::int64_t index,
                                            const AttentionBuilder& attention) {
  const double depth = static_cast<double>(std::max<std::int64_t>(o.depth - 1, 1));
  const std::int64_t plain =
      std::max<std::int64_t>(1, std::llround(o.mlp_ratio * static_cast<double>(o.dim)));
  TransformerLayerOptions options;
  options.attention = {.dim = o.dim,
                       .heads = o.heads,
                       .qkv_bias = o.qkv_bias,
                       .attention_dropout = o.attention_dropout,
                       .dropout = o.dropout,
                       .layer = index,
                       .layers = o.depth};
  options.mlp = {.dim = o.dim,
                 .hidden = o.swiglu() ? gated_hidden(plain, o.swiglu_multiple) : plain,
                 .swiglu = o.swiglu(),
                 .output_activation = o.mlp_output_gelu,
                 .hidden_dropout = o.dropout,
                 .dropout = o.dropout};
  options.norm = o.norm_kind();
  options.eps = o.norm_eps;
  options.layer_scale = o.layer_scale;
  options.drop_path = o.drop_path_rule == "constant"
                          ? o.drop_path
                          : o.drop_path * static_cast<double>(index) / depth;
  auto layer = std::make_shared<TransformerLayer>(options, attention);
  if (o.start == "pytorch") layer->start_as_pytorch();
  return layer;
}

class Vit final : public Model {
 public:
  Vit(const VitOptions& given, const ModelSetup& setup) : options_(resolve(given)) {
    const VitOptions& o = options_;
    if (setup.data.classes <= 0) {
      throw ShapeError(
          fmt::format("vit needs a dataset with classes; '{}' has none", setup.data.name));
    }
    patches_ =
        register_module("patches", std::make_shared<PatchEmbedding>(patches_of(setup.data, o)));
    check_crops(setup.data, o, patches_->count());
    const bool with_class_token = o.pool == "class_token";
    if (with_class_token) class_token_ = learned("class_token", {1, 1, o.dim});
    if (o.positions == "all" || o.positions == "patches") {
      const bool of_class_token = with_class_token && o.positions == "all";
      positions_ = learned("positions", {1, patches_->count() + (of_class_token ? 1 : 0), o.dim});
    }
    if (o.registers > 0) {
      registers_ = register_parameter(
          "registers",
          at::empty({1, o.registers, o.dim}).normal_(0, o.start == "pytorch" ? 1 : 1e-6));
    }
    if (o.mask_token) {
      mask_token_ = register_parameter("mask_token", at::zeros({1, 1, o.dim}));
    }
    for (std::int64_t i = 0; i < o.depth; ++i) {
      layers_.push_back(
          register_module(fmt::format("layer{}", i), vit_layer(o, i, setup.attention)));
    }
    if (o.final_norm) {
      norm_ = register_module(
          "norm", std::make_shared<LayerNorm>(o.dim, o.norm_eps, 1, true, o.norm_kind()));
    }
    if (o.head_hidden > 0) {
      head_in_ = register_module("head_in", std::make_shared<Linear>(o.dim, o.head_hidden));
    }
    head_ = register_module(
        "head",
        std::make_shared<Linear>(o.head_hidden > 0 ? o.head_hidden : o.dim, setup.data.classes));
    if (o.start == "pytorch") start_uniform(*this);
  }

  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    const Tensor image = batch.fields.at("image").to(head_->weight.scalar_type());
    const PatchGrid grid = grid_of(image);
    Tensor x = embedded(image, grid);
    if (const Tensor* masked = batch.fields.find("masked")) x = hidden(x, *masked);
    const bool with_class_token = options_.positions == "all";
    if (options_.positions == "patches") x = x + positions_of(grid);
    if (options_.positions == "sinusoidal") x = x + sinusoids_of(grid, x.options());
    if (class_token_.defined()) x = at::cat({class_token_.expand({x.size(0), 1, -1}), x}, 1);
    if (with_class_token) x = x + positions_of(grid);
    const std::int64_t tokens_kept = x.size(1);
    if (registers_.defined()) x = at::cat({x, registers_.expand({x.size(0), -1, -1})}, 1);
    if (is_training() && options_.dropout > 0) x = dropout(x, options_.dropout);
    ForwardState state;
    AttentionContext context{0, &state, pass.trace};
    const AttentionExtras plain;
    AttentionExtras placed;
    Residual residual{x};
    if (pass.features != nullptr) pass.features->depth = options_.depth;
    for (const auto& layer : layers_) {
      const bool asks = layer->attention().traits().places;
      if (asks && !placed.key_positions.defined()) {
        placed.query_positions = placed.key_positions = places(grid, x.device());
      }
      residual = layer->forward(residual, context, asks ? placed : plain);
      ++context.layer;
      if (pass.features != nullptr && pass.features->wants(context.layer)) {
        pass.features->found.push_back(
            features_of(context.layer, tokens_of(residual, tokens_kept), grid));
      }
    }
    const Tensor tokens = tokens_of(residual, tokens_kept);
    Tensor pooled = class_token_.defined() ? tokens.select(1, 0) : tokens.mean(1);
    if (head_in_ != nullptr) pooled = at::gelu(head_in_->forward(pooled));
    return {{"logits", head_->forward(pooled)}, {"tokens", tokens}};
  }

  std::vector<FieldInfo> outputs() const override {
    const std::int64_t tokens = patches_->count() + (class_token_.defined() ? 1 : 0);
    return {{"logits", {head_->weight.size(0)}}, {"tokens", {tokens, options_.dim}}};
  }

  bool decays(const std::string& name, const Tensor& parameter) const override {
    return name != "positions" && name != "class_token" && name != "registers" &&
           name != "mask_token" && Model::decays(name, parameter);
  }

  /// As BEiT counts: layers from 1 on, what comes before them 0, norm and head behind the last.
  std::int64_t depth(const std::string& name) const override {
    const std::int64_t layer = number_behind("layer", name);
    if (layer >= 0) return 1 + layer;
    return name.starts_with("norm.") || name.starts_with("head") ? 1 + options_.depth : 0;
  }

  /// Positions of another image size are resized; a patch's map that was saved as a matrix over its
  /// values [dim, height * width * channels], channels fastest, becomes a convolution's.
  Tensor adapt(const std::string& name, const Tensor& saved) const override {
    if (name == "positions" && positions_.defined()) {
      return resized_positions(saved, positions_, patches_->rows(), patches_->columns());
    }
    const at::IntArrayRef sizes = patches_->weight.sizes();
    if (name == "patches.weight" && saved.dim() == 2 && saved.numel() == patches_->weight.numel()) {
      return saved.view({sizes[0], sizes[2], sizes[3], sizes[1]}).permute({0, 3, 1, 2});
    }
    return saved;
  }

 private:
  /// [B, kept, dim]: without registers, behind the last norm.
  Tensor tokens_of(const Residual& residual, std::int64_t kept) const {
    const Tensor all = norm_ == nullptr ? residual.sum() : residual.normed(*norm_).norm;
    return registers_.defined() ? all.narrow(1, 0, kept) : all;
  }

  /// @param layer  counted from 1
  LayerFeatures features_of(std::int64_t layer, const Tensor& tokens, const PatchGrid& grid) const {
    const std::int64_t patches = grid.rows * grid.columns;
    LayerFeatures out;
    out.layer = layer;
    if (class_token_.defined()) out.class_token = tokens.select(1, 0);
    out.tokens = tokens.narrow(1, tokens.size(1) - patches, patches);
    out.rows = grid.rows;
    out.columns = grid.columns;
    return out;
  }

  PatchGrid own_grid() const { return {patches_->rows(), patches_->columns()}; }

  /// @throws ShapeError for images whose sides patches do not divide.
  PatchGrid grid_of(const Tensor& images) const {
    const at::IntArrayRef patch = patches_->weight.sizes();
    if (images.dim() != 4 || images.size(1) != patch[1] || images.size(2) % patch[2] != 0 ||
        images.size(3) % patch[3] != 0 || images.size(2) == 0 || images.size(3) == 0) {
      throw ShapeError(
          fmt::format("vit: images must be [B, {}, H, W] with sides that are "
                      "multiples of patch_size {}, found {}",
                      patch[1], patch[2], describe(images)));
    }
    return {images.size(2) / patch[2], images.size(3) / patch[3]};
  }

  Tensor embedded(const Tensor& images, const PatchGrid& grid) const {
    if (grid == own_grid()) return patches_->forward(images);
    const std::int64_t side = options_.patch_size;
    return at::conv2d(images, patches_->weight, patches_->bias, {side, side})
        .flatten(2)
        .transpose(1, 2);
  }

  /// @param masked  [B, N] bool, true = hidden
  Tensor hidden(const Tensor& patches, const Tensor& masked) const {
    if (!mask_token_.defined()) {
      throw ShapeError(
          "vit: patches are hidden (masked), and there is no token for them; set "
          "model.mask_token to true");
    }
    if (masked.scalar_type() != at::kBool || masked.sizes() != patches.sizes().slice(0, 2)) {
      throw ShapeError(fmt::format("vit: masked must be [{}, {}] bool, found {}", patches.size(0),
                                   patches.size(1), describe(masked)));
    }
    return at::where(masked.unsqueeze(-1), mask_token_, patches);
  }

  /// The learned ones, resized where the grid is another one.
  Tensor positions_of(const PatchGrid& grid) const {
    const PatchGrid own = own_grid();
    return grid == own ? positions_
                       : resized_grid(positions_, own.rows, own.columns, grid.rows, grid.columns);
  }

  /// Of the tokens, [1, all of them, 2].
  Tensor places(const PatchGrid& grid, const at::Device& device) const {
    const Tensor cells = cell_places(grid.rows, grid.columns, device);
    const Tensor tokens = class_token_.defined() ? behind_class_token(cells) : cells;
    if (!registers_.defined()) return tokens;
    return at::cat({tokens, cells.mean(1, true).expand({1, options_.registers, 2})}, 1);
  }

  Tensor sinusoids_of(const PatchGrid& grid, const at::TensorOptions& options) {
    if (!(grid == own_grid())) {
      return grid_sinusoids(grid.rows, grid.columns, options_.dim, options);
    }
    if (!sinusoids_.defined() || sinusoids_.dtype() != options.dtype() ||
        sinusoids_.device() != options.device()) {
      sinusoids_ = grid_sinusoids(grid.rows, grid.columns, options_.dim, options);
    }
    return sinusoids_;
  }

  Tensor learned(const char* name, at::IntArrayRef sizes) {
    Tensor values = at::empty(sizes);
    if (options_.start == "pytorch") {
      values.normal_();
    } else {
      fill_truncated_normal(values);
    }
    return register_parameter(name, values);
  }

  VitOptions options_;
  std::shared_ptr<PatchEmbedding> patches_;
  Tensor class_token_;  ///< [1, 1, dim], undefined with pool = mean
  Tensor positions_;    ///< [1, N or N + 1, dim]; undefined unless learned
  Tensor registers_;    ///< [1, registers, dim]; undefined: none
  Tensor mask_token_;   ///< [1, 1, dim]; undefined: none
  Tensor sinusoids_;    ///< [1, N, dim], made when first asked for
  std::vector<std::shared_ptr<TransformerLayer>> layers_;
  std::shared_ptr<LayerNorm> norm_;         // null: none
  std::shared_ptr<Linear> head_in_, head_;  // head_in_ null: the head is linear
};

ATTNLAB_PLUGIN(model, Vit, VitOptions,
               {.id = "attnlab/vit",
                .version = "1.1.0",
                .summary = "vision transformer, pre-norm, DeiT's sizes and initialisation",
                .citation = "Dosovitskiy et al., ICLR 2021; Touvron et al., DeiT, ICML 2021",
                .licence = "Apache-2.0",
                .takes = {"image", "masked? if mask_token=true"},
                .gives = {"logits", "tokens", "layer_features?"},
                .stacks = {"depth"},
                .recompute = true})

}  // namespace attnlab
