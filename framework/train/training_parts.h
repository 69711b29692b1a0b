// What a run is trained with, beside its model and its data: made of its configuration before its
// folder is, so that what is wrong there is known before anything is written.
#pragma once

#include <memory>

#include "framework/train/optimizer.h"
#include "framework/train/run.h"
#include "framework/train/schedule.h"
#include "framework/train/selection.h"
#include "framework/train/weight_average.h"

namespace attnlab {

struct TrainingParts {
  Optimizer optimizer;
  Schedule schedule;
  EpochSelection selection;
  std::unique_ptr<WeightAverage> average;  ///< null without `train.average`; it holds the weights
};

/// Makes them, once the model has its first weights. @throws ConfigError with the key's place,
/// ShapeError.
void prepare_training(BuiltRun& run);

/// What `prepare_training` throws, without the memory that an optimiser takes.
/// @param parameters  the run's (step.h)
void check_training(const BuiltRun& run, const std::vector<OptimizedParameter>& parameters);

/// Hands them over; makes them where `prepare_training` has not.
TrainingParts take_training_parts(BuiltRun& run);

}  // namespace attnlab
