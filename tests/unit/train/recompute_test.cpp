// train.recompute in a step: refused where no layer can be computed again.
#include "framework/train/step.h"
#include "tests/support/tiny_parts.h"

namespace attnlab::recompute_step_test {
namespace {

using attnlab::testing::mentions;

TEST(RecomputeStep, RefusesAModelWithoutSuchLayers) {
  TrainOptions options = testing::tiny_options();
  options.recompute = "layers";
  BuiltRun run = testing::tiny_run(testing::clouds(), options);
  Batch batch;
  batch.size = 4;
  batch.fields = {{"x", at::randn({4, 4})}, {"class", at::arange(4).remainder(2)}};
  try {
    backward(run, batch);
    FAIL() << "nothing was refused";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), mentions("train.recompute:", "no layer"));
  }
}

}  // namespace
}  // namespace attnlab::recompute_step_test
