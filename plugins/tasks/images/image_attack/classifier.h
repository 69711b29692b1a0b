// A model as attacks see it: images in the space that they are attacked in, to logits.
//
//   pixel       x in [0, 1]; normalisation is the first step of the model
//   normalised  x as the dataset gives it; a picture's range then differs between channels
#pragma once

#include <functional>

#include "framework/contracts/model.h"

namespace attnlab {

/// A number for each example from its logits: [B, K] to [B].
using LogitLoss = std::function<Tensor(const Tensor& logits)>;

class Classifier {
 public:
  /// The model's parameters need no gradient while it lives.
  /// @param image  the dataset's field, for mean and deviation
  /// @param draws  passes that logits and gradients are means over, for models with randomness
  /// @throws DataError where the space is pixel and the dataset does not say how it normalises.
  Classifier(Model& model, const FieldInfo& image, bool pixel_space, std::int64_t draws);
  ~Classifier();
  Classifier(const Classifier&) = delete;
  Classifier& operator=(const Classifier&) = delete;

  /// From the dataset's field to the space of the attack, and back.
  Tensor entered(const Tensor& field) const;
  Tensor left(const Tensor& images) const;
  /// Black and white of each channel in the space, [1, C, 1, 1].
  /// @throws DataError where the dataset does not say how it normalises.
  std::pair<Tensor, Tensor> picture_range(const Tensor& like) const;

  /// [B, K], without gradient: the mean over draws.
  Tensor logits(const Tensor& images) const;
  /// The same of one pass.
  Tensor one_draw(const Tensor& images) const;

  /// Whether two passes of the same images answer differently, by more than rounding. Its passes
  /// are not counted.
  bool varies(const Tensor& images) const;

  struct Step {
    Tensor logits, loss, gradient;  ///< [B, K], [B], as the images
  };
  /// The loss of each image and its gradient by that image, 0 where that is not finite.
  Step step(const Tensor& images, const LogitLoss& loss) const;

  /// Images that went through the model, forward or forth and back.
  double queries() const { return queries_; }

 private:
  Tensor forward(const Tensor& images) const;

  Model& model_;
  std::vector<double> mean_, deviation_;
  bool pixel_space_;
  std::int64_t draws_;
  std::vector<Tensor> trained_;  ///< parameters that needed gradients
  mutable double queries_ = 0;
};

}  // namespace attnlab
