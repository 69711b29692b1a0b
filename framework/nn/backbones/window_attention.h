// Attention within windows, with a bias from where two cells lie to each other (swin.h).
#pragma once

#include "framework/contracts/attention.h"
#include "framework/nn/modules/layers.h"

namespace attnlab {

/// 16 sigmoid(MLP(offset)) of all pairs of cells of a window of w x w.
class WindowBias : public torch::nn::Module {
 public:
  WindowBias(std::int64_t side, std::int64_t heads);
  /// [H, w w, w w].
  Tensor forward() const;

 private:
  std::int64_t side_;
  std::shared_ptr<Linear> in_, out_;  ///< 2 to 512, and 512 to H without bias
  Tensor offsets_;                    ///< [(2 w - 1)^2, 2], buffer
};

class WindowAttention : public torch::nn::Module {
 public:
  WindowAttention(std::int64_t dim, std::int64_t side, const AttentionShape& shape,
                  const AttentionBuilder& attention);
  /// @param x        [B n, w w, dim]: n windows of each map
  /// @param visible  [1 or B, n, w w, w w] bool; undefined: all
  /// @returns [B n, w w, dim]. An attention that reads places is told row and column in the window:
  /// cells that see each other are as far apart there as on the map.
  Tensor forward(const Tensor& x, const Tensor& visible, AttentionContext& context);

 private:
  std::int64_t heads_, side_;
  std::shared_ptr<Linear> qkv_, output_;
  std::shared_ptr<WindowBias> bias_;
  std::shared_ptr<Attention> attention_;
};

}  // namespace attnlab
