// Images with boxes, and the classes that these are of.
#pragma once

#include <string>
#include <vector>

#include "framework/contracts/batch.h"
#include "framework/contracts/dataset.h"

namespace attnlab::testing {

/// A dataset of boxes of these classes.
inline DatasetInfo boxes_of_classes(const std::vector<std::string>& names) {
  DatasetInfo data;
  data.name = "made";
  data.class_names = names;
  data.classes = static_cast<std::int64_t>(names.size());
  return data;
}

/// Three images: a cat, a dog and a crowd of dogs; none; a difficult dog and a dog.
inline Batch three_images() {
  Batch batch;
  batch.size = 3;
  batch.fields = {{"box@box", at::tensor({0.0, 0.0, 0.2, 0.4, 0.5, 0.5, 0.7, 0.9, 0.0, 0.0,
                                          1.0, 1.0, 0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.5, 0.5},
                                         at::kFloat)
                                  .view({5, 4})},
                  {"label@box", at::tensor({0, 1, 1, 1, 1}, at::kLong)},
                  {"ignored@box", at::tensor({0, 0, 2, 1, 0}, at::kLong)},
                  {"area@box", at::tensor({8.f, 8.f, 100.f, 1.f, 4.f})},
                  {"size", at::full({3, 2}, 10, at::kLong)},
                  {"prompt_class", at::tensor({0, 1, 1}, at::kLong)},
                  {"prompt_number", at::zeros({3}, at::kLong)},
                  {"image_id", at::arange(3)}};
  batch.offsets.set("box", at::tensor({0, 3, 3, 5}, at::kLong));
  return batch;
}

}  // namespace attnlab::testing
