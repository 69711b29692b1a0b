// What a run costs: FLOPs against closed forms, memory against what was
// allocated.
#include "framework/train/costs.h"
#include "framework/base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <thread>

#include "framework/config/compose.h"
#include "framework/nn/attention/normalisers.h"
#include "framework/tensor/flop_counter.h"
#include "framework/tensor/torch_compat.h"
#include "framework/train/environment.h"
#include "tests/support/kernel_choice.h"
#include "tests/support/plugins.h"

namespace attnlab::costs_test {
namespace {

using testing::KernelChoice;

template <class Work>
std::int64_t flops_of(const Work& work) {
  const FlopCounter counter;
  work();
  return counter.total();
}

// ---- operations

TEST(FlopCounter, CountsTwoForEachMultiplyAddOfAProduct) {
  const Tensor a = at::randn({3, 5}), b = at::randn({5, 7}), bias = at::randn({7});
  EXPECT_EQ(flops_of([&] { at::mm(a, b); }), 2 * 3 * 5 * 7);
  EXPECT_EQ(flops_of([&] { at::addmm(bias, a, b); }), 2 * 3 * 5 * 7);
  EXPECT_EQ(flops_of([&] { at::mv(b, at::randn({7})); }), 2 * 5 * 7);
  EXPECT_EQ(flops_of([&] { at::dot(bias, bias); }), 2 * 7);
  const Tensor batch = at::randn({4, 3, 5}), other = at::randn({4, 5, 2});
  EXPECT_EQ(flops_of([&] { at::bmm(batch, other); }), 2 * 4 * 3 * 5 * 2);
  EXPECT_EQ(flops_of([&] { at::baddbmm(at::randn({4, 3, 2}), batch, other); }), 2 * 4 * 3 * 5 * 2);
  Tensor out = at::empty({3, 7});
  EXPECT_EQ(flops_of([&] { at::mm_out(out, a, b); }), 2 * 3 * 5 * 7);
}

TEST(FlopCounter, CountsWhatIsMadeOfProductsOnce) {
  const Tensor x = at::randn({2, 3, 5}), weight = at::randn({7, 5}), bias = at::randn({7});
  EXPECT_EQ(flops_of([&] { at::linear(x, weight, bias); }), 2 * 6 * 5 * 7);
  EXPECT_EQ(flops_of([&] { at::linear(x, weight); }), 2 * 6 * 5 * 7);
  EXPECT_EQ(flops_of([&] {
              at::matmul(at::randn({2, 4, 3, 5}), at::randn({2, 4, 5, 6}));
            }),
            2 * 8 * 3 * 5 * 6);
  EXPECT_EQ(flops_of([&] { at::matmul(x, at::randn({5})); }), 2 * 6 * 5);
  EXPECT_EQ(flops_of([&] { at::einsum("bij,kj->bik", {x, weight}); }), 2 * 6 * 5 * 7);
}

TEST(FlopCounter, CountsConvolutions) {
  const Tensor image = at::randn({2, 4, 9, 8});
  // 6 filters of 4 x 3 x 2 over ceil(9 / 2) x (8 - 1) places.
  EXPECT_EQ(flops_of([&] {
              at::conv2d(image, at::randn({6, 4, 3, 2}), {}, {2, 1}, {1, 0});
            }),
            2 * 2 * 6 * (4 * 3 * 2) * 5 * 7);
  // Two groups: each filter sees half the channels. Dilation 2 reaches 5 rows.
  EXPECT_EQ(flops_of([&] {
              at::conv2d(image, at::randn({6, 2, 3, 1}), {}, 1, at::IntArrayRef(0), {2, 1}, 2);
            }),
            2 * 2 * 6 * (2 * 3) * 5 * 8);
  const Tensor series = at::randn({2, 3, 10});
  EXPECT_EQ(flops_of([&] {
              at::conv1d(series, at::randn({5, 3, 4}), at::randn({5}));
            }),
            2 * 2 * 5 * (3 * 4) * 7);
  // Transposed: every number of the input meets 5 x 4 weights.
  EXPECT_EQ(flops_of([&] {
              at::conv_transpose1d(series, at::randn({3, 5, 4}), {}, 2);
            }),
            2 * (2 * 3 * 10) * (5 * 4));
}

TEST(FlopCounter, LeavesElementwiseOperationsAndReductionsOut) {
  const Tensor x = at::randn({8, 8});
  EXPECT_EQ(flops_of([&] { (x * x + x).exp().softmax(-1).sum(); }), 0);
  EXPECT_EQ(flops_of([&] { at::layer_norm(x, {8}).norm(2, -1); }), 0);
}

TEST(FlopCounter, CountsItsOwnThreadAndLifeAlone) {
  const Tensor a = at::randn({3, 3});
  EXPECT_EQ(flops_of([&] { std::thread([&] { at::mm(a, a); }).join(); }), 0);
  FlopCounter outer;
  EXPECT_EQ(flops_of([&] { at::mm(a, a); }), 54);
  EXPECT_EQ(outer.total(), 0);
  at::mm(a, a);
  EXPECT_EQ(outer.total(), 54);
}

TEST(FlopCounter, CountsTheSameWhicheverKernelOfSoftmaxAttends) {
  const AttentionShape shape{.heads = 2, .head_dim = 4, .value_dim = 3};
  AttentionInput input;
  input.queries = at::randn({2, 2, 5, 4});
  input.keys = at::randn({2, 2, 6, 4});
  input.values = at::randn({2, 2, 6, 3});
  const std::int64_t expected = 2 * (2 * 2) * 5 * 6 * (4 + 3);
  const auto attention = testing::make_attention("standard", shape);
  std::vector<AttentionKernel> kernels = {
      AttentionKernel::automatic, AttentionKernel::explicit_form, AttentionKernel::headwise};
  if (compat::kHasFusedAttention) kernels.push_back(AttentionKernel::fused);
  for (const AttentionKernel kernel : kernels) {
    const KernelChoice choice(kernel);
    for (const bool gradients : {false, true}) {
      input.queries = input.queries.detach().requires_grad_(gradients);
      AttentionContext context;
      EXPECT_EQ(flops_of([&] { attention->forward(input, context); }), expected)
          << name_of(kernel) << (gradients ? " with" : " without") << " gradients";
    }
  }
}

TEST(FlopCounter, CountsASinkhornHalfStepAsAMatrixVectorProductInEitherForm) {
  SinkhornOptions options;
  options.max_iter = 6;
  options.tolerance = 0;
  const Tensor logits = at::randn({2, 3, 4, 5});
  EXPECT_EQ(flops_of([&] { sinkhorn_weights(logits, {}, options); }), 2 * 5 * (2 * 3 * 4 * 5));
  // Logits too far apart for scalings: by log-sum-exps.
  const Tensor apart = at::randn({1, 1, 4, 4}) * 3000;
  EXPECT_EQ(flops_of([&] { sinkhorn_weights(apart, {}, options); }), 2 * 5 * (4 * 4));
}

// ---- models

const std::string kRun = R"(schema: 1
model: {use: vit, patch_size: 7, dim: 24, depth: 3, heads: 2, mlp_ratio: 2}
task: image_classification
dataset: {use: synthetic_images, train: 32, test: 16}
train: {epochs: 2, batch_size: 8, eval_batch_size: 8, threads: 1, workers: 0}
attention: )";

BuiltRun build(const std::string& attention, const std::string& more = "") {
  const Experiment experiment =
      resolve_experiment(parse_yaml(kRun + attention + "\n" + more, "run.yaml"),
                         testing::registry().catalogue(), "run");
  return build_run(experiment, 0, testing::registry());
}

/// The closed form of a ViT around its attention's own products, `attend` of
/// one layer.
std::int64_t vit_flops(const BuiltRun& run, std::int64_t attend) {
  const std::vector<std::int64_t> image = run.dataset->info().field("image").shape;
  const std::int64_t dim = 24, depth = 3, hidden = 48;
  const std::int64_t patches = image[1] / 7 * (image[2] / 7), tokens = patches + 1;
  const std::int64_t embedding = patches * image[0] * 49 * dim;
  const std::int64_t layer = tokens * dim * (3 * dim + dim + 2 * hidden);
  return 2 * (embedding + depth * layer + dim * run.dataset->info().classes) + depth * attend;
}

TEST(ForwardFlops, AreTheClosedFormOfAVitForEachAttention) {
  const std::int64_t heads = 2, head_dim = 12;
  const std::int64_t image = build("standard").dataset->info().field("image").shape[1];
  const std::int64_t length = image / 7 * (image / 7) + 1;
  const std::int64_t pairs = heads * length * length, both = 2 * pairs * 2 * head_dim;
  const std::map<std::string, std::int64_t> attend = {
      {"standard", both},
      {"quest", both},
      {"qnorm", both},
      {"qknorm", both},
      {"qknorm_ln", both},
      {"qknorm_hs", both},
      {"sigmoid", both},
      {"composed", both},
      {"misaligned", both},
      {"elliptical", both},
      {"elliptical_quest", both},
      // Three half-steps, of which softmax is the first.
      {"doubly_stochastic", both + 2 * 2 * pairs},
      // Keys times values, with a column of ones for the row sums, then queries
      // times that.
      {"linear", 2 * 2 * heads * length * head_dim * (head_dim + 1)},
      {"cosine", 2 * 2 * heads * length * head_dim * head_dim},
  };
  for (const auto& [name, flops] : attend) {
    const BuiltRun run = build(name);
    EXPECT_EQ(forward_flops(run), vit_flops(run, flops)) << name;
  }
}

TEST(ForwardFlops, OfIndirectAttentionHaveItsPositionsToo) {
  const BuiltRun run = build("indirect");
  const std::int64_t image = run.dataset->info().field("image").shape[1], heads = 2, dim = 24;
  const std::int64_t length = image / 7 * (image / 7) + 1, mlp = 128 * (1 + heads);
  // The first layer looks at each distance once, the two others, which begin where the layer before
  // pointed, at each pair; the first two say where to look next, in one coordinate.
  const std::int64_t positions = (2 * length - 1 + 2 * length * length) * mlp + 2 * length * dim;
  EXPECT_EQ(forward_flops(run), vit_flops(run, 2 * heads * length * length * dim) + 2 * positions);
}

TEST(ForwardFlops, AreThoseOfOneExampleAndLeaveTheModelAsItWas) {
  const BuiltRun run = build("quest");
  run.model->train();
  std::vector<Tensor> before;
  for (const Tensor& one : run.model->parameters()) before.push_back(one.clone());
  const std::int64_t first = forward_flops(run);
  EXPECT_TRUE(run.model->is_training());
  EXPECT_EQ(forward_flops(run), first);
  EXPECT_EQ(forward_flops(build("quest", "")), first);
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_TRUE(before[i].equal(run.model->parameters()[i]));
    EXPECT_FALSE(run.model->parameters()[i].grad().defined());
  }
}

TEST(Environment, RecordsParametersAndFlops) {
  const BuiltRun run = build("quest");
  const auto environment = nlohmann::json::parse(environment_json(run));
  EXPECT_EQ(environment.at("flops").get<std::int64_t>(), forward_flops(run));
  EXPECT_EQ(environment.at("parameters").get<std::int64_t>(), run.parameter_count());
}

// ---- memory

#if defined(__x86_64__)
TEST(Environment, TellsProcessorsOfOneMakerApart) {
  const auto machine = nlohmann::json::parse(machine_json());
  EXPECT_THAT(machine.at("cpu").get<std::string>(),
              ::testing::ContainsRegex("^[^:]+, family [0-9]+, model [0-9]+$"));
}
#endif

TEST(PeakMemory, SeesWhatWasHeldAndGivenBackSince) {
  constexpr std::size_t kBytes = 192 << 20;
  const PeakMemory memory(at::kCPU);
  const std::int64_t before = memory.bytes();
  EXPECT_GT(before, 10 << 20);
  {
    const Tensor block = at::ones({static_cast<std::int64_t>(kBytes)}, at::kByte);
    EXPECT_EQ(block[kBytes / 2].item<int>(), 1);
  }
  EXPECT_GE(memory.bytes(), before + static_cast<std::int64_t>(kBytes) - (32 << 20));
  EXPECT_LE(memory.bytes(), before + static_cast<std::int64_t>(kBytes) + (64 << 20));
}

// ---- a probe

TEST(Probe, MeasuresStepsAndEvaluationOnlyWhereItIsAsked) {
  BuiltRun run = build("standard");
  const RunForecast built = probe_run(run, 0);
  EXPECT_EQ(built.parameters, run.parameter_count());
  EXPECT_EQ(built.flops, 0) << "nothing was run";
  EXPECT_EQ(built.steps, 8);  // 32 examples in batches of 8, twice
  EXPECT_EQ(built.step_seconds, 0);
  EXPECT_EQ(built.evaluation_seconds, 0);
  EXPECT_GT(built.peak_memory, 10 << 20);
  const RunForecast measured = probe_run(run, 2);
  EXPECT_EQ(measured.flops, forward_flops(run));
  EXPECT_GT(measured.step_seconds, 0);
  EXPECT_GT(measured.evaluation_seconds, 0);
}

TEST(Probe, TakesMoreStepsThanAnEpochHas) {
  BuiltRun run = build("standard");
  EXPECT_GT(probe_run(run, 9).step_seconds, 0);
}

}  // namespace
}  // namespace attnlab::costs_test
