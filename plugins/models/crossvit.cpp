// CrossViT: two branches of patches of two sizes, whose class tokens read each other's patches.
//
//   branch b: x_b = [class token; patches_b(image resized to size_b)] + positions_b
//   a stage:  x_b = depth_b pre-norm blocks of self-attention and MLP
//             c_b = W_b GELU(LayerNorm(x_b[class token]))            to the other branch's width
//             y   = [c_b; the other branch's patches]
//             c_b = c_b + DropPath(MultiHeadAttention(LayerNorm(y)[first], LayerNorm(y)))
//             x_b[class token] = V_b GELU(LayerNorm(c_b))            back to its own width
//   logits = mean over branches of H_b LayerNorm(x_b)[class token]
//
// The class token is the only query of the attention across, and no MLP follows it. The attention
// of a branch's blocks shares state within a stage, so that attentions which compare layers (the
// elliptical ones) have none to compare in the first block of each; those across stand alone.
// An attention that reads places is told row and column of each patch, in patches of the branch
// whose patches it reads; a class token stands in the middle of these.
// Source: Chen, Fan, Panda, ICCV 2021 (arXiv:2103.14899), and their code: sizes, stems, drop-path
// rule, bicubic resizing without antialias. "9d" stands for 9-dagger, whose patches come from three
// convolutions.
// Cost: that of two ViTs; across it is linear in the patches.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/nn/backbones/cell_places.h"
#include "framework/nn/kernels/precision.h"
#include "framework/nn/modules/layers.h"
#include "framework/nn/modules/positions.h"
#include "framework/nn/modules/transformer_layer.h"
#include "framework/plugin.h"

namespace attnlab {

struct CrossVitOptions {
  std::string preset = "9d";
  std::vector<std::int64_t> sizes = {240, 224};
  std::vector<std::int64_t> patch_sizes = {12, 16};
  std::vector<std::int64_t> dims, depths, heads;
  std::int64_t stages = 3;
  double mlp_ratio = 0;
  std::string stem;
  double drop_path = 0, attention_dropout = 0;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("preset", preset, "sizes of a published model; options below override them");
    v("sizes", sizes, at_least(1), "height and width that each branch sees, in pixels");
    v("patch_sizes", patch_sizes, at_least(1),
      "side of each branch's patches, in pixels; a divisor of its size");
    v("dims", dims, range(1, 1 << 24), "channels of each branch's tokens; empty: the preset's");
    v("depths", depths, range(1, 10000), "blocks of each branch in a stage; empty: the preset's");
    v("heads", heads, at_least(1), "attention heads of each branch; empty: the preset's");
    v("stages", stages, range(1, 10000), "how often the branches exchange information");
    v("mlp_ratio", mlp_ratio, range(0, 64),
      "hidden channels of an MLP, divided by dim; 0: the preset's");
    v("stem", stem, one_of("", "linear", "convolutions"),
      "patches by one map, or by three convolutions (patches of 12 and 16); empty: the preset's");
    v("drop_path", drop_path, range(0, 0.99), "probability of dropping a branch in the last block");
    v("attention_dropout", attention_dropout, range(0, 0.99), "dropout of attention weights");
  }
};

namespace {

constexpr std::size_t kBranches = 2;

/// The options, checked. Sizes that are still empty are in no preset.
CrossVitOptions resolve(CrossVitOptions o) {
  if (o.mlp_ratio == 0) o.mlp_ratio = 4;
  if (o.stem.empty()) o.stem = "linear";
  const auto need_two = [](const char* name, const std::vector<std::int64_t>& values) {
    if (values.size() == kBranches) return;
    throw OptionError(name, "needs two numbers, one for each branch" +
                                std::string(values.empty() ? ", or a preset" : ""));
  };
  need_two("sizes", o.sizes);
  need_two("patch_sizes", o.patch_sizes);
  need_two("dims", o.dims);
  need_two("depths", o.depths);
  need_two("heads", o.heads);
  for (std::size_t b = 0; b < kBranches; ++b) {
    check_heads(o.dims[b], o.heads[b]);
    if (o.sizes[b] % o.patch_sizes[b] != 0) {
      throw OptionError("patch_sizes",
                        fmt::format("{} does not divide {} pixels", o.patch_sizes[b], o.sizes[b]));
    }
    if (o.stem == "convolutions" && o.patch_sizes[b] != 12 && o.patch_sizes[b] != 16) {
      throw OptionError("stem", "the convolutions make patches of 12 and 16 pixels alone");
    }
  }
  return o;
}

/// A convolution that starts as PyTorch's.
class Convolution : public torch::nn::Module {
 public:
  Convolution(std::int64_t in, std::int64_t out, std::int64_t side, std::int64_t stride,
              std::int64_t padding)
      : stride_(stride), padding_(padding) {
    const double bound = 1 / std::sqrt(static_cast<double>(in * side * side));
    weight_ =
        register_parameter("weight", at::empty({out, in, side, side}).uniform_(-bound, bound));
    bias_ = register_parameter("bias", at::empty({out}).uniform_(-bound, bound));
  }
  Tensor forward(const Tensor& x) const {
    return convolution(x, weight_, bias_, stride_, padding_);
  }

 private:
  std::int64_t stride_, padding_;
  Tensor weight_, bias_;
};

/// Patches of 12 or 16 pixels by three convolutions with ReLU between them.
class Stem : public torch::nn::Module {
 public:
  Stem(std::int64_t channels, std::int64_t patch, std::int64_t dim) {
    const bool twelve = patch == 12;
    const auto add = [&](const char* name, auto... sizes) {
      layers_.push_back(register_module(name, std::make_shared<Convolution>(sizes...)));
    };
    add("first", channels, dim / 4, std::int64_t{7}, std::int64_t{4}, std::int64_t{3});
    add("second", dim / 4, dim / 2, std::int64_t{3}, std::int64_t{twelve ? 3 : 2},
        std::int64_t{twelve ? 0 : 1});
    add("third", dim / 2, dim, std::int64_t{3}, std::int64_t{twelve ? 1 : 2}, std::int64_t{1});
  }
  /// [B, C, size, size] to [B, N, dim].
  Tensor forward(const Tensor& images) const {
    Tensor x = layers_[0]->forward(images);
    for (std::size_t i = 1; i < layers_.size(); ++i) x = layers_[i]->forward(at::relu(x));
    return x.flatten(2).transpose(1, 2);
  }

 private:
  std::vector<std::shared_ptr<Convolution>> layers_;
};

/// Where a layer's attention stands among all.
struct Place {
  std::int64_t layer, layers;
};

MultiHeadOptions heads_of(const CrossVitOptions& o, std::size_t branch, const Place& place) {
  MultiHeadOptions heads;
  heads.dim = o.dims[branch];
  heads.heads = o.heads[branch];
  heads.attention_dropout = o.attention_dropout;
  heads.layer = place.layer;
  heads.layers = place.layers;
  return heads;
}

std::shared_ptr<TransformerLayer> block_of(const CrossVitOptions& o, std::size_t branch,
                                           double drop, const Place& place,
                                           const AttentionBuilder& attention) {
  TransformerLayerOptions options;
  options.attention = heads_of(o, branch, place);
  options.mlp = {.dim = o.dims[branch],
                 .hidden = std::max<std::int64_t>(
                     1, std::llround(o.mlp_ratio * static_cast<double>(o.dims[branch])))};
  options.eps = 1e-6;
  options.drop_path = drop;
  return std::make_shared<TransformerLayer>(options, attention);
}

/// A class token that reads another branch's patches.
class Crossing : public torch::nn::Module {
 public:
  /// @param own, other  branches: the token's, the patches'
  Crossing(const CrossVitOptions& o, std::size_t own, std::size_t other, double drop,
           const Place& place, const AttentionBuilder& attention)
      : layer_(place.layer) {
    const std::int64_t dim = o.dims[own], width = o.dims[other];
    out_norm_ = register_module("out_norm", std::make_shared<LayerNorm>(dim));
    out_ = register_module("out", std::make_shared<Linear>(dim, width));
    norm_ = register_module("norm", std::make_shared<LayerNorm>(width));
    attention_ = register_module(
        "attention", std::make_shared<MultiHeadAttention>(heads_of(o, other, place), attention));
    drop_ = register_module("drop_path", std::make_shared<DropPath>(drop));
    back_norm_ = register_module("back_norm", std::make_shared<LayerNorm>(width));
    back_ = register_module("back", std::make_shared<Linear>(width, dim));
  }
  /// @param own     [B, 1 + N, dim], the class token's branch
  /// @param other   [B, 1 + M, width], the other one
  /// @param places  [1, 1 + M, 2] of the other one's tokens; undefined where nobody asks for them
  /// @returns `own` with another class token.
  Tensor forward(const Tensor& own, const Tensor& other, const Tensor& places,
                 AttentionContext context) {
    context.layer = layer_;
    context.state = nullptr;  // other tokens than in the layers before
    const Tensor token = out_->forward(at::gelu(out_norm_->forward(own.narrow(1, 0, 1))));
    const Tensor y = norm_->forward(at::cat({token, other.slice(1, 1)}, 1));
    AttentionExtras extras;
    if (asks_for_places()) {
      extras.query_positions = places.narrow(1, 0, 1);
      extras.key_positions = places;
    }
    const Tensor read = attention_->forward(y.narrow(1, 0, 1), y, y, context, extras);
    const Tensor crossed = token + drop_->forward(read);
    return at::cat({back_->forward(at::gelu(back_norm_->forward(crossed))), own.slice(1, 1)}, 1);
  }

  bool asks_for_places() const { return attention_->attention().traits().places; }

 private:
  std::int64_t layer_;
  std::shared_ptr<LayerNorm> out_norm_, norm_, back_norm_;
  std::shared_ptr<Linear> out_, back_;
  std::shared_ptr<MultiHeadAttention> attention_;
  std::shared_ptr<DropPath> drop_;
};

/// Resized for a branch as the published code does: bicubic, corners not aligned, no antialias.
Tensor resized_images(const Tensor& images, std::int64_t size) {
  if (images.size(2) == size && images.size(3) == size) return images;
  return at::upsample_bicubic2d(images, {size, size}, /*align_corners=*/false, c10::nullopt,
                                c10::nullopt);
}

class CrossVit final : public Model {
 public:
  CrossVit(const CrossVitOptions& given, const ModelSetup& setup) : options_(resolve(given)) {
    const std::vector<std::int64_t> image = setup.data.field("image").shape;
    if (image.size() != 3 || image[0] <= 0) {
      throw ShapeError("crossvit needs images [C, H, W]; dataset '" + setup.data.name +
                       "' gives others");
    }
    if (setup.data.classes <= 0) {
      throw ShapeError("crossvit needs a dataset with classes; '" + setup.data.name + "' has none");
    }
    for (std::size_t b = 0; b < kBranches; ++b) add_embedding(b, image[0]);
    add_stages(setup.attention);
    for (std::size_t b = 0; b < kBranches; ++b) {
      const std::string end = std::to_string(b);
      norms_[b] = register_module("norm" + end, std::make_shared<LayerNorm>(options_.dims[b]));
      heads_[b] = register_module("head" + end,
                                  std::make_shared<Linear>(options_.dims[b], setup.data.classes));
    }
  }

  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    const Tensor images = batch.fields.at("image").to(positions_[0].scalar_type());
    Tensor x[kBranches];
    const AttentionExtras plain;
    AttentionExtras placed[kBranches];
    for (std::size_t b = 0; b < kBranches; ++b) {
      placed[b].query_positions = placed[b].key_positions = places(b, images.device());
      const Tensor patches = embedded(b, resized_images(images, options_.sizes[b]));
      x[b] =
          at::cat({class_tokens_[b].expand({patches.size(0), 1, -1}), patches}, 1) + positions_[b];
    }
    for (const Stage& stage : stages_) {
      for (std::size_t b = 0; b < kBranches; ++b) {
        ForwardState state;  // between stages the class token has met the other branch
        AttentionContext context{stage.first_layer[b], &state, pass.trace};
        Residual residual{x[b]};
        for (const auto& block : stage.blocks[b]) {
          const bool asks = block->attention().traits().places;
          residual = block->forward(residual, context, asks ? placed[b] : plain);
          ++context.layer;
        }
        x[b] = residual.sum();
      }
      const AttentionContext context{0, nullptr, pass.trace};
      const Tensor first =
          stage.crossings[0]->forward(x[0], x[1], placed[1].key_positions, context);
      x[1] = stage.crossings[1]->forward(x[1], x[0], placed[0].key_positions, context);
      x[0] = first;
    }
    Tensor logits;
    for (std::size_t b = 0; b < kBranches; ++b) {
      const Tensor own = heads_[b]->forward(norms_[b]->forward(x[b]).select(1, 0));
      logits = b == 0 ? own : logits + own;
    }
    return {{"logits", logits / static_cast<double>(kBranches)}};
  }

  bool decays(const std::string& name, const Tensor& parameter) const override {
    const bool learned = name.rfind("positions", 0) == 0 || name.rfind("class_token", 0) == 0;
    return !learned && Model::decays(name, parameter);
  }

  /// Blocks from 1 on, those of both branches of a stage beside each other; the attention across
  /// is one more. What comes before them is 0, norms and heads are behind the last.
  std::int64_t depth(const std::string& name) const override {
    const std::int64_t blocks = std::max(options_.depths[0], options_.depths[1]);
    const std::int64_t stage = number_behind("stage", name);
    if (stage < 0) {
      const bool last = name.starts_with("norm") || name.starts_with("head");
      return last ? 1 + options_.stages * (blocks + 1) : 0;
    }
    const std::size_t at = name.find("_block");
    const std::int64_t block =
        at == std::string::npos ? blocks : number_behind("_block", name.substr(at));
    return 1 + stage * (blocks + 1) + block;
  }

  /// Positions of another size are resized.
  Tensor adapt(const std::string& name, const Tensor& saved) const override {
    for (std::size_t b = 0; b < kBranches; ++b) {
      if (name != fmt::format("positions{}", b)) continue;
      return resized_positions(saved, positions_[b], side(b), side(b));
    }
    return saved;
  }

 private:
  struct Stage {
    std::int64_t first_layer[kBranches];
    std::vector<std::shared_ptr<TransformerLayer>> blocks[kBranches];
    std::shared_ptr<Crossing> crossings[kBranches];
  };

  /// Patches of a branch along height and width.
  std::int64_t side(std::size_t b) const { return options_.sizes[b] / options_.patch_sizes[b]; }

  /// Of a branch's tokens, [1, 1 + N, 2]; undefined where no layer that reads them asks.
  Tensor places(std::size_t b, const at::Device& device) const {
    const bool asked = std::any_of(stages_.begin(), stages_.end(), [b](const Stage& stage) {
      const auto& blocks = stage.blocks[b];
      return stage.crossings[1 - b]->asks_for_places() ||
             std::any_of(blocks.begin(), blocks.end(),
                         [](const auto& block) { return block->attention().traits().places; });
    });
    return asked ? behind_class_token(cell_places(side(b), side(b), device)) : Tensor();
  }

  void add_embedding(std::size_t b, std::int64_t channels) {
    const CrossVitOptions& o = options_;
    const std::string end = std::to_string(b);
    if (o.stem == "convolutions") {
      stems_[b] = register_module("patches" + end,
                                  std::make_shared<Stem>(channels, o.patch_sizes[b], o.dims[b]));
    } else {
      PatchOptions patches;
      patches.channels = channels;
      patches.height = patches.width = o.sizes[b];
      patches.patch_height = patches.patch_width = o.patch_sizes[b];
      patches.dim = o.dims[b];
      patches_[b] = register_module("patches" + end, std::make_shared<PatchEmbedding>(patches));
    }
    const auto learned = [&](const std::string& name, at::IntArrayRef sizes) {
      Tensor values = at::empty(sizes);
      fill_truncated_normal(values);
      return register_parameter(name, values);
    };
    class_tokens_[b] = learned("class_token" + end, {1, 1, o.dims[b]});
    positions_[b] = learned("positions" + end, {1, 1 + side(b) * side(b), o.dims[b]});
  }

  /// Drop-path rises from 0 in the first block of the deeper branch to drop_path in its last; the
  /// other branch and the crossings take the rates of the blocks beside them.
  void add_stages(const AttentionBuilder& attention) {
    const CrossVitOptions& o = options_;
    const std::int64_t deepest = *std::max_element(o.depths.begin(), o.depths.end());
    const double last = static_cast<double>(std::max<std::int64_t>(o.stages * o.depths[1] - 1, 1));
    Place place{0, o.stages * (o.depths[0] + o.depths[1] + 2)};
    for (std::int64_t s = 0; s < o.stages; ++s) {
      const std::string start = fmt::format("stage{}_", s);
      const auto rate = [&](std::int64_t block) {
        const double at = static_cast<double>(s * deepest + block) / last;
        return o.drop_path * std::min(1.0, at);
      };
      Stage stage;
      for (std::size_t b = 0; b < kBranches; ++b) {
        stage.first_layer[b] = place.layer;
        for (std::int64_t i = 0; i < o.depths[b]; ++i, ++place.layer) {
          stage.blocks[b].push_back(register_module(fmt::format("{}branch{}_block{}", start, b, i),
                                                    block_of(o, b, rate(i), place, attention)));
        }
      }
      for (std::size_t b = 0; b < kBranches; ++b, ++place.layer) {
        stage.crossings[b] = register_module(
            fmt::format("{}crossing{}", start, b),
            std::make_shared<Crossing>(o, b, 1 - b, rate(deepest - 1), place, attention));
      }
      stages_.push_back(std::move(stage));
    }
  }

  Tensor embedded(std::size_t b, const Tensor& images) const {
    return stems_[b] != nullptr ? stems_[b]->forward(images) : patches_[b]->forward(images);
  }

  CrossVitOptions options_;
  std::shared_ptr<PatchEmbedding> patches_[kBranches];  // null where there are stems
  std::shared_ptr<Stem> stems_[kBranches];
  Tensor class_tokens_[kBranches], positions_[kBranches];
  std::vector<Stage> stages_;
  std::shared_ptr<LayerNorm> norms_[kBranches];
  std::shared_ptr<Linear> heads_[kBranches];
};

}  // namespace

ATTNLAB_PLUGIN(
    model, CrossVit, CrossVitOptions,
    {.id = "attnlab/crossvit",
     .version = "1.0.1",
     .summary = "two branches with different patches; class tokens attend to the other branch",
     .citation = "Chen, Fan, Panda, CrossViT, ICCV 2021, arXiv:2103.14899",
     .licence = "Apache-2.0",
     .takes = {"image"},
     .gives = {"logits"},
     .needs = {"different_lengths"},
     .recompute = true})

}  // namespace attnlab
