// A small run of iBOT, and what its model shows of pictures.
#pragma once

#include <string>
#include <vector>

#include "framework/train/step.h"
#include "tests/support/plugins.h"

namespace attnlab::ibot_parts {

inline constexpr const char* kSmoke = ATTNLAB_TEST_CONFIGS "/experiments/smoke/ibot_synthetic.yaml";

inline const std::vector<std::string> kSmall = {"train.workers=0",
                                                "train.threads=1",
                                                "train.tensorboard=false",
                                                "dataset.train=32",
                                                "dataset.test=8",
                                                "train.batch_size=8",
                                                "train.log_every=1",
                                                "task.prototypes=12",
                                                "model.drop_path=0",
                                                "train.eval_batch_size=4",
                                                "train.checkpoint_seconds=3600"};

inline BuiltRun built(std::vector<std::string> more = {}) {
  more.insert(more.begin(), kSmall.begin(), kSmall.end());
  return build_run(load_experiment(kSmoke, more, testing::registry().catalogue()), 1,
                   testing::registry());
}

inline Batch first_batch(const BuiltRun& run, std::int64_t size) {
  std::vector<NamedTensors> examples;
  for (std::int64_t i = 0; i < size; ++i) {
    Random random(std::uint64_t(i) + 11);
    examples.push_back(run.dataset->example(Split::train, i, &random));
  }
  return run.dataset->collate(examples);
}

/// The model's class tokens and patches, by the contract of features.
inline LayerFeatures features(Model& model, const Tensor& image, const Tensor* masked) {
  Batch batch;
  batch.size = image.size(0);
  batch.fields.set("image", image);
  if (masked != nullptr) batch.fields.set("masked", *masked);
  FeatureTrace trace;
  trace.layers = {-1};
  ForwardPass pass;
  pass.features = &trace;
  model.forward(batch, pass);
  return trace.found.at(0);
}

}  // namespace attnlab::ibot_parts
