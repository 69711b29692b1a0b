// Linear maps to classes that are trained side by side on the same features, one a learning rate.
//
//   z = W x + b,   g = gradient of mean -log softmax(z)[y],   v = 0.9 v + g,   W = W - rate v
//
// W begins normal with deviation 0.01, the same for all rates, and b with 0; no weight decay: the
// linear evaluation of DINO's and iBOT's code. One product of matrices serves all rates.
#pragma once

#include <vector>

#include "framework/base/random.h"
#include "framework/tensor/tensor.h"

namespace attnlab {

class LinearHeads {
 public:
  /// @param random  draws the first weights
  LinearHeads(std::int64_t channels, std::int64_t classes, const std::vector<double>& rates,
              Random random, const at::Device& device);

  /// @param features  [B, C] float32 on the device
  /// @param classes   [B] int64 there
  /// @param factor    of all rates in this step
  void step(const Tensor& features, const Tensor& classes, double factor);

  /// [B, rates, K]
  Tensor logits(const Tensor& features) const;

  const Tensor& weight() const { return weight_; }  ///< [rates, K, C]
  const Tensor& bias() const { return bias_; }      ///< [rates, K]

 private:
  Tensor weight_, bias_, weight_velocity_, bias_velocity_;
  Tensor rates_;  ///< [rates]
};

}  // namespace attnlab
