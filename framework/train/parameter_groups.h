// Parameter groups and layer decay: what `train.optimizer.groups` and `.layer_decay` make of each
// parameter.
//
//   groups:
//     backbone: {match: ["backbone.*"], lr_scale: 0.1, epochs: [0, 2]}
//     last: {match: ["task.*last*"], epochs: [1, -1]}
//     positions: {match: ["positions"], decay: all}
//
// The first group with a pattern that fits takes a parameter. Weight decay is of what the model
// says (`Trainable::decays`), or of all. With layer decay d, learning rates
// are multiplied by d^(D - depth), D being the largest depth; what gives no depth keeps its rate.
// Source of layer decay: Clark et al., ELECTRA, ICLR 2020; Bao et al., BEiT, ICLR 2022.
#pragma once

#include <string_view>
#include <vector>

#include "framework/train/optimizer.h"

namespace attnlab {

/// Whether a name fits a pattern: * stands for any text, dots too, ? for any one character.
bool matches_pattern(std::string_view name, std::string_view pattern);

/// Sets learning-rate scale, whether and how much it decays, and epochs of every parameter.
/// @throws ConfigError naming every pattern that fits no parameter, with near names, every group
///         that is left without parameters, and layer decay where no parameter states its depth.
void apply_groups(std::vector<OptimizedParameter>& parameters, const OptimizerOptions& options);

}  // namespace attnlab
