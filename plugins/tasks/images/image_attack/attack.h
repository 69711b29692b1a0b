// Attacks on a classifier within |x' - x|_inf <= eps. Each gives one candidate an image; whether it
// fools the model is judged by who asks.
//
//   FGSM    x + eps sign(grad CE). Goodfellow et al., ICLR 2015.
//   PGD     from x + U(-eps, eps): x' <- clip(x' + step sign(grad CE)). Madry et al., ICLR 2018.
//   SPSA    Adam on the perturbation; gradients of the margin by 2 n random directions of signs.
//           Uesato et al., ICML 2018; CleverHans' spsa.
//   APGD    PGD with momentum whose steps halve where the loss stops rising, from the best point.
//   APGD-T  APGD on the DLR loss towards each of the classes that come next.
//           Both: Croce & Hein, ICML 2020.
//   FAB-T   steps to the linearised boundary of each of these classes, drawn back to x, so that the
//           perturbation is small. Croce & Hein, ICML 2020 (arXiv:1907.02044).
//   Square  random squares of +-2 eps, kept where the margin falls; no gradients. Andriushchenko et
//           al., ECCV 2020.
// Constants and order of steps are those of AutoAttack's code (fra31/auto-attack), version
// standard.
//
// What an image's attack draws depends on the streams, the attack and the image itself, not on what
// else is in its batch. Cost: forward and backward passes; `Classifier::queries` counts them.
#pragma once

#include <string_view>
#include <vector>

#include "framework/base/random.h"
#include "plugins/tasks/images/image_attack/classifier.h"

namespace attnlab {

/// What an attack is given.
struct Target {
  const Classifier& classifier;
  Tensor images;  ///< [B, C, H, W], in the classifier's space
  Tensor labels;  ///< [B] int64, what to lead away from
  double eps = 0;
  Tensor low, high;                 ///< candidates stay between them, [1, C, 1, 1]; may be infinite
  std::vector<std::uint64_t> keys;  ///< what tells the images apart: hashes of their values
  RandomStreams streams{0};

  /// The images of some rows. @param rows  [R] int64
  Target part(const Tensor& rows) const;
  /// Cut to the ball and to the range.
  Tensor inside(const Tensor& candidates) const;
  /// A stream for each image. @param round  tells apart what one attack draws at several times
  std::vector<Random> random(std::string_view attack, std::uint64_t round = 0) const;
};

/// Uniform in [-1, 1), an image from its own stream.
Tensor uniform_like(const Tensor& images, std::vector<Random>& random);
/// Rows of a [B] bool tensor that are true, [R] int64.
Tensor rows_where(const Tensor& mask);
/// Where a [B] mask is true the one, else the other, of [B, ...].
Tensor chosen(const Tensor& mask, const Tensor& one, const Tensor& other);
/// [B]: logit of the label minus the largest other one; 0 or less: fooled. -infinity where logits
/// are not numbers.
Tensor margin_of(const Tensor& logits, const Tensor& labels);
/// [B, K] classes, the likeliest first, equally likely ones in their order.
Tensor by_likelihood(const Tensor& logits);
/// [B] cross entropies.
Tensor cross_entropies(const Tensor& logits, const Tensor& labels);

Tensor fgsm(const Target& target);
Tensor pgd(const Target& target, std::int64_t steps, double step_size);

struct SpsaSettings {
  std::int64_t steps = 40, samples = 128;
  double rate = 0.01;   ///< Adam's
  double delta = 0.01;  ///< of the random directions
  /// As CleverHans' PyTorch code does: its loss adds x to what is x + perturbation already, so that
  /// gradients are estimated around 2 x, wherever the perturbation has got to.
  bool published = false;
};
Tensor spsa(const Target& target, const SpsaSettings& settings);

/// @param loss   to be raised, of the rows of `target`
/// @param round  for the start
/// @returns the last candidate that fooled the model, else the start.
Tensor apgd(const Target& target, std::int64_t steps, const LogitLoss& loss, std::string_view name,
            std::uint64_t round = 0);
Tensor apgd_ce(const Target& target, std::int64_t steps);
/// Of four classes or more, which the loss compares.
Tensor apgd_targeted(const Target& target, std::int64_t steps, std::int64_t targets);
/// DLR towards a class: -(z_y - z_t) / (z_1st - (z_3rd + z_4th) / 2 + 1e-12), [B].
Tensor targeted_dlr(const Tensor& logits, const Tensor& labels, const Tensor& towards);

Tensor fab_targeted(const Target& target, std::int64_t steps, std::int64_t targets);
/// The smallest move, in the largest coordinate, onto the plane w . x = b within low <= x <= high;
/// as far as the range allows where the plane is beyond it.
/// @param points, weights, low, high  [N, P]   @param offsets  b, [N]
Tensor onto_plane(const Tensor& points, const Tensor& weights, const Tensor& offsets,
                  const Tensor& low, const Tensor& high);

Tensor square_attack(const Target& target, std::int64_t queries);

}  // namespace attnlab
