// IA-DETR: finds in an image what a prompt shows.
//
//   map = LayerNorm(W backbone(image)),  of the prompt by the same maps
//   queries begin at the best proposals of the image; six layers refine their boxes:
//     q = q + Attention(q + places, q + places, q)            among queries
//     q = q + Attention(q + places, K, V + ...)               indirect, or another form
//     q = q + Mlp(q),   box = sigmoid(box head(q) + sigmoid^-1(box))
//
//   indirect      K = prompt + places, V = image + places + level, bias from boxes to cells
//   misaligned    the same without the bias
//   double_cross  the image attends to the prompt in `depth` layers of its own first;
//                 K = that + places, V = that, with the bias
//   plain         the same without a prompt: closed-set detection, a column of logits per class
//
// Image and prompt lie on one grid, the larger of both; a slot is hidden only where both are
// padded. Outputs: logits [B, Q, K] and boxes [B, Q, 4] (centred, in shares of the image) of the
// last layer; layer_boxes [B, L, Q', 4] of all, and their logits: layer_prompt_logits [B, L, Q',
// 1], or layer_logits [B, L, Q', classes] of `plain`; in training with the one-to-many queries at
// the end; grid [B, 3]: rows and columns of what the queries read, and pixels from cell to cell;
// with `proposals` proposal_logits [B, N, 1], proposal_boxes and proposal_valid; with `contrast`
// layer_features [B, L, Q', F].
//
// An attention that reads places is told them in cells of the map, in every form: row and column of
// a cell from the top left, whose middle is there, and where a query's box has its middle as the
// layer begins.
//
// Where it differs from the public code: proposals are of one level (four there); the map is
// normalised token by token, since a norm over the whole map (GroupNorm) would make what is seen
// depend on padding; what is padded is 0; a backbone of stride 16 ends there, instead of a last
// stage of stride 32 made larger again. Source: Bahaduri et al., Indirect Attention: Turning
// Context Misalignment into a Feature, section 6.2 and appendix B, and its public code; Lin et al.,
// Plain DETR, ICCV 2023. Cost: the backbone's, and O(depth Q (Q + N) dim) for N cells.
#include "framework/nn/backbones/resnet.h"
#include "framework/nn/backbones/swin.h"
#include "framework/nn/boxes/sine_positions.h"
#include "framework/plugin.h"
#include "plugins/models/ia_detr/decoder.h"
#include "plugins/models/ia_detr/grids.h"
#include "plugins/models/ia_detr/options.h"

namespace attnlab {
namespace {

/// Stages of the backbone that end at the wanted stride; 0 for another stride.
std::size_t stages_of(const IaDetrOptions& options) {
  return options.stride == 4    ? 1
         : options.stride == 8  ? 2
         : options.stride == 16 ? 3
         : options.stride == 32 ? 4
                                : 0;
}

/// @throws OptionError for sizes that do not go together.
void check(const IaDetrOptions& o, const DatasetInfo& data) {
  if (o.dim % 4 != 0 || o.dim % o.heads != 0) {
    throw OptionError("dim", "must be a multiple of 4 and of heads");
  }
  if (stages_of(o) == 0) throw OptionError("stride", "is 4, 8, 16 or 32");
  const std::vector<std::int64_t>& image = data.field("image").shape;
  if (image.size() != 3 || image[0] < 1) {
    throw ShapeError("ia_detr needs images [C, H, W]; dataset '" + data.name + "' gives others");
  }
  if (o.decoder == "plain" && data.classes < 1) {
    throw DataError("dataset '" + data.name + "' has no classes to find");
  }
  if (o.decoder != "plain") data.field("prompt");
}

class IaDetr final : public Model {
 public:
  IaDetr(const IaDetrOptions& options, const ModelSetup& setup) : options_(options) {
    const IaDetrOptions& o = options_;
    check(o, setup.data);
    make_backbone(setup.data.field("image").shape[0]);
    input_ = register_module("input", std::make_shared<Linear>(backbone_channels_, o.dim));
    input_norm_ = register_module("input_norm", std::make_shared<LayerNorm>(o.dim, 1e-5));
    // Added to every key alike, as in the other forms, it would change nothing.
    if (reads_apart()) level_ = register_parameter("level", at::empty({o.dim}).normal_());
    make_encoder(setup.attention);
    const std::int64_t all = o.queries + o.many_queries;
    content_ = register_parameter("queries", at::empty({all, o.dim}).normal_());
    if (o.proposals) {
      proposals_ = register_module("proposals", std::make_shared<ProposalHead>(o.dim));
      place_ = register_module("place", std::make_shared<Linear>(2 * o.dim, o.dim));
      place_norm_ = register_module("place_norm", std::make_shared<LayerNorm>(o.dim, 1e-5));
    } else {
      query_places_ = register_parameter("query_places", at::empty({all, o.dim}).normal_());
      reference_ = register_module("reference", std::make_shared<Linear>(o.dim, 4));
      start_uniform(*reference_);
    }
    DecoderOptions decoder;
    decoder.sizes = sizes(next_layer_);
    decoder.depth = o.depth;
    decoder.classes = o.decoder == "plain" ? setup.data.classes : 1;
    decoder.features = o.contrast ? o.feature_dim : 0;
    decoder.bias_hidden = o.decoder == "misaligned" ? 0 : o.bias_hidden;
    decoder.stride = o.stride;
    decoder.look_forward_twice = o.look_forward_twice;
    decoder.first_side = o.proposals ? 0 : -2;
    decoder_ = register_module("decoder", std::make_shared<Decoder>(decoder, setup.attention));
  }

  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    Grid image = encoded(batch, "image", pass.trace);
    const Memory memory = memory_of(batch, image, pass.trace);
    NamedTensors proposed;
    const Queries queries = queries_of(image, proposed);
    const Answers answers = decoder_->forward(queries, memory, pass.trace);
    const auto last = [&](const Tensor& x) {
      return x.select(1, options_.depth - 1).narrow(1, 0, options_.queries);
    };
    NamedTensors outputs = {
        {"logits", last(answers.logits)},
        {"boxes", last(answers.boxes)},
        {with_prompt() ? "layer_prompt_logits" : "layer_logits", answers.logits},
        {"layer_boxes", answers.boxes},
        {"grid",
         at::tensor({memory.valid.size(1), memory.valid.size(2), options_.stride}, at::kLong)
             .to(answers.boxes.device())
             .expand({batch.size, 3})}};
    for (const auto& [name, tensor] : proposed) outputs.set(name, tensor);
    if (answers.features.defined()) outputs.set("layer_features", answers.features);
    return outputs;
  }

  /// Of the backbone; everything else is as deep as what comes last.
  std::int64_t depth(const std::string& name) const override {
    constexpr std::string_view kBackbone = "backbone.";
    if (!name.starts_with(kBackbone)) return -1;
    const std::string own = name.substr(kBackbone.size());
    return swin_ != nullptr ? swin_->depth_of(own) : resnet_->depth_of(own);
  }

  Tensor adapt(const std::string& name, const Tensor& saved) const override {
    return name.starts_with("backbone.") ? Swin::adapted(name, saved) : saved;
  }

 private:
  bool with_prompt() const { return options_.decoder != "plain"; }
  bool crosses_twice() const { return options_.decoder == "double_cross"; }
  /// Keys of the prompt, values of the image.
  bool reads_apart() const { return with_prompt() && !crosses_twice(); }

  LayerSizes sizes(std::int64_t layer) const {
    const IaDetrOptions& o = options_;
    return {o.dim,     o.heads, o.hidden,
            o.dropout, layer,   o.encoder_depth + (crosses_twice() ? o.depth : 0) + 2 * o.depth};
  }

  void make_backbone(std::int64_t channels) {
    const IaDetrOptions& o = options_;
    const std::size_t stages = stages_of(o);
    if (o.backbone == "resnet") {
      resnet_ = register_module(
          "backbone", std::make_shared<ResNet>(ResNetOptions{.depth = o.resnet,
                                                             .channels = channels,
                                                             .stages = std::int64_t(stages),
                                                             .frozen_norm = true}));
      backbone_channels_ = resnet_->out_channels();
      return;
    }
    SwinSizes sizes = swin_sizes(o.swin);
    sizes.depths.resize(stages);
    sizes.heads.resize(stages);
    sizes.window = o.window;
    sizes.channels = channels;
    if (o.drop_path >= 0) sizes.drop_path = o.drop_path;
    swin_ = register_module("backbone", std::make_shared<Swin>(sizes, swin_attention()));
    backbone_channels_ = swin_->out_channels();
  }

  void make_encoder(const AttentionBuilder& attention) {
    const auto add = [&](const std::string& name, auto& blocks, auto& mlps) {
      const LayerSizes at = sizes(next_layer_++);
      blocks.push_back(register_module(name, std::make_shared<ReadingBlock>(at, attention)));
      mlps.push_back(register_module(name + "_mlp", std::make_shared<MlpBlock>(at)));
    };
    for (std::int64_t i = 0; i < options_.encoder_depth; ++i) {
      add("encoder" + std::to_string(i), encoder_, encoder_mlps_);
    }
    for (std::int64_t i = 0; crosses_twice() && i < options_.depth; ++i) {
      add("fusion" + std::to_string(i), fusion_, fusion_mlps_);
    }
  }

  /// The map of a field's images.
  Grid encoded(const Batch& batch, const std::string& field, AttentionTrace* trace) const {
    const Tensor images = batch.fields.at(field).to(content_.scalar_type());
    const Tensor* known = batch.fields.find(field + "_valid");
    const Tensor valid = known != nullptr
                             ? *known
                             : at::ones({images.size(0), images.size(2), images.size(3)},
                                        images.options().dtype(at::kBool));
    const bool padded = known != nullptr && !known->all().item<bool>();
    const ImageFeatures given = {images, padded ? valid : Tensor()};
    const Tensor map = (resnet_ != nullptr ? resnet_->forward(given) : swin_->forward(given)).map;
    const Tensor mapped =
        input_norm_->forward(input_->forward(map.permute({0, 2, 3, 1}))).permute({0, 3, 1, 2});
    Grid grid = grid_of(mapped, every(valid, options_.stride),
                        valid_sizes(valid) / double(options_.stride));
    AttentionExtras extras;
    if (padded) {
      extras.visible.key_valid = extras.visible.query_valid = grid.valid.flatten(1);
    }
    ForwardState state;
    for (std::size_t i = 0; i < encoder_.size(); ++i) {
      extras.query_positions = extras.key_positions =
          encoder_[i]->asks_for_places() ? grid.cells() : Tensor();
      grid.tokens = encoder_mlps_[i]->forward(
          encoder_[i]->read_self(grid.tokens, grid.places, &state, trace, extras));
    }
    if (!encoder_.empty()) grid.tokens = hidden(grid.tokens, grid.valid);
    return grid;
  }

  /// What the queries read; `image` becomes what the proposals are made of.
  Memory memory_of(const Batch& batch, Grid& image, AttentionTrace* trace) const {
    const Tensor pixels = image.sizes * double(options_.stride);
    if (!with_prompt()) {
      return {image.tokens + image.places, image.tokens, image.valid, pixels};
    }
    // The prompt's own layers are not recorded: they are the image's, once more.
    const Grid prompt = encoded(batch, "prompt", nullptr);
    if (crosses_twice()) {
      fuse(image, prompt, trace);
      return {image.tokens + image.places, image.tokens, image.valid, pixels};
    }
    const Tensor level = hidden(level_.expand_as(image.places), image.valid);
    const std::int64_t rows = std::max(image.valid.size(1), prompt.valid.size(1));
    const std::int64_t columns = std::max(image.valid.size(2), prompt.valid.size(2));
    const auto spread = [&](const Tensor& tokens, const Grid& of) {
      return on_grid(tokens, of.valid, rows, columns);
    };
    return {spread(prompt.tokens + prompt.places, prompt),
            spread(image.tokens + image.places + level, image),
            on_grid(image.valid, rows, columns).logical_or(on_grid(prompt.valid, rows, columns)),
            pixels};
  }

  /// The image attends to the prompt.
  void fuse(Grid& image, const Grid& prompt, AttentionTrace* trace) const {
    AttentionExtras extras;
    if (!prompt.valid.all().item<bool>()) extras.visible.key_valid = prompt.valid.flatten(1);
    if (!image.valid.all().item<bool>()) extras.visible.query_valid = image.valid.flatten(1);
    ForwardState state;
    for (std::size_t i = 0; i < fusion_.size(); ++i) {
      const bool asks = fusion_[i]->asks_for_places();
      extras.query_positions = asks ? image.cells() : Tensor();
      extras.key_positions = asks ? prompt.cells() : Tensor();
      image.tokens = fusion_mlps_[i]->forward(
          fusion_[i]->read(image.tokens, image.places, prompt.tokens + prompt.places, prompt.tokens,
                           &state, trace, extras));
    }
    image.tokens = hidden(image.tokens, image.valid);
  }

  Queries queries_of(const Grid& image, NamedTensors& proposed) const {
    const std::int64_t batch = image.tokens.size(0);
    const std::int64_t count =
        options_.queries + (is_training() ? options_.many_queries : std::int64_t{0});
    Queries queries;
    queries.ones = options_.queries;
    queries.content = content_.narrow(0, 0, count).unsqueeze(0).expand({batch, -1, -1});
    if (proposals_ == nullptr) {
      const Tensor places = query_places_.narrow(0, 0, count);
      queries.places = places.unsqueeze(0).expand({batch, -1, -1});
      queries.boxes = reference_->forward(places).sigmoid().unsqueeze(0).expand({batch, -1, -1});
      return queries;
    }
    const Proposals proposals = proposals_->forward(image.tokens, image.middles, image.valid);
    queries.boxes = best_boxes(proposals, count);
    queries.places =
        place_norm_->forward(place_->forward(sine_positions(queries.boxes, options_.dim / 2)));
    proposed = {{"proposal_logits", proposals.logits},
                {"proposal_boxes", proposals.boxes},
                {"proposal_valid", proposals.valid}};
    return queries;
  }

  IaDetrOptions options_;
  std::int64_t backbone_channels_ = 0, next_layer_ = 0;
  std::shared_ptr<ResNet> resnet_;  ///< one of both is null
  std::shared_ptr<Swin> swin_;
  std::shared_ptr<Linear> input_;
  std::shared_ptr<LayerNorm> input_norm_;
  Tensor level_;    ///< [dim], added to the image's values; undefined: not there
  Tensor content_;  ///< [Q', dim]
  std::vector<std::shared_ptr<ReadingBlock>> encoder_, fusion_;
  std::vector<std::shared_ptr<MlpBlock>> encoder_mlps_, fusion_mlps_;
  std::shared_ptr<ProposalHead> proposals_;  ///< null: places of queries are learned
  std::shared_ptr<Linear> place_, reference_;
  std::shared_ptr<LayerNorm> place_norm_;
  Tensor query_places_;
  std::shared_ptr<Decoder> decoder_;
};

}  // namespace

ATTNLAB_PLUGIN(model, IaDetr, IaDetrOptions,
               {.id = "attnlab/ia_detr",
                .version = "1.2.0",
                .summary = "finds what a prompt shows: a detector with indirect attention, and its "
                           "misaligned, double-cross and plain forms",
                .citation = "Bahaduri et al., Indirect Attention: Turning Context Misalignment "
                            "into a Feature; Lin et al., Plain DETR, ICCV 2023",
                .licence = "Apache-2.0",
                .takes = {"image", "image_valid?", "prompt if decoder=indirect",
                          "prompt if decoder=misaligned", "prompt if decoder=double_cross",
                          "prompt_valid?"},
                .gives = {"logits", "boxes", "layer_boxes", "grid", "layer_logits if decoder=plain",
                          "layer_prompt_logits if decoder=indirect",
                          "layer_prompt_logits if decoder=misaligned",
                          "layer_prompt_logits if decoder=double_cross",
                          "proposal_logits if proposals=true", "proposal_boxes if proposals=true",
                          "proposal_valid if proposals=true", "layer_features if contrast=true"},
                .needs = {"bias", "different_lengths", "different_source", "padding"},
                .recompute = true})

}  // namespace attnlab
