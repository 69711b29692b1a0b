// Point transformer: a U-Net over voxels with attention in patches along space-filling curves.
//
//   x = Stem(features);   stage s of the encoder: x = Pooling(x) (but the first), blocks
//   stage s of the decoder, from the coarsest: x = Unpooling(x, skip_s), blocks
//   logits = W x of every voxel; or of each cloud, of the mean over its coarsest voxels
//
// Block i of a stage goes along curve i mod 4 of z, transposed z, Hilbert, transposed Hilbert;
// in training their order is drawn anew at the input and at each pooling. A pooled voxel's code is
// that of the voxels in it >> 3, as published. Layers regroup the voxels, so that none shares a
// ForwardState with another.
// Against the published code: codes are always 16 bits deep and in evaluation the order of curves
// is fixed, so that a cloud's output is the same alone, in a batch, and in any order of its points;
// the classifier of clouds is one map of the mean.
// Source: Wu et al., Point Transformer V3, CVPR 2024 (arXiv:2312.10035), and Pointcept's code
// (preset ptv3: its nuScenes configuration).
// Cost: O(N (dim^2 + patch_size dim)) for N voxels; memory O(N).
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "framework/plugin.h"
#include "plugins/models/point_transformer/blocks.h"
#include "plugins/models/point_transformer/options.h"

namespace attnlab {
namespace {

using Blocks = std::vector<std::shared_ptr<PointBlock>>;

class PointTransformer final : public Model {
 public:
  PointTransformer(const PointTransformerOptions& options, const ModelSetup& setup)
      : options_(options), classes_(setup.data.classes) {
    check(options_);
    const std::vector<std::int64_t>& features = setup.data.field("feature@voxel").shape;
    if (features.size() != 2 || features[1] <= 0 || classes_ < 1) {
      throw DataError("point_transformer needs features [N, C] of voxels, and classes; dataset '" +
                      setup.data.name + "' gives others");
    }
    stem_ = register_module(
        "stem", std::make_shared<PointStem>(features[1], options_.encoder_dims.front()));
    make_encoder(setup.attention);
    std::int64_t channels = options_.encoder_dims.back();
    if (by_point()) {
      make_decoder(setup.attention);
      if (!options_.decoder_dims.empty()) channels = options_.decoder_dims.front();
    }
    head_ = register_module("head", std::make_shared<Linear>(channels, classes_));
    start_uniform(*head_);
  }

  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    const Tensor& grid = batch.fields.at("grid@voxel");
    const SortedVoxels voxels = sorted_voxels(grid, batch.offsets.at("voxel"), curves());
    Tensor x = batch.fields.at("feature@voxel").to(head_->weight.scalar_type());
    if (!voxels.in_order) x = take_rows(x, voxels.rows);
    AttentionContext context{0, nullptr, pass.trace};
    std::vector<PointLevel::Pooled> levels = {{voxels.level, {}}};
    std::vector<Tensor> skips;
    x = stem_->forward(x, *voxels.level);
    for (std::size_t s = 0; s < encoder_.size(); ++s) {
      if (s > 0) {
        skips.push_back(x);
        levels.push_back(levels.back().level->pooled(curves()));
        x = pooling_[s - 1]->forward(x, levels.back().parents);
      }
      x = through(encoder_[s], x, levels[s].level, context);
    }
    NamedTensors outputs;
    if (pass.trace != nullptr && pass.trace->weights) outputs = tokens_of(voxels, levels);
    if (!by_point()) {
      outputs.set("logits", head_->forward(mean_of_clouds(x, *levels.back().level)));
      return outputs;
    }
    for (std::size_t s = decoder_.size(); s-- > 0;) {
      x = unpooling_[s]->forward(x, skips[s], levels[s + 1].parents);
      x = through(decoder_[s], x, levels[s].level, context);
    }
    const Tensor logits = head_->forward(x);
    outputs.set("logits@voxel", voxels.in_order ? logits : take_rows(logits, voxels.back));
    return outputs;
  }

  std::vector<FieldInfo> outputs() const override {
    const at::ScalarType type = head_->weight.scalar_type();
    if (by_point()) return {{.name = "logits@voxel", .shape = {-1, classes_}, .dtype = type}};
    return {{.name = "logits", .shape = {classes_}, .dtype = type}};
  }

  /// Blocks from 1 on in the order in which they run, a (un)pooling as the block behind it; the
  /// stem 0, the head behind the last.
  std::int64_t depth(const std::string& name) const override {
    if (name.starts_with("stem.")) return 0;
    const auto of = [&](const std::string& module) { return name.starts_with(module + "."); };
    std::int64_t depth = 1;
    for (std::size_t s = 0; s < encoder_.size(); ++s) {
      if (of(fmt::format("pooling{}", s))) return depth;
      for (std::size_t b = 0; b < encoder_[s].size(); ++b, ++depth) {
        if (of(fmt::format("encoder{}_block{}", s, b))) return depth;
      }
    }
    for (std::size_t s = decoder_.size(); s-- > 0;) {
      if (of(fmt::format("unpooling{}", s))) return depth;
      for (std::size_t b = 0; b < decoder_[s].size(); ++b, ++depth) {
        if (of(fmt::format("decoder{}_block{}", s, b))) return depth;
      }
    }
    return depth;
  }

 private:
  bool by_point() const { return options_.head == "point"; }

  void make_encoder(const AttentionBuilder& attention) {
    const std::vector<double> drops = drop_paths(options_.encoder_depths);
    std::size_t block = 0;
    for (std::size_t s = 0; s < options_.encoder_depths.size(); ++s) {
      const std::string name = std::to_string(s);
      if (s > 0) {
        pooling_.push_back(register_module(
            "pooling" + name, std::make_shared<PointPooling>(options_.encoder_dims[s - 1],
                                                             options_.encoder_dims[s])));
      }
      encoder_.emplace_back();
      for (std::int64_t i = 0; i < options_.encoder_depths[s]; ++i) {
        encoder_.back().push_back(
            register_module(fmt::format("encoder{}_block{}", name, i),
                            std::make_shared<PointBlock>(
                                block_options(options_.encoder_dims[s], options_.encoder_heads[s],
                                              i, drops[block++]),
                                attention)));
      }
    }
  }

  /// Stages are made from the coarsest on, as they run; `decoder_[s]` is that of level s.
  void make_decoder(const AttentionBuilder& attention) {
    const std::vector<double> drops = drop_paths(options_.decoder_depths);
    const std::size_t stages = options_.decoder_depths.size();
    decoder_.resize(stages);
    unpooling_.resize(stages);
    std::size_t last = drops.size();  // the drops of a stage fall from block to block, as published
    for (std::size_t s = stages; s-- > 0;) {
      const std::string name = std::to_string(s);
      const std::int64_t below =
          s + 1 == stages ? options_.encoder_dims.back() : options_.decoder_dims[s + 1];
      unpooling_[s] = register_module(
          "unpooling" + name, std::make_shared<PointUnpooling>(below, options_.encoder_dims[s],
                                                               options_.decoder_dims[s]));
      for (std::int64_t i = 0; i < options_.decoder_depths[s]; ++i) {
        decoder_[s].push_back(register_module(
            fmt::format("decoder{}_block{}", name, i),
            std::make_shared<PointBlock>(block_options(options_.decoder_dims[s],
                                                       options_.decoder_heads[s], i, drops[--last]),
                                         attention)));
      }
    }
  }

  PointBlockOptions block_options(std::int64_t dim, std::int64_t heads, std::int64_t number,
                                  double drop) {
    PointBlockOptions block;
    block.mlp_ratio = options_.mlp_ratio;
    block.drop_path = drop;
    block.patch_size = options_.patch_size;
    block.number = number;
    block.heads.dim = dim;
    block.heads.heads = heads;
    block.heads.attention_dropout = options_.attention_dropout;
    block.heads.dropout = options_.dropout;
    block.heads.layer = layers_++;
    block.heads.layers = std::accumulate(options_.encoder_depths.begin(),
                                         options_.encoder_depths.end(), std::int64_t{0});
    if (by_point()) {
      block.heads.layers += std::accumulate(options_.decoder_depths.begin(),
                                            options_.decoder_depths.end(), std::int64_t{0});
    }
    return block;
  }

  /// From 0 in the first block to `drop_path` in the last.
  std::vector<double> drop_paths(const std::vector<std::int64_t>& depths) const {
    const std::int64_t blocks = std::accumulate(depths.begin(), depths.end(), std::int64_t{0});
    std::vector<double> drops(static_cast<std::size_t>(blocks));
    for (std::size_t i = 0; i < drops.size(); ++i) {
      drops[i] = options_.drop_path * static_cast<double>(i) /
                 static_cast<double>(std::max<std::int64_t>(blocks - 1, 1));
    }
    return drops;
  }

  std::vector<Curve> curves() const {
    std::vector<Curve> all(kCurves.begin(), kCurves.end());
    if (!is_training() || options_.curves == "fixed") return all;
    const Tensor order = at::randperm(4, at::kLong);
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] = kCurves[static_cast<std::size_t>(order.data_ptr<std::int64_t>()[i])];
    }
    return all;
  }

  static Tensor through(const Blocks& blocks, Tensor x, const std::shared_ptr<PointLevel>& level,
                        AttentionContext& context) {
    for (const auto& block : blocks) {
      x = block->forward(x, level, context);
      ++context.layer;
    }
    return x;
  }

  /// Whose weights the last layer's are, for who asked for them: `slots` [P, K], the token in each
  /// slot of its patches (-1: padding), and `token@voxel` [M], the token that each of the batch's
  /// voxels is in. Nothing where no layer attends.
  NamedTensors tokens_of(const SortedVoxels& voxels,
                         const std::vector<PointLevel::Pooled>& levels) const {
    const auto [block, last] = last_block();
    if (block == nullptr || voxels.level->rows() == 0) return {};
    Tensor token = at::arange(voxels.level->rows());
    for (std::size_t s = 1; s <= last; ++s) {
      token = levels[s].parents.source.to(at::kCPU).index_select(0, token);
    }
    if (!voxels.in_order) token = token.index_select(0, voxels.back.source.to(at::kCPU));
    const Patches& patches = block->groups(*levels[last].level);
    return {{"slots", patches.slots.source.view({patches.count, patches.size})},
            {"token@voxel", token}};
  }

  /// The block that runs last, and its level.
  std::pair<const PointBlock*, std::size_t> last_block() const {
    for (std::size_t s = 0; s < decoder_.size(); ++s) {
      if (!decoder_[s].empty()) return {decoder_[s].back().get(), s};
    }
    for (std::size_t s = encoder_.size(); s-- > 0;) {
      if (!encoder_[s].empty()) return {encoder_[s].back().get(), s};
    }
    return {nullptr, 0};
  }

  /// [B, C]; zeros for a cloud without points.
  static Tensor mean_of_clouds(const Tensor& x, const PointLevel& level) {
    const Tensor counts = level.offsets().diff();
    const Tensor cloud = at::repeat_interleave(counts);
    const RowMap map = row_map(cloud, counts.size(0)).to(x.device());
    const Tensor divisors = counts.clamp_min(1).to(x.device(), x.scalar_type());
    return sum_rows(x, map) / divisors.unsqueeze(1);
  }

  PointTransformerOptions options_;
  std::int64_t classes_, layers_ = 0;
  std::shared_ptr<PointStem> stem_;
  std::vector<Blocks> encoder_, decoder_;
  std::vector<std::shared_ptr<PointPooling>> pooling_;
  std::vector<std::shared_ptr<PointUnpooling>> unpooling_;
  std::shared_ptr<Linear> head_;
};

}  // namespace

ATTNLAB_PLUGIN(model, PointTransformer, PointTransformerOptions,
               {.id = "attnlab/point_transformer",
                .version = "1.1.0",
                .summary = "U-Net over voxels, attention in patches along space-filling curves",
                .citation = "Wu et al. 2024, Point Transformer V3, arXiv:2312.10035",
                .licence = "Apache-2.0",
                .takes = {"grid@voxel", "feature@voxel"},
                .gives = {"logits@voxel if head=point", "logits if head=cloud"},
                .needs = {"padding"},
                .recompute = true})

}  // namespace attnlab
