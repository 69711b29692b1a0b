// ResNet and Swin as maps of images: windows against a plain look at neighbours, and images that
// must not depend on padding. Their numbers: tests/plugins/images/resnet_test.cpp and
// swin_test.cpp.
#include <gtest/gtest.h>

#include "framework/nn/backbones/resnet.h"
#include "framework/nn/backbones/swin.h"
#include "framework/nn/backbones/window_attention.h"
#include "framework/nn/backbones/windows.h"
#include "framework/nn/modules/sizes_alone.h"
#include "tests/support/plugins.h"

namespace attnlab::backbones_test {
namespace {

TEST(ResNet, KeepsFrozenNormsAsTheyAre) {
  at::manual_seed(3);
  ResNet net({.depth = 18, .stages = 2, .frozen_norm = true});
  std::map<std::string, Tensor> before;
  for (const auto& item : net.named_buffers()) before[item.key()] = item.value().clone();
  EXPECT_TRUE(before.contains("layer1.0.bn1.weight")) << "no optimiser sees it";
  EXPECT_EQ(net.named_parameters().find("layer1.0.bn1.weight"), nullptr);
  EXPECT_NE(net.named_parameters().find("layer1.0.conv1.weight"), nullptr);
  net.train();
  const Tensor loss = net.forward({at::randn({2, 3, 32, 32}), {}}).map.sum();
  EXPECT_TRUE(loss.requires_grad());
  for (const auto& item : net.named_buffers()) {
    EXPECT_TRUE(item.value().equal(before.at(item.key()))) << item.key();
    EXPECT_FALSE(item.value().requires_grad()) << item.key();
  }
}

TEST(ResNet, OneNumberAChannelIsNormedAsInEvaluation) {
  MapNorm norm(2, /*frozen=*/false);
  const Tensor x = at::randn({1, 2, 1, 1});
  for (int batch = 0; batch < 3; ++batch) {
    EXPECT_TRUE(norm.forward(x).allclose(x, 1e-4, 0)) << "running statistics are 0 and 1";
  }
  EXPECT_TRUE(norm.running_mean.equal(at::zeros({2})));
  EXPECT_TRUE(norm.running_var.equal(at::ones({2})));
  norm.forward(at::randn({1, 2, 1, 2}));
  EXPECT_FALSE(norm.running_var.equal(at::ones({2}))) << "two numbers have one";
}

TEST(Backbones, SayHowDeepAParameterLies) {
  const ResNet resnet({.depth = 18});
  const std::pair<const char*, std::int64_t> of_resnet[] = {{"conv1.weight", 0},
                                                            {"bn1.weight", 0},
                                                            {"layer1.0.conv1.weight", 1},
                                                            {"layer1.1.bn2.bias", 2},
                                                            {"layer2.0.downsample.0.weight", 3},
                                                            {"layer4.1.conv2.weight", 8}};
  for (const auto& [name, depth] : of_resnet) EXPECT_EQ(resnet.depth_of(name), depth) << name;
  SwinSizes sizes = swin_sizes("T");  // 2, 2, 6 and 2 blocks
  const Swin swin(sizes, swin_attention());
  const std::pair<const char*, std::int64_t> of_swin[] = {
      {"embedding.weight", 0},      {"stage0.block0.mlp", 1}, {"stage0.block1.mlp", 2},
      {"stage1.merging.weight", 3}, {"stage1.block0.mlp", 3}, {"stage2.block5.mlp", 10},
      {"stage3.block1.mlp", 12},    {"norm.weight", 13}};
  for (const auto& [name, depth] : of_swin) EXPECT_EQ(swin.depth_of(name), depth) << name;
}

TEST(ResNet, HasThePublishedParameters) {
  ResNet small({.depth = 18}), wide({.depth = 50});
  EXPECT_EQ(testing::parameter_count(small) + 513 * 1000, 11689512);
  EXPECT_EQ(testing::parameter_count(wide) + 2049 * 1000, 25557032);
  EXPECT_EQ(wide.out_channels(), 2048);
  EXPECT_EQ(wide.stride(), 32);
  EXPECT_THROW(ResNet({.depth = 20}), OptionError);
}

SwinSizes small_swin() {
  SwinSizes sizes;
  sizes.dim = 32;
  sizes.depths = {2, 2};
  sizes.heads = {2, 4};
  sizes.window = 4;
  return sizes;
}

TEST(Swin, HasThePublishedParameters) {
  const SizesAlone sizes;
  const auto count = [](const char* preset) {
    Swin swin(swin_sizes(preset), swin_attention());
    return testing::parameter_count(swin) + (swin.out_channels() + 1) * 1000;
  };
  EXPECT_EQ(count("T"), 28351570);
  EXPECT_EQ(count("S"), 49737442);
  EXPECT_EQ(count("B"), 87930848);
  EXPECT_THROW(swin_sizes("L"), OptionError);
}

TEST(Windows, JoinWhatTheyCut) {
  for (const auto& [rows, columns, side, shift] :
       {std::tuple{8, 8, 4, 2}, {7, 10, 4, 2}, {3, 9, 4, 1}, {4, 4, 4, 2}, {5, 6, 3, 0}}) {
    const Windows windows(rows, columns, side, shift);
    const Tensor x = at::arange(2 * rows * columns * 3).view({2, rows, columns, 3});
    const Tensor cut = windows.cut(x);
    EXPECT_EQ(cut.sizes(), (at::IntArrayRef{2 * windows.count(), side * side, 3}));
    EXPECT_TRUE(windows.joined(cut).equal(x));
  }
  EXPECT_THROW(Windows(4, 4, 4, 4), ShapeError);
}

TEST(Windows, ShowNeighboursAlone) {
  // Which cell of the map a slot holds (-1: filled up), by cutting the cells' numbers.
  const std::int64_t rows = 7, columns = 10, side = 4, shift = 2;
  Tensor valid = at::ones({1, rows, columns}, at::kBool);
  valid.slice(1, 6).fill_(false);
  const Windows windows(rows, columns, side, shift, valid);
  const Tensor numbers = (at::arange(rows * columns) + 1).view({1, rows, columns, 1});
  const Tensor slots = (windows.cut(numbers) - 1).squeeze(2);
  const Tensor visible = windows.visible(at::kCPU)[0];
  // A shifted grid of windows begins 2 cells before the map does.
  const auto window_of = [&](std::int64_t at) { return (at + side - shift) / side; };
  for (std::int64_t n = 0; n < windows.count(); ++n) {
    for (std::int64_t i = 0; i < side * side; ++i) {
      for (std::int64_t j = 0; j < side * side; ++j) {
        const auto a = slots[n][i].item<std::int64_t>(), b = slots[n][j].item<std::int64_t>();
        const bool real = a >= 0 && b >= 0 && a / columns < 6 && b / columns < 6;
        const bool expected = real && window_of(a / columns) == window_of(b / columns) &&
                              window_of(a % columns) == window_of(b % columns);
        ASSERT_EQ(visible[n][i][j].item<bool>(), expected) << n << " " << a << " " << b;
      }
    }
  }
}

TEST(Windows, MoveNoMapThatOneWindowCovers) {
  const std::int64_t side = 4, shift = 2;
  Tensor valid = at::zeros({2, 7, 8}, at::kBool);
  valid[0].narrow(0, 0, 3).narrow(1, 0, 6).fill_(true);  // no shift down, a shift to the right
  valid[1].narrow(0, 0, 7).narrow(1, 0, 8).fill_(true);
  const Windows both(7, 8, side, shift, valid), whole(7, 8, side, shift);
  const Windows alone(3, 6, side, shift);
  const Tensor x = at::arange(2 * 7 * 8).view({2, 7, 8, 1}) + 1;
  EXPECT_TRUE(both.joined(both.cut(x)).equal(x));
  // The first two windows hold what the small map's windows hold, where that is real.
  const Tensor shown = both.visible(at::kCPU), small = alone.visible(at::kCPU)[0];
  const Tensor own = alone.cut(x.narrow(0, 0, 1).narrow(1, 0, 3).narrow(2, 0, 6));
  const Tensor seen = both.cut(x).narrow(0, 0, 2);
  EXPECT_TRUE((seen * small.any(2).unsqueeze(2)).equal(own));
  EXPECT_TRUE(shown[0].narrow(0, 0, 2).logical_and(small.any(2).unsqueeze(2)).equal(small));
  EXPECT_TRUE(shown[1].equal(whole.visible(at::kCPU)[0]));
}

/// An image of 37 x 50 alone, and with other pixels around it, in a batch of 96 x 64.
template <class Net>
void expect_padding_to_change_nothing(Net& net) {
  net.to(at::kDouble);
  net.eval();
  const at::NoGradGuard no_gradients;
  const Tensor picture = at::randn({1, 3, 37, 50}, at::kDouble);
  Tensor padded = at::zeros({1, 3, 96, 64}, at::kDouble);
  padded.narrow(2, 0, 37).narrow(3, 0, 50).copy_(picture);
  Tensor valid = at::zeros({1, 96, 64}, at::kBool);
  valid.narrow(1, 0, 37).narrow(2, 0, 50).fill_(true);
  const ImageFeatures alone = net.forward({picture, {}});
  const ImageFeatures among = net.forward({padded, valid});
  const std::int64_t rows = alone.map.size(2), columns = alone.map.size(3);
  EXPECT_EQ(among.valid.sum().template item<std::int64_t>(), rows * columns);
  const Tensor same = among.map.narrow(2, 0, rows).narrow(3, 0, columns);
  EXPECT_LT((same - alone.map).abs().max().template item<double>(),
            1e-9 * alone.map.abs().max().template item<double>());
}

TEST(Backbones, PaddingChangesNothing) {
  at::manual_seed(1);
  ResNet small({.depth = 18}), wide({.depth = 50, .stages = 3});
  expect_padding_to_change_nothing(small);
  expect_padding_to_change_nothing(wide);
  SwinSizes deep = swin_sizes("nano");
  deep.window = 4;
  Swin swin(small_swin(), swin_attention()), nano(deep, swin_attention());
  expect_padding_to_change_nothing(swin);
  expect_padding_to_change_nothing(nano);
}

}  // namespace
}  // namespace attnlab::backbones_test
