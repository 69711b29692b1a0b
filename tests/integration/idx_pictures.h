// Forty made-up pictures in MNIST's format.
#pragma once

#include <string>

#include "tests/support/data_files.h"
#include "tests/support/temp_folder.h"

namespace attnlab::testing {

/// Writes idx/train-... and idx/t10k-...: pictures of 28 x 28 pixels, four of each of ten classes,
/// the same in both splits.
inline void write_idx_pictures(const TempFolder& folder) {
  std::string bytes, labels;
  for (int i = 0; i < 40; ++i) {
    labels += char(i % 10);
    for (int k = 0; k < 784; ++k) bytes += char((k * (i + 3) + i) % 256);
  }
  for (const std::string prefix : {"train", "t10k"}) {
    folder.write("idx/" + prefix + "-images-idx3-ubyte", idx_file({40, 28, 28}, bytes));
    folder.write("idx/" + prefix + "-labels-idx1-ubyte", idx_file({40}, labels));
  }
}

}  // namespace attnlab::testing
