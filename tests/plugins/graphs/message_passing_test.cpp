// Message passing against loops: sums, gradients, layers; and that nothing depends on threads.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/nn/graph/local_layers.h"
#include "framework/nn/graph/work.h"
#include "tests/support/gradcheck.h"
#include "tests/support/message_of.h"
#include "tests/support/naive_graphs.h"

namespace attnlab::message_passing_test {
namespace {

using attnlab::testing::says;
using testing::edges_of;
using testing::NaiveGraphs;
using testing::Rows;
using testing::rows_of;
using testing::tensor_of;

/// Seven nodes: one with a loop, two edges between one pair, one that nothing leads to, and one
/// without any edge; sorted by neither end.
Tensor odd_edges() {
  return at::tensor({3, 0, 0, 1, 2, 1, 1, 1, 2, 1, 5, 2, 0, 3, 4, 0, 1, 5}, at::kLong).view({9, 2});
}
constexpr std::int64_t kNodes = 7, kChannels = 5;

struct Case {
  Tensor x = at::randn({kNodes, kChannels}, at::kDouble);
  Tensor wide = at::randn({kNodes, 4 * kChannels}, at::kDouble);
  Tensor e = at::randn({9, kChannels}, at::kDouble);
  Edges edges{odd_edges(), kNodes};
};

class MessagePassing : public ::testing::Test {
 protected:
  void SetUp() override { at::manual_seed(3); }
};

TEST_F(MessagePassing, SumsRowsOfEachSegmentInTheirOrder) {
  const Tensor index = at::tensor({2, 0, 2, 3, 2}, at::kLong);
  const Segments segments = segments_by(index, 5, "item");
  const Tensor y = at::randn({5, 2, 3}, at::kDouble);
  const Tensor sums = segment_sum(y, segments);
  EXPECT_TRUE(sums[0].equal(y[1]));
  EXPECT_EQ(sums[1].abs().sum().item<double>(), 0);
  EXPECT_TRUE(sums[2].equal(y[0] + y[2] + y[4]));
  EXPECT_EQ(sums[4].abs().sum().item<double>(), 0);
  EXPECT_TRUE(segment_mean(y, segments)[2].allclose((y[0] + y[2] + y[4]) / 3, 0, 1e-15));
  EXPECT_TRUE(gather_rows(sums, segments)[3].equal(sums[3]));
  EXPECT_LT(testing::second_gradient_error(
                [&](const auto& in) { return segment_mean(in[0], segments).square(); }, {y}),
            1e-7);
}

TEST_F(MessagePassing, SegmentsEndToEndAreThoseOfABatch) {
  const Segments segments = segments_of(at::tensor({0, 2, 2, 5}, at::kLong), at::kCPU);
  const Tensor y = at::randn({5, 4}, at::kDouble);
  const Tensor mean = segment_mean(y, segments);
  EXPECT_TRUE(mean[0].allclose(y.narrow(0, 0, 2).mean(0)));
  EXPECT_EQ(mean[1].abs().sum().item<double>(), 0);
  EXPECT_TRUE(mean[2].allclose(y.narrow(0, 2, 3).mean(0)));
}

TEST_F(MessagePassing, GineSumsAgainstLoops) {
  const Case in;
  Tensor expected = at::zeros({kNodes, kChannels}, at::kDouble);
  for (std::int64_t m = 0; m < 9; ++m) {
    expected[odd_edges()[m][1].item<std::int64_t>()] +=
        (in.x[odd_edges()[m][0].item<std::int64_t>()] + in.e[m]).relu();
  }
  EXPECT_TRUE(gine_sum(in.x, in.e, in.edges).allclose(expected, 0, 1e-13));
  EXPECT_TRUE(gine_sum(in.x.to(at::kFloat), in.e.to(at::kFloat), in.edges)
                  .allclose(expected.to(at::kFloat), 1e-5, 1e-6));
}

TEST_F(MessagePassing, GradientsOfGineSums) {
  const Case in;
  const auto f = [&](const auto& at) { return gine_sum(at[0], at[1], in.edges); };
  EXPECT_LT(testing::gradient_error(f, {in.x, in.e}), 1e-8);
  const auto squared = [&](const auto& at) { return gine_sum(at[0], at[1], in.edges).square(); };
  EXPECT_LT(testing::second_gradient_error(squared, {in.x, in.e}), 1e-6);
}

/// Both outputs as one tensor.
Tensor both(const GatedSums& sums) { return at::cat({sums.nodes, sums.edges.sin()}); }

TEST_F(MessagePassing, GradientsOfGatedSums) {
  const Case in;
  const auto f = [&](const auto& at) { return both(gated_sums(at[0], at[1], in.edges)); };
  EXPECT_LT(testing::gradient_error(f, {in.wide, in.e}), 1e-8);
  EXPECT_LT(testing::second_gradient_error(f, {in.wide, in.e}), 1e-6);
}

TEST_F(MessagePassing, GradientsOfGatedSumsWhoseEdgesNobodyUses) {
  const Case in;
  const auto f = [&](const auto& at) { return gated_sums(at[0], at[1], in.edges).nodes; };
  EXPECT_LT(testing::gradient_error(f, {in.wide, in.e}), 1e-8);
  EXPECT_LT(testing::second_gradient_error(f, {in.wide, in.e}), 1e-6);
}

TEST_F(MessagePassing, SinglePrecisionAgainstDouble) {
  const Case in;
  const std::vector<Tensor> wide = {in.wide * 4, in.e * 4};
  std::vector<Tensor> outputs[2], gradients[2];
  for (const bool single : {false, true}) {
    std::vector<Tensor> leaves;
    for (const Tensor& x : wide) {
      leaves.push_back(x.to(single ? at::kFloat : at::kDouble).clone().requires_grad_());
    }
    const Tensor y = both(gated_sums(leaves[0], leaves[1], in.edges));
    outputs[single] = {y.to(at::kDouble)};
    gradients[single] = torch::autograd::grad({(y * testing::probe_like(y)).sum()}, leaves);
  }
  EXPECT_TRUE(outputs[1][0].allclose(outputs[0][0], 1e-4, 1e-5));
  for (const std::size_t i : {0, 1}) {
    EXPECT_TRUE(gradients[1][i].to(at::kDouble).allclose(gradients[0][i], 1e-4, 1e-5));
  }
}

TEST_F(MessagePassing, SegmentsByOtherDevicesOperationsAreTheSame) {
  for (const Tensor& ends : odd_edges().unbind(1)) {
    const Segments own = segments_by(ends.contiguous(), kNodes, "edge");
    const Segments composed = composed_segments_by(ends.contiguous(), kNodes);
    EXPECT_TRUE(composed.index.equal(own.index));
    EXPECT_TRUE(composed.order.equal(own.order));
    EXPECT_TRUE(composed.offsets.equal(own.offsets));
  }
  const Segments none = composed_segments_by(at::empty({0}, at::kLong), 3);
  EXPECT_TRUE(none.offsets.equal(at::zeros({4}, at::kLong)));
}

/// The gradients of some sums, weighed by whole numbers.
std::vector<Tensor> gradients_of(const Tensor& sums, const std::vector<Tensor>& leaves) {
  const Tensor weights = at::arange(sums.numel()).remainder(3).view(sums.sizes());
  return torch::autograd::grad({(sums * weights.to(sums.dtype())).sum()}, leaves);
}

TEST_F(MessagePassing, OfANumberWithoutKernelsIsComposedAsOnOtherDevices) {
  // bfloat16 has no kernels here, so it takes the way of other devices, segment_reduce among it.
  // Small whole numbers it holds exactly: both ways must give the same.
  const Edges edges(odd_edges(), kNodes);
  const Tensor whole_x = at::randint(-4, 5, {kNodes, kChannels}, at::kDouble),
               whole_e = at::randint(-4, 5, {9, kChannels}, at::kDouble);
  std::vector<std::vector<Tensor>> found;
  for (const at::ScalarType dtype : {at::kDouble, at::kBFloat16}) {
    const Tensor x = whole_x.to(dtype).clone().requires_grad_(),
                 e = whole_e.to(dtype).clone().requires_grad_();
    ASSERT_EQ(has_graph_kernel(x), dtype == at::kDouble);
    const Tensor sums = gine_sum(x, e, edges), pooled = segment_sum(e, edges.by_source);
    std::vector<Tensor> all = {sums, pooled};
    for (const Tensor& gradient : gradients_of(sums, {x, e})) all.push_back(gradient);
    all.push_back(gradients_of(pooled, {e})[0]);
    found.push_back(all);
  }
  for (std::size_t i = 0; i < found[0].size(); ++i) {
    EXPECT_TRUE(found[1][i].to(at::kDouble).equal(found[0][i])) << i;
  }
}

TEST_F(MessagePassing, LongSegmentsOf16BitsAddUpInFloat32) {
  const Segments all = segments_by(at::zeros({5000}, at::kLong), 1, "item");
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    const Tensor sum = segment_sum(at::ones({5000, 2}, dtype), all);  // 8 bits stall at 256
    EXPECT_TRUE(sum.equal(at::full({1, 2}, 5000, dtype)));
    const Tensor x = at::zeros({1, 2}, dtype).requires_grad_();
    EXPECT_TRUE(torch::autograd::grad({gather_rows(x, all).sum()}, {x})[0].equal(sum));
  }
}

TEST_F(MessagePassing, OfNothingIsNothingOnOtherDevicesToo) {
  const Segments none = segments_by(at::empty({0}, at::kLong), 3, "item");
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    EXPECT_TRUE(segment_sum(at::empty({0, 2}, dtype), none).equal(at::zeros({3, 2}, dtype)));
  }
}

TEST_F(MessagePassing, ComposedGatesAreThoseOfTheKernels) {
  const Case in;
  std::vector<std::vector<Tensor>> found;
  for (const at::ScalarType dtype : {at::kDouble, at::kBFloat16}) {
    const Tensor wide = in.wide.to(at::kBFloat16).to(dtype).clone().requires_grad_(),
                 e = in.e.to(at::kBFloat16).to(dtype).clone().requires_grad_();
    const GatedSums sums = gated_sums(wide, e, in.edges);
    std::vector<Tensor> all = {sums.nodes, sums.edges};
    for (const Tensor& gradient : gradients_of(both(sums), {wide, e})) all.push_back(gradient);
    found.push_back(all);
  }
  for (std::size_t i = 0; i < found[0].size(); ++i) {
    // Eight bits a number, rounded after each operation.
    EXPECT_TRUE(found[1][i].to(at::kDouble).allclose(found[0][i], 0.05, 0.1)) << i;
  }
}

TEST_F(MessagePassing, GatesOfHugeLogitsAreFinite) {
  const Case in;
  for (const double size : {1e3, 1e30}) {
    const Tensor wide = (in.wide * size).to(at::kFloat).requires_grad_();
    const GatedSums sums = gated_sums(wide, (in.e * size).to(at::kFloat), in.edges);
    EXPECT_TRUE(sums.nodes.isfinite().all().item<bool>());
    sums.nodes.sum().backward();
    EXPECT_TRUE(wide.grad().isfinite().all().item<bool>());
  }
}

TEST_F(MessagePassing, ThreadsChangeNoBit) {
  const std::int64_t nodes = 4000;
  const Edges edges(at::randint(nodes, {20000, 2}, at::kLong), nodes);
  const Tensor wide = at::randn({nodes, 4 * 24}), e = at::randn({20000, 24});
  std::vector<Tensor> first;
  for (const int threads : {1, 2, 5}) {
    at::set_num_threads(threads);
    const Tensor a = wide.clone().requires_grad_(), b = e.clone().requires_grad_();
    const GatedSums sums = gated_sums(a, b, edges);
    const Tensor more =
        routed_sum(gine_sum(sums.nodes, sums.edges, edges), edges.by_source, edges.by_target);
    more.sin().sum().backward();
    const std::vector<Tensor> found = {more.detach(), a.grad(), b.grad()};
    if (first.empty()) first = found;
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(found[i].equal(first[i])) << threads;
  }
  at::set_num_threads(1);
}

/// A layer in double precision whose tensors are none of them at their starts.
template <class Layer>
std::shared_ptr<Layer> randomised(std::shared_ptr<Layer> layer) {
  layer->to(at::kDouble);
  const at::NoGradGuard no_gradients;
  for (Tensor& parameter : layer->parameters()) parameter.normal_(0, 0.5);
  for (Tensor& buffer : layer->buffers()) buffer.uniform_(0.5, 2);
  return layer;
}

TEST_F(MessagePassing, GineLayerAgainstLoops) {
  const Case in;
  torch::nn::Module holder;
  const auto layer = holder.register_module("gine", randomised(std::make_shared<Gine>(kChannels)));
  const Rows expected =
      NaiveGraphs(holder, true).gine(rows_of(in.x), rows_of(in.e), edges_of(odd_edges()), "gine");
  const Tensor found = layer->forward({in.x, in.e}, in.edges).nodes;
  EXPECT_TRUE(found.allclose(tensor_of(expected), 0, 1e-12));
}

TEST_F(MessagePassing, GatedGcnLayerAgainstLoops) {
  for (const bool training : {true, false}) {
    for (const bool go_on : {true, false}) {
      const Case in;
      torch::nn::Module holder;
      const auto layer = holder.register_module(
          "gated", randomised(std::make_shared<GatedGcn>(kChannels, 0, go_on)));
      layer->train(training);
      const NaiveGraphs naive(holder, training);
      Rows e = rows_of(in.e);
      const Rows x = naive.gated_gcn(rows_of(in.x), e, edges_of(odd_edges()), "gated");
      const GraphTokens found = layer->forward({in.x, in.e}, in.edges);
      EXPECT_TRUE(found.nodes.allclose(tensor_of(x), 0, 1e-12)) << training;
      EXPECT_EQ(found.edges.defined(), go_on);
      if (go_on) {
        EXPECT_TRUE(found.edges.allclose(tensor_of(e), 0, 1e-12)) << training;
      }
    }
  }
}

/// One of the three layers that know nothing of features of edges.
struct Plain {
  std::string name;
  std::shared_ptr<LocalLayer> layer;
  bool loops;  ///< whether it wants every node to have one
};

std::vector<Plain> plain_layers(std::int64_t dim) {
  return {{"gcn", std::make_shared<Gcn>(dim), true},
          {"gat", std::make_shared<Gat>(dim, 2, 0), true},
          {"sage", std::make_shared<Sage>(dim), false}};
}

Edges edges_for(const Plain& plain) {
  return {plain.loops ? with_own_loops(odd_edges(), kNodes) : odd_edges(), kNodes};
}

Rows by_loops(const Plain& plain, const torch::nn::Module& holder, const Tensor& x) {
  const NaiveGraphs naive(holder, true);
  const auto edges = edges_of(odd_edges());
  if (plain.name == "gcn") return naive.gcn(rows_of(x), edges, "gcn");
  if (plain.name == "gat") return naive.gat(rows_of(x), edges, "gat");
  return naive.sage(rows_of(x), edges, "sage");
}

TEST_F(MessagePassing, GcnGatAndSageAgainstLoops) {
  const Tensor x = at::randn({kNodes, 6}, at::kDouble);
  for (const Plain& plain : plain_layers(6)) {
    torch::nn::Module holder;
    holder.register_module(plain.name, randomised(plain.layer));
    const Tensor expected = tensor_of(by_loops(plain, holder, x));
    const Tensor found = plain.layer->forward({x, {}}, edges_for(plain)).nodes;
    EXPECT_TRUE(found.allclose(expected, 0, 1e-12)) << plain.name;
    plain.layer->to(at::kFloat);
    const Tensor single = plain.layer->forward({x.to(at::kFloat), {}}, edges_for(plain)).nodes;
    EXPECT_TRUE(single.allclose(expected.to(at::kFloat), 1e-4, 1e-5)) << plain.name;
    plain.layer->to(at::kBFloat16);  // as other devices compute it
    const Tensor half = plain.layer->forward({x.to(at::kBFloat16), {}}, edges_for(plain)).nodes;
    EXPECT_TRUE(half.to(at::kDouble).allclose(expected, 0.1, 0.2)) << plain.name;
  }
}

TEST_F(MessagePassing, GradientsOfGcnGatAndSage) {
  const Tensor x = at::randn({kNodes, 6}, at::kDouble);
  for (const Plain& plain : plain_layers(6)) {
    randomised(plain.layer);
    const Edges edges = edges_for(plain);
    const auto f = [&](const std::vector<Tensor>& in) {
      return plain.layer->forward({in[0], {}}, edges).nodes.sin();
    };
    EXPECT_LT(testing::gradient_error(f, {x}), 1e-8) << plain.name;
    EXPECT_LT(testing::second_gradient_error(f, {x}), 1e-6) << plain.name;
    EXPECT_LT(testing::leaf_gradient_error([&] { return f({x}); }, plain.layer->parameters()), 1e-8)
        << plain.name;
  }
}

TEST_F(MessagePassing, ANodeThatNobodyLeadsToSeesItselfAlone) {
  // Node 6 has no edge; the others' features must not matter to it.
  const Tensor x = at::randn({kNodes, 6}, at::kDouble);
  for (const Plain& plain : plain_layers(6)) {
    randomised(plain.layer);
    const auto parameters = plain.layer->named_parameters();
    const Tensor found = plain.layer->forward({x, {}}, edges_for(plain)).nodes[6];
    const char* const map = plain.loops ? "map.weight" : "own.weight";
    const Tensor& bias = parameters[plain.loops ? "bias" : "own.bias"];
    EXPECT_TRUE(found.allclose(parameters[map].matmul(x[6]) + bias, 0, 1e-12)) << plain.name;
  }
}

TEST_F(MessagePassing, EveryNodeGetsOneLoop) {
  // The second node has a loop already, twice.
  const Tensor ends = at::tensor({0, 1, 1, 1, 1, 2, 1, 1}, at::kLong).view({4, 2});
  EXPECT_TRUE(with_own_loops(ends, 3).equal(
      at::tensor({0, 1, 1, 2, 0, 0, 1, 1, 2, 2}, at::kLong).view({5, 2})));
  EXPECT_TRUE(with_own_loops(at::empty({0, 2}, at::kLong), 2)
                  .equal(at::tensor({0, 0, 1, 1}, at::kLong).view({2, 2})));
}

TEST_F(MessagePassing, WeightsOfASegmentAddUpToOneHoweverLargeTheirLogitsAre) {
  const Segments segments = segments_by(at::tensor({2, 0, 2, 3, 2}, at::kLong), 5, "item");
  const Tensor y = at::randn({5, 2}, at::kDouble);
  for (const double far : {0.0, 1e4, -1e4}) {
    const Tensor weights = segment_softmax(y + far, segments);
    EXPECT_TRUE(weights[1].equal(at::ones({2}, at::kDouble))) << "alone";
    const Tensor third = at::stack({y[0], y[2], y[4]}).softmax(0);
    EXPECT_TRUE(at::stack({weights[0], weights[2], weights[4]}).allclose(third, 0, 1e-10)) << far;
  }
  EXPECT_EQ(
      segment_softmax(at::empty({0, 2}), segments_by(at::empty({0}, at::kLong), 3, "item")).size(0),
      0);
}

TEST_F(MessagePassing, GatDropsCoefficientsInTraining) {
  const Tensor x = at::randn({kNodes, 6}, at::kDouble);
  const Edges edges(with_own_loops(odd_edges(), kNodes), kNodes);
  Gat layer(6, 3, 0.5);
  layer.to(at::kDouble);
  const Tensor z = layer.named_parameters()["map.weight"].matmul(x[6]);
  bool dropped = false, kept = false;
  for (int pass = 0; pass < 20; ++pass) {
    // The only coefficient of node 6 is 1: each head of it is dropped, or doubled.
    const Tensor found = layer.forward({x, {}}, edges).nodes[6];
    for (std::int64_t head = 0; head < 3; ++head) {
      const Tensor part = found.narrow(0, 2 * head, 2);
      const bool none = part.eq(0).all().item<bool>();
      EXPECT_TRUE(none || part.allclose(2 * z.narrow(0, 2 * head, 2), 0, 1e-12));
      (none ? dropped : kept) = true;
    }
  }
  EXPECT_TRUE(dropped && kept);
  layer.eval();
  EXPECT_TRUE(layer.forward({x, {}}, edges).nodes[6].allclose(z, 0, 1e-12));
}

TEST_F(MessagePassing, NamesAnEdgeThatLeadsNowhere) {
  try {
    Edges(at::tensor({0, 1, 1, 4}, at::kLong).view({2, 2}), 3);
    FAIL() << "nothing was thrown";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), says({"target of edge 1", "row 4", "there are 3"}));
  }
  EXPECT_THROW(Edges(at::zeros({3, 3}, at::kLong), 3), ShapeError);
  const Case in;
  EXPECT_THROW(gine_sum(in.x, in.e.narrow(0, 0, 4), in.edges), ShapeError);
  EXPECT_THROW(gated_sums(in.x, in.e, in.edges), ShapeError);
  EXPECT_THROW(routed_sum(in.e, in.edges.by_source, in.edges.by_target), ShapeError);
}

TEST_F(MessagePassing, TakesGraphsWithoutEdges) {
  const Edges edges(at::empty({0, 2}, at::kLong), 3);
  const Tensor x = at::randn({3, 4}).requires_grad_();
  EXPECT_TRUE(gine_sum(x, at::empty({0, 4}), edges).equal(at::zeros({3, 4})));
  GatedGcn layer(4, 0, true);
  const GraphTokens found = layer.forward({x, at::empty({0, 4})}, edges);
  found.nodes.square().sum().backward();
  EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
  for (const Plain& plain : plain_layers(4)) {
    const Edges own(plain.loops ? with_own_loops(at::empty({0, 2}, at::kLong), 3)
                                : at::empty({0, 2}, at::kLong),
                    3);
    const Tensor y = plain.layer->forward({x, {}}, own).nodes;
    EXPECT_TRUE(y.isfinite().all().item<bool>()) << plain.name;
  }
}

}  // namespace
}  // namespace attnlab::message_passing_test
