// How tokens are drawn, and what a writer asks of a model.
#include "framework/eval/token_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/data_files.h"

namespace attnlab::token_writer_test {
namespace {

using attnlab::testing::mentions;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

TEST(DrawToken, DrawsByItsShare) {
  const Tensor logits = at::tensor({0.1, 0.2, 0.3, 0.4}, at::kDouble).log() + 5;
  Random random(1);
  std::vector<int> counts(4, 0);
  for (int i = 0; i < 20000; ++i) ++counts[std::size_t(draw_token(logits, {}, random))];
  for (std::size_t t = 0; t < 4; ++t) EXPECT_NEAR(counts[t] / 20000.0, 0.1 * double(t + 1), 0.015);
}

TEST(DrawToken, ATemperatureSharpens) {
  const Tensor logits = at::tensor({0.25, 0.75}, at::kDouble).log();
  Random random(1);
  int second = 0;
  for (int i = 0; i < 20000; ++i) second += int(draw_token(logits, {.temperature = 0.5}, random));
  EXPECT_NEAR(second / 20000.0, 0.9, 0.015) << "shares squared: 1 to 9";
  EXPECT_EQ(draw_token(logits, {.temperature = 0}, random), 1);
}

TEST(DrawToken, ChoosesAmongTheLikeliest) {
  const Tensor logits = at::tensor({1.0F, 4.0F, 0.0F, 3.0F});
  Random random(1);
  std::vector<int> counts(4, 0);
  for (int i = 0; i < 2000; ++i) ++counts[std::size_t(draw_token(logits, {.top_k = 2}, random))];
  EXPECT_THAT(counts, ElementsAre(0, ::testing::Gt(0), 0, ::testing::Gt(0)));
  EXPECT_EQ(draw_token(logits, {.top_k = 1}, random), 1);
  EXPECT_GE(draw_token(logits, {.top_k = 100}, random), 0);
}

// LibTorch's sort keeps the order of equals for up to sixteen numbers, its topk never.
TEST(DrawToken, TakesEquallyLikelyTokensInTheirOrder) {
  const Tensor equal = at::full({40}, 2.0F);
  Random random(1), same(1);
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(draw_token(equal, {}, random), std::int64_t(same.uniform() * 40)) << i;
  }
  const Tensor better = equal.clone();
  better[30] = 3;
  for (int i = 0; i < 200; ++i) {
    EXPECT_THAT(draw_token(better, {.top_k = 3}, random), ::testing::AnyOf(30, 0, 1)) << i;
  }
  EXPECT_EQ(draw_token(equal, {.temperature = 0}, random), 0);
}

TEST(DrawToken, AnExtremeTemperatureTakesTheLikeliest) {
  const Tensor logits = at::tensor({-4.0F, 1.0F, 3.0F, -9.0F});
  Random random(1);
  for (const double temperature : {1e-310, 1e-300, 1e-9}) {
    EXPECT_EQ(draw_token(logits, {.temperature = temperature}, random), 2) << temperature;
    EXPECT_EQ(draw_token(-logits, {.temperature = temperature}, random), 3) << temperature;
  }
}

TEST(DrawToken, RefusesScoresThatAreNoNumbers) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  Random random(1);
  for (const double odd : {std::nan(""), kInfinite}) {
    for (const double temperature : {0.0, 1.0}) {
      EXPECT_THAT(message_of<DataError>([&] {
                    draw_token(at::tensor({1.0, odd, 2.0}, at::kDouble),
                               {.temperature = temperature}, random);
                  }),
                  mentions("scores", "not finite"));
    }
  }
  const Tensor hidden = at::tensor({-kInfinite, 2.0, -kInfinite}, at::kDouble);
  EXPECT_EQ(draw_token(hidden, {}, random), 1) << "what is ruled out";
}

/// After t comes t + 1, and it notes what it was asked.
class Counting final : public Model {
 public:
  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    const Tensor& tokens = batch.fields.at("tokens");
    asked.push_back(tokens.size(1));
    EXPECT_EQ(batch.fields.find("targets"), nullptr);
    EXPECT_EQ(batch.continues, pass.carried->size() > 0);
    pass.carried->set("seen", tokens);
    const Tensor logits = at::full({1, 10}, -50.0);
    logits[0][(tokens[0][tokens.size(1) - 1].item<std::int64_t>() + 1) % 10] = 50;
    if (mute) return {{"nll", tokens}};
    return {{"logits", logits}};
  }

  std::vector<std::int64_t> asked;
  bool mute = false;
};

TEST(TokenWriter, AsksOnceForTheTextAndThenTokenByToken) {
  Counting model;
  TokenWriter writer(model, at::kCPU, {}, Random(1));
  writer.read({3, 6, 7});
  EXPECT_EQ(writer.next(), 8);
  EXPECT_EQ(writer.next(), 9);
  EXPECT_EQ(writer.next(), 0);
  EXPECT_THAT(model.asked, ElementsAre(3, 1, 1, 1));
}

TEST(TokenWriter, RefusesAModelThatDoesNotSayWhatFollows) {
  Counting model;
  model.mute = true;
  TokenWriter writer(model, at::kCPU, {}, Random(1));
  EXPECT_THAT(message_of<DataError>([&] { writer.read({1}); }), HasSubstr("next token"));
}

}  // namespace
}  // namespace attnlab::token_writer_test
