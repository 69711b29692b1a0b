// Which runs can be trained together: framework/train/ensemble.h says what that is.
#pragma once

#include <string>

#include "framework/experiment/experiment.h"

namespace attnlab {

/// Why a composition cannot be trained together with others; empty when it can.
std::string obstacle_to_ensemble(const Experiment& experiment, const Catalogue& catalogue);

/// Compositions with equal keys can be trained together: they differ in nothing but name, seeds,
/// the dataset's options and the optimiser's numbers.
std::string ensemble_key(const Experiment& experiment);

}  // namespace attnlab
