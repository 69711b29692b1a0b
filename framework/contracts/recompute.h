// Layers that are computed again in the backward pass (train.recompute): same numbers, less memory.
//
// Between the two passes such a layer keeps its inputs alone; the backward pass computes it once
// more, and then its gradients. At any time there is one layer's graph. Both passes draw the same
// random numbers, begin with the same buffers and the same ForwardState; what a layer counts
// (running statistics, losses of attentions) counts once. Where a tensor that several layers share
// is read more than once by each of them, its gradient is summed in another order; all else has the
// same bits as without. Gradients of gradients are refused.
// Source: Chen et al., Training deep nets with sublinear memory cost, 2016. Cost: one more forward
// pass of the layers.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "framework/contracts/attention.h"

namespace attnlab {

/// Says for this thread, while it lives, whether `recomputed` computes layers again.
class RecomputeLayers {
 public:
  explicit RecomputeLayers(bool on = true);
  ~RecomputeLayers();
  RecomputeLayers(const RecomputeLayers&) = delete;
  RecomputeLayers& operator=(const RecomputeLayers&) = delete;

  /// How many passes of layers will be computed again, of those that began while this was the
  /// innermost.
  std::int64_t count() const { return count_; }

 private:
  friend std::vector<Tensor> recomputed(
      const torch::nn::Module&, const std::vector<Tensor>&, AttentionContext&,
      const std::function<std::vector<Tensor>(const std::vector<Tensor>&, AttentionContext&)>&);

  bool on_;
  mutable std::int64_t count_ = 0;  // also of an object that is const
  RecomputeLayers* outer_;
};

/// One pass of a layer: outputs of inputs. It is called again after the model's forward pass has
/// ended, so it must own all that it holds, except modules.
using LayerPass = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs,
                                                    AttentionContext& context)>;

/// The outputs of a layer, which `RecomputeLayers` may have computed again. Without it, where no
/// gradient is asked for, and where the context has a trace or losses, this is pass(inputs,
/// context).
/// @param layer   whose buffers and attentions the pass uses
/// @param inputs  all tensors that the pass reads and a gradient may flow to, except parameters;
///                undefined ones stay undefined
/// @throws ConfigError for a ForwardState with a struct that does not name its tensors;
///         ShapeError where the pass reads a tensor with a graph that is not among the inputs.
std::vector<Tensor> recomputed(const torch::nn::Module& layer, const std::vector<Tensor>& inputs,
                               AttentionContext& context, const LayerPass& pass);

}  // namespace attnlab
