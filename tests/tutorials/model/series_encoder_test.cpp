// The series encoder reads the order of time steps, and nothing of what stands in padding.
#include <gtest/gtest.h>

#include "tests/support/plugins.h"

namespace attnlab {
namespace {

DatasetInfo padded_series() {
  DatasetInfo data;
  data.name = "waves";
  data.fields = {{"series", {-1, 3}}, {"valid", {-1}, at::kBool}, {"class", {}, at::kLong}};
  data.classes = 4;
  return data;
}

std::shared_ptr<Model> encoder(const std::string& options = "{dim: 8, heads: 2, hidden: 8}") {
  auto model = testing::make_model("series_encoder", padded_series(), options);
  model->to(at::kDouble);
  model->eval();
  return model;
}

Tensor logits(Model& model, const Tensor& series, const Tensor& valid) {
  Batch batch;
  batch.size = series.size(0);
  batch.fields = {{"series", series}, {"valid", valid}};
  ForwardPass pass;
  return model.forward(batch, pass).at("logits");
}

TEST(SeriesEncoder, IgnoresWhatStandsInPadding) {
  at::manual_seed(1);
  const auto model = encoder();
  const Tensor series = at::randn({2, 6, 3}, at::kDouble);
  Tensor valid = at::ones({2, 6}, at::kBool);
  valid[1].slice(0, 4) = false;
  Tensor other = series.clone();
  other[1].slice(0, 4) = 7;
  const Tensor expected = logits(*model, series, valid);
  EXPECT_TRUE(at::allclose(logits(*model, other, valid), expected, 0, 1e-12));
  const Tensor alone =
      logits(*model, series.narrow(0, 1, 1).slice(1, 0, 4), at::ones({1, 4}, at::kBool));
  EXPECT_TRUE(at::allclose(alone, expected.narrow(0, 1, 1), 0, 1e-12));
}

TEST(SeriesEncoder, ReadsTheOrderOfTimeSteps) {
  at::manual_seed(1);
  const auto model = encoder();
  const Tensor series = at::randn({1, 6, 3}, at::kDouble);
  const Tensor valid = at::ones({1, 6}, at::kBool);
  const Tensor forwards = logits(*model, series, valid);
  EXPECT_FALSE(at::allclose(logits(*model, series.flip(1), valid), forwards, 0, 1e-6));
}

TEST(SeriesEncoder, RefusesHeadsThatDoNotDivideItsWidth) {
  try {
    encoder("{dim: 8, heads: 3}");
    FAIL() << "nothing was thrown";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "options:1:18: model 'series_encoder': heads: 3 heads do not divide dim 8; change "
                 "either");
  }
}

}  // namespace
}  // namespace attnlab
