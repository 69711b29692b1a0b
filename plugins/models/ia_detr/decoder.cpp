#include "plugins/models/ia_detr/decoder.h"

#include "framework/nn/backbones/cell_places.h"
#include "framework/nn/boxes/boxes.h"

namespace attnlab {
namespace {

/// Centred boxes in shares as corners in pixels. @param pixels  [B, 2] height, width
Tensor in_pixels(const Tensor& boxes, const Tensor& pixels) {
  const Tensor scale = pixels.flip({1}).repeat({1, 2}).unsqueeze(1);  // width, height, twice
  return corners_of(boxes) * scale.to(boxes.scalar_type());
}

/// The middles of centred boxes in shares, in cells: [B, Q, 2] row and column. A cell's own middle
/// is at whole numbers. @param pixels  [B, 2] height, width
Tensor in_cells(const Tensor& boxes, const Tensor& pixels, std::int64_t stride) {
  const Tensor cells = (pixels / double(stride)).unsqueeze(1);  // rows, columns
  return boxes.narrow(2, 0, 2).flip({2}) * cells.to(boxes.scalar_type()) - 0.5;
}

}  // namespace

Decoder::Decoder(const DecoderOptions& options, const AttentionBuilder& attention)
    : options_(options) {
  for (std::int64_t i = 0; i < options.depth; ++i) {
    // Attentions of one kind follow each other: each kind shares a state of its own.
    LayerSizes asking = options.sizes, reading = options.sizes;
    asking.layer += i;
    reading.layer += options.depth + i;
    const auto part = std::make_shared<torch::nn::Module>();
    Layer layer;
    layer.asking =
        part->register_module("asking", std::make_shared<ReadingBlock>(asking, attention));
    layer.reading =
        part->register_module("reading", std::make_shared<ReadingBlock>(reading, attention));
    if (options.bias_hidden > 0) {
      layer.bias = part->register_module(
          "bias", std::make_shared<BoxBias>(options.bias_hidden, options.sizes.heads));
    }
    layer.mlp = part->register_module("mlp", std::make_shared<MlpBlock>(options.sizes));
    layer.heads = part->register_module(
        "heads", std::make_shared<Heads>(options.sizes.dim, options.classes, options.features));
    register_module("layer" + std::to_string(i), part);
    layers_.push_back(std::move(layer));
  }
  norm_ = register_module("norm", std::make_shared<LayerNorm>(options.sizes.dim, 1e-5));
  layers_.front().heads->start_sides(options.first_side);
}

Answers Decoder::forward(const Queries& queries, const Memory& memory,
                         AttentionTrace* trace) const {
  const std::int64_t all = queries.content.size(1), ones = queries.ones;
  ForwardState asking_ones, asking_many, reading;
  AttentionExtras from_memory;
  if (!memory.valid.all().item<bool>()) from_memory.visible.key_valid = memory.valid.flatten(1);
  Tensor x = queries.content, box = queries.boxes.detach(), box_before = queries.boxes;
  std::vector<Tensor> logits, boxes, features;
  for (const Layer& layer : layers_) {
    const auto ask = [&](std::int64_t first, std::int64_t count, ForwardState* state) {
      AttentionExtras among_queries;
      if (layer.asking->asks_for_places()) {
        among_queries.query_positions = among_queries.key_positions =
            in_cells(box.narrow(1, first, count), memory.pixels, options_.stride);
      }
      return layer.asking->read_self(x.narrow(1, first, count),
                                     queries.places.narrow(1, first, count), state, trace,
                                     among_queries);
    };
    x = ones == all ? ask(0, all, &asking_ones)
                    : at::cat({ask(0, ones, &asking_ones), ask(ones, all - ones, &asking_many)}, 1);
    from_memory.query_positions = from_memory.key_positions = Tensor();
    if (layer.reading->asks_for_places()) {
      from_memory.query_positions = in_cells(box, memory.pixels, options_.stride);
      from_memory.key_positions =
          cell_places(memory.valid.size(1), memory.valid.size(2), memory.valid.device());
    }
    if (layer.bias != nullptr) {
      from_memory.bias = layer.bias
                             ->forward(in_pixels(box, memory.pixels), memory.valid.size(1),
                                       memory.valid.size(2), double(options_.stride))
                             .to(x.scalar_type());
    }
    x = layer.mlp->forward(layer.reading->read(x, queries.places, memory.keys, memory.values,
                                               &reading, trace, from_memory));
    const Tensor y = norm_->forward(x), change = layer.heads->change(y);
    logits.push_back(layer.heads->logits(y));
    // The same numbers; looking forward twice, the gradient reaches the box of the layer before.
    boxes.push_back((change + inverse_sigmoid(box_before)).sigmoid());
    const Tensor moved = (change + inverse_sigmoid(box)).sigmoid();
    box = moved.detach();
    box_before = options_.look_forward_twice ? moved : box;
    if (options_.features > 0) features.push_back(layer.heads->features(y));
  }
  return {at::stack(logits, 1), at::stack(boxes, 1),
          features.empty() ? Tensor() : at::stack(features, 1)};
}

}  // namespace attnlab
