#include "framework/eval/explanation.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <vector>

namespace attnlab {
namespace {

/// Patches of a layer as a grid of the image's aspect, behind a class token or not.
struct Grid {
  std::int64_t rows = 0, columns = 0, tokens_before = 0;
};

/// @param outputs  the model's: behind the rows of its `tokens` stand tokens of its own (registers)
Grid grid_of(const std::vector<LayerTrace>& layers, const Tensor& image,
             const NamedTensors& outputs) {
  if (layers.empty()) {
    throw ShapeError(
        "explanation: the model recorded no attention; take one with attention layers");
  }
  for (const LayerTrace& layer : layers) {
    if (layer.weights.defined()) continue;
    throw ShapeError(fmt::format(
        "explanation: layer {} records no weights, since its output is not weights times values; "
        "take another attention",
        layer.layer));
  }
  const std::int64_t all = layers[0].weights.size(-1);
  for (const LayerTrace& layer : layers) {
    const Tensor& weights = layer.weights;
    if (weights.dim() != 4 || weights.size(2) != all || weights.size(3) != all) {
      throw ShapeError(fmt::format(
          "explanation: its layers must all attend among the same tokens; one is {}, the first "
          "has {} tokens",
          describe(weights), all));
    }
  }
  const Tensor* const kept = outputs.find("tokens");
  const std::int64_t tokens = kept == nullptr ? all : std::min(all, kept->size(1));
  const std::int64_t height = image.size(2), width = image.size(3);
  for (const std::int64_t before : {1, 0}) {
    for (std::int64_t rows = 1; rows <= tokens - before; ++rows) {
      const std::int64_t columns = (tokens - before) / rows;
      if (rows * columns == tokens - before && rows * width == columns * height) {
        return {rows, columns, before};
      }
    }
  }
  throw ShapeError(
      fmt::format("explanation: {} tokens are not a grid of patches of an image of {} x {} pixels",
                  tokens, height, width));
}

/// [B, L, L] to [B, rows, columns]: what the class token, or all patches, take of patches.
Tensor patches_of(const Tensor& among, const Grid& grid) {
  const std::int64_t patches = grid.rows * grid.columns;
  const Tensor row =
      grid.tokens_before > 0 ? among.select(1, 0) : among.narrow(1, 0, patches).mean(1);
  return row.narrow(1, grid.tokens_before, patches)
      .reshape({among.size(0), grid.rows, grid.columns});
}

Explanation ag_cam(Model& model, const Batch& batch, const Tensor& classes) {
  const at::AutoGradMode gradients(true);
  AttentionTrace trace;
  trace.weights = trace.logits = trace.attached = true;
  ForwardPass pass;
  pass.trace = &trace;
  const NamedTensors outputs = model.forward(batch, pass);
  const Tensor logits = outputs.at("logits");
  const Grid grid = grid_of(trace.layers, batch.fields.at("image"), outputs);
  const Tensor wanted = classes.defined() ? classes : logits.detach().argmax(1);
  std::vector<Tensor> weights;
  for (const LayerTrace& layer : trace.layers) {
    if (!layer.logits.defined()) {
      throw ShapeError(
          "explanation: AG-CAM needs logits, which this attention does not record; "
          "take method: rollout");
    }
    weights.push_back(layer.weights);
  }
  const std::vector<Tensor> slopes = torch::autograd::grad(
      {logits.gather(1, wanted.view({-1, 1})).sum()}, weights, {}, /*retain_graph=*/{},
      /*create_graph=*/false, /*allow_unused=*/true);
  Tensor sum;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!slopes[i].defined()) {
      throw ShapeError(
          "explanation: what the attention records is not what it computes with, so "
          "that weights have no gradient; take method: rollout");
    }
    const Tensor part = (slopes[i].relu() * trace.layers[i].logits.detach().sigmoid()).sum(1);
    sum = sum.defined() ? sum + part : part;
  }
  return {logits.detach(), patches_of(sum.detach(), grid)};
}

Explanation rollout(Model& model, const Batch& batch) {
  const c10::NoGradGuard no_grad;
  AttentionTrace trace;
  trace.weights = true;
  ForwardPass pass;
  pass.trace = &trace;
  const NamedTensors outputs = model.forward(batch, pass);
  const Tensor logits = outputs.at("logits");
  const Grid grid = grid_of(trace.layers, batch.fields.at("image"), outputs);
  Tensor product;
  for (const LayerTrace& layer : trace.layers) {
    const Tensor mean = layer.weights.mean(1);
    const Tensor own = at::eye(mean.size(1), mean.options());
    const Tensor both = (mean + own) / 2;
    const Tensor rows = both / both.sum(2, /*keepdim=*/true);
    product = product.defined() ? at::matmul(rows, product) : rows;
  }
  return {logits, patches_of(product, grid)};
}

}  // namespace

Explanation explain(Model& model, const Batch& batch, const std::string& method,
                    const Tensor& classes) {
  return method == "rollout" ? rollout(model, batch) : ag_cam(model, batch, classes);
}

Tensor heat_of(const Tensor& map, std::int64_t height, std::int64_t width) {
  const Tensor large =
      at::upsample_bilinear2d(map.unsqueeze(1), {height, width}, /*align_corners=*/false)
          .squeeze(1);
  const Tensor low = large.amin({1, 2}, true), spread = large.amax({1, 2}, true) - low;
  return at::where(spread.gt(0), (large - low) / spread, at::zeros_like(large));
}

Tensor boxed(const Tensor& heat, double threshold) {
  const std::int64_t height = heat.size(0), width = heat.size(1);
  const Tensor above = heat.to(at::kCPU).gt(threshold).contiguous();
  const bool* hot = above.data_ptr<bool>();
  const Tensor out = at::zeros({height, width}, at::kBool);
  std::vector<char> seen(static_cast<std::size_t>(height * width), 0);
  std::vector<std::int64_t> open;
  for (std::int64_t start = 0; start < height * width; ++start) {
    if (!hot[start] || seen[static_cast<std::size_t>(start)] != 0) continue;
    std::int64_t top = height, bottom = 0, left = width, right = 0;
    seen[static_cast<std::size_t>(start)] = 1;
    open.push_back(start);
    while (!open.empty()) {
      const std::int64_t y = open.back() / width, x = open.back() % width;
      open.pop_back();
      top = std::min(top, y), bottom = std::max(bottom, y);
      left = std::min(left, x), right = std::max(right, x);
      for (std::int64_t i = std::max<std::int64_t>(y - 1, 0); i < std::min(y + 2, height); ++i) {
        for (std::int64_t j = std::max<std::int64_t>(x - 1, 0); j < std::min(x + 2, width); ++j) {
          char& there = seen[static_cast<std::size_t>(i * width + j)];
          if (!hot[i * width + j] || there != 0) continue;
          there = 1;
          open.push_back(i * width + j);
        }
      }
    }
    out.narrow(0, top, bottom - top + 1).narrow(1, left, right - left + 1).fill_(true);
  }
  return out;
}

}  // namespace attnlab
