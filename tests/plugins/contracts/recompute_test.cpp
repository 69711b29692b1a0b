// train.recompute: models whose layers are computed again end with the same bits.
#include "framework/contracts/recompute.h"

#include <functional>

#include "framework/nn/kernels/precision.h"
#include "tests/plugins/language/language_models.h"
#include "tests/support/graph_gps_models.h"

namespace attnlab::recompute_models_test {
namespace {

using namespace testing;

/// A model, and what it is trained on.
struct Lesson {
  std::shared_ptr<Model> model;
  std::function<Batch(int step)> batch;
  bool carries = false;  ///< from step to step
};

/// The first output, as one number.
Tensor loss_of(const NamedTensors& outputs) {
  const Tensor& first = outputs.begin()->second;
  return (first - 0.1).square().mean();
}

/// Parameters, buffers and losses of three steps of gradient descent.
/// @param parts  a step's: gradients of the same batch, drawn anew, are added
std::vector<Tensor> trained(const Lesson& lesson, bool on, int parts = 1) {
  Model& model = *lesson.model;
  model.train();
  std::vector<Tensor> numbers;
  NamedTensors carried;
  for (int step = 0; step < 3; ++step) {
    for (int part = 0; part < parts; ++part) {
      const Batch batch = lesson.batch(step);
      at::manual_seed(100 + std::uint64_t(10 * step + part));
      ForwardPass pass;
      if (lesson.carries) pass.carried = &carried;
      Tensor loss;
      {
        const RecomputeLayers again(on);
        loss = loss_of(model.forward(batch, pass));
        EXPECT_EQ(again.count() > 0, on);
      }
      loss.backward();
      numbers.push_back(loss.detach());
    }
    const at::NoGradGuard no_gradients;
    for (Tensor& parameter : model.parameters()) {
      if (!parameter.grad().defined()) continue;
      parameter.sub_(parameter.grad(), 0.05);
      parameter.mutable_grad() = Tensor();
    }
  }
  for (const Tensor& parameter : model.parameters()) numbers.push_back(parameter.detach());
  for (const Tensor& buffer : model.buffers()) numbers.push_back(buffer);
  return numbers;
}

void expect_same(const std::function<Lesson()>& made, const std::string& what, int parts = 1) {
  const auto run = [&](bool on) {
    at::manual_seed(7);
    return trained(made(), on, parts);
  };
  const std::vector<Tensor> plain = run(false), again = run(true);
  ASSERT_EQ(plain.size(), again.size()) << what;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_TRUE(plain[i].isfinite().all().item<bool>()) << what << " " << i;
    EXPECT_TRUE(plain[i].equal(again[i])) << what << " " << i;
  }
}

DatasetInfo images(std::int64_t side) {
  DatasetInfo data;
  data.name = "images";
  data.classes = 3;
  data.fields = {{"image", {3, side, side}}, {"class", {}, at::kLong}};
  return data;
}

Batch images_of(std::int64_t side) {
  Batch batch;
  batch.size = 3;
  batch.fields = {{"image", at::randn({3, 3, side, side})}};
  return batch;
}

Lesson vit(const std::string& attention, const std::string& options = "{}") {
  return {make_model("vit", images(16),
                     "{dim: 24, depth: 3, heads: 3, patch_size: 4, drop_path: 0.3, dropout: 0.1, "
                     "attention_dropout: 0.1, layer_scale: 0.5}",
                     attention, 1, options),
          [](int step) {
            at::manual_seed(std::uint64_t(step));
            return images_of(16);
          }};
}

Lesson text(const std::string& model, const std::string& options, bool carries,
            const std::string& attention = "standard") {
  return {make_model(model, text_of(6), options, attention),
          [](int step) {
            Batch batch = lines(words({4, 6}, std::uint64_t(step)));
            batch.continues = step > 0;
            return batch;
          },
          carries};
}

/// In float32, as in training.
Lesson graphs_with(const std::string& options, const std::string& attention = "standard") {
  return {make_model("graph_gps", graphs(), options, attention), [](int step) {
            at::manual_seed(std::uint64_t(step));
            return batch_of(examples());
          }};
}

TEST(RecomputedModel, VitEndsWithTheSameBits) {
  for (const char* attention : {"standard", "quest", "elliptical", "value_residual",
                                "doubly_stochastic", "linear", "talking_heads", "indirect"}) {
    expect_same([&] { return vit(attention); }, attention);
  }
  expect_same([] { return vit("value_residual", "{learned: true}"); }, "learned");
  expect_same([] { return vit("standard"); }, "parts", /*parts=*/4);
}

TEST(RecomputedModel, VitEndsWithTheSameBitsInBfloat16) {
  if (!has_bfloat16_products(at::kCPU)) GTEST_SKIP() << "no products of bfloat16 here";
  use_product_precision(Precision::bfloat16);
  expect_same([] { return vit("standard"); }, "bfloat16");
  use_product_precision(Precision::float32);
}

TEST(RecomputedModel, LanguageModelEndsWithTheSameBits) {
  const std::string sizes = "dim: 8, depth: 3, heads: 2, hidden: 12, context: 6, softmax: plain, ";
  for (const char* style : {"style: gpt2, dropout: 0.1, attention_dropout: 0.1",
                            "style: transformer_xl, positions: relative, dropout: 0.1"}) {
    expect_same([&] { return text("transformer_lm", "{" + sizes + style + "}", false); }, style);
  }
}

TEST(RecomputedModel, TransformerXlWithAMemoryEndsWithTheSameBits) {
  const std::string sizes =
      "dim: 8, depth: 3, heads: 2, hidden: 12, memory: 6, softmax: plain, dropout: 0.1, "
      "attention_dropout: 0.1";
  for (const char* more : {"", ", position_term: plain", ", biases: layer, norm: first"}) {
    for (const char* attention : {"standard", "quest"}) {
      expect_same([&] { return text("transformer_xl", "{" + sizes + more + "}", true, attention); },
                  std::string(attention) + more);
    }
  }
}

TEST(RecomputedModel, GraphGpsEndsWithTheSameBits) {
  for (const char* options :
       {"mpnn: gated_gcn, dropout: 0.2, attention_dropout: 0.2", "mpnn: gine, dropout: 0.2",
        "layer: transformer, mpnn: none, pool: token, bias: [distance], degrees: true",
        "layer: plain, mpnn: gcn, edge_features: false"}) {
    expect_same(
        [&] {
          return graphs_with(std::string("{dim: 8, heads: 2, depth: 3, encoding: none, ") +
                             options + "}");
        },
        options);
  }
}

TEST(RecomputedModel, SwinEndsWithTheSameBits) {
  expect_same(
      [] {
        return Lesson{make_model("swin", images(64),
                                 "{preset: nano, stages: 2, window: 4, "
                                 "drop_path: 0.2}"),
                      [](int step) {
                        at::manual_seed(std::uint64_t(step));
                        return images_of(64);
                      }};
      },
      "swin");
}

}  // namespace
}  // namespace attnlab::recompute_models_test
