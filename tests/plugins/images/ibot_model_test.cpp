// What iBOT asks of a vision transformer: hidden patches and crops of other sizes.
#include <gmock/gmock.h>

#include "tests/plugins/images/ibot_parts.h"
#include "tests/support/message_of.h"
#include "tests/support/naive_attention.h"

namespace attnlab::ibot_model_test {
namespace {

using ibot_parts::built;
using ibot_parts::features;
using ::testing::HasSubstr;
using testing::largest_difference;
using testing::message_of;

TEST(MaskToken, StandsInThePlaceOfHiddenPatches) {
  BuiltRun run = built();
  run.model->eval();
  const at::NoGradGuard no_gradients;
  auto parameters = run.model->named_parameters();
  EXPECT_EQ(parameters["mask_token"].abs().max().item<float>(), 0);
  parameters["mask_token"].normal_();
  at::manual_seed(2);
  const Tensor image = at::randn({2, 3, 16, 16});
  Tensor masked = at::zeros({2, 16}, at::kBool);
  masked[0][5] = true;
  const auto tokens = [&](const Tensor& of, const Tensor* hidden) {
    return features(*run.model, of, hidden).tokens;
  };
  Tensor other = image.clone();
  other.narrow(2, 4, 4).narrow(3, 4, 4).add_(1);  // patch 5 of both
  const Tensor a = tokens(image, &masked), b = tokens(other, &masked);
  EXPECT_TRUE(a[0].equal(b[0])) << "what is hidden is not seen";
  EXPECT_FALSE(a[1].equal(b[1]));
  const Tensor whole = tokens(image, nullptr);
  EXPECT_FALSE(whole[0].equal(a[0]));
  EXPECT_TRUE(whole[1].equal(a[1]));
  EXPECT_THAT(message_of<ShapeError>([&] {
                const Tensor wrong = at::zeros({2, 15}, at::kBool);
                tokens(image, &wrong);
              }),
              HasSubstr("masked must be [2, 16] bool"));
}

TEST(OtherSizes, ResizePositions) {
  BuiltRun run = built();
  run.model->eval();
  const at::NoGradGuard no_gradients;
  const auto parameters = run.model->named_parameters();
  const Tensor image = at::randn({2, 3, 8, 24});
  const LayerFeatures found = features(*run.model, image, nullptr);
  EXPECT_EQ(found.tokens.sizes(), at::IntArrayRef({2, 12, 32}));
  EXPECT_EQ(found.rows, 2);
  EXPECT_EQ(found.columns, 6);
  // A model whose own size this is, with resized positions, gives the same.
  DatasetInfo data;
  data.name = "wide images";
  data.fields = {{"image", {3, 8, 24}, at::kFloat}};
  data.classes = 10;
  const auto wide =
      testing::make_model("vit", data, "{patch_size: 4, dim: 32, depth: 2, heads: 2}");
  wide->eval();
  for (auto& item : wide->named_parameters()) {
    const Tensor& saved = parameters[item.key()];
    item.value().copy_(wide->adapt(item.key(), saved));
  }
  EXPECT_LT(largest_difference(features(*wide, image, nullptr).tokens, found.tokens), 1e-5);
}

}  // namespace
}  // namespace attnlab::ibot_model_test
