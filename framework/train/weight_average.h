// A running mean of weights: p̄ <- d p̄ + (1 - d) p after every update.
//
// Buffers (statistics of batch normalisation, say) are copied. Sources: Polyak & Juditsky, 1992;
// with d growing to its end by a cosine, the teacher of BYOL (Grill et al., NeurIPS 2020) and DINO.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/experiment/train_options.h"
#include "framework/tensor/tensor.h"

namespace attnlab {

class WeightAverage {
 public:
  /// Adds a module that is trained, and one of the same build that holds its mean. Changes nothing
  /// yet. The modules' tensors must stay those that they are.
  /// @throws ShapeError naming what the modules do not have alike: names, shapes, dtypes.
  void add(const torch::nn::Module& live, torch::nn::Module& mean);

  /// Begins with the present weights as mean.
  void start();
  /// Takes the present weights in. @param decay  d, in [0, 1]
  void update(double decay);

 private:
  struct Item {
    Tensor live, mean;
  };

  std::vector<Item> parameters_, buffers_;
};

/// d after one of `steps` updates. @param step  0 for the first.
double average_decay(const AverageOptions& options, std::int64_t step, std::int64_t steps);

}  // namespace attnlab
