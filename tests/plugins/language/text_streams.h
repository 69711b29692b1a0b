// What tests of text streams begin with: a folder of texts, and tokens as numbers.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/data_files.h"
#include "tests/support/kept_contract.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"

namespace attnlab::testing {

using Numbers = std::vector<std::int64_t>;

inline Numbers list_of(const Tensor& tensor) {
  const Tensor flat = tensor.contiguous().view({-1});
  return {flat.data_ptr<std::int64_t>(), flat.data_ptr<std::int64_t>() + flat.numel()};
}

/// Tests with texts in `folder`.
class TextFolder : public ::testing::Test {
 protected:
  std::shared_ptr<Dataset> open(const std::string& options, std::uint64_t seed = 0) const {
    return make_dataset("text_stream", "{root: " + folder.path() + ", " + options + "}", seed);
  }

  TempFolder folder;
};

}  // namespace attnlab::testing
