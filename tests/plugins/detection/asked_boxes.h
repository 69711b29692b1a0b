// Two images with a cat and a dog each, and answers to them, for tests of the detection tasks.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/plugins.h"

namespace attnlab::testing {

inline DatasetInfo cats_and_dogs() {
  DatasetInfo data;
  data.name = "pets";
  data.class_names = {"cat", "dog"};
  data.classes = 2;
  data.class_groups = {{"base", {0}}, {"novel", {1}}};
  return data;
}

/// Pictures of 100 x 100 pixels. In both, a cat fills the left upper fifth of each side, and a dog
/// lies in the middle; a difficult dog of the second one counts for nothing.
/// @param asked  the class that each prompt shows
inline Batch two_pets(const std::vector<std::int64_t>& asked) {
  Batch batch;
  batch.size = 2;
  batch.fields = {{"box@box", at::tensor({0.0, 0.0, 0.2, 0.2, 0.4, 0.4, 0.6, 0.6, 0.0, 0.0,
                                          0.2, 0.2, 0.4, 0.4, 0.6, 0.6, 0.8, 0.8, 1.0, 1.0},
                                         at::kDouble)
                                  .view({5, 4})},
                  {"label@box", at::tensor({0, 1, 0, 1, 1}, at::kLong)},
                  {"ignored@box", at::tensor({0, 0, 0, 0, 1}, at::kLong)},
                  {"area@box", at::full({5}, 400.0)},
                  {"size", at::full({2, 2}, 100, at::kLong)},
                  {"prompt_class", at::tensor(asked, at::kLong)},
                  {"prompt_number", at::zeros({2}, at::kLong)},
                  {"image_id", at::arange(2)}};
  batch.offsets.set("box", at::tensor({0, 2, 5}, at::kLong));
  return batch;
}

/// [2, 2, 4], centred. By image, the first answer is the cat's box; the second one is the dog's box
/// moved by a tenth of its picture to the right (IoU and GIoU 1/3).
inline Tensor answered_boxes() {
  return at::tensor({0.1, 0.1, 0.2, 0.2, 0.6, 0.5, 0.2, 0.2}, at::kDouble)
      .view({1, 2, 4})
      .repeat({2, 1, 1});
}

/// - a (1 - p)^2 log p where it is right, - (1 - a) p^2 log(1 - p) elsewhere
inline double focal(double logit, bool right, double alpha) {
  const double p = 1 / (1 + std::exp(-logit));
  return right ? -alpha * (1 - p) * (1 - p) * std::log(p) : -(1 - alpha) * p * p * std::log(1 - p);
}

}  // namespace attnlab::testing
