// Moments in shares over the processes of a run: who has what, and the same bits as without.
#include "framework/train/optimizer_shares.h"

#include <algorithm>

#include "framework/train/optimizer.h"
#include "tests/support/noise.h"
#include "tests/support/thread_world.h"

namespace attnlab::optimizer_shares_test {
namespace {

using testing::in_world;
using testing::leaf;
using testing::noise;

TEST(OptimizerShares, AreConsecutiveAndNearlyEqual) {
  const std::vector<SharedParameter> parameters = {{5}, {0}, {1}, {40}, {7}};
  for (const std::int64_t size : {1, 2, 4, 8, 64}) {
    in_world(size, [&](const std::shared_ptr<World>& world) {
      const OptimizerShares shares(world, parameters);
      std::vector<std::int64_t> reached(parameters.size());
      std::int64_t least = 53, most = 0;
      for (std::int64_t rank = 0; rank < size; ++rank) {
        std::int64_t share = 0;
        for (std::size_t i = 0; i < parameters.size(); ++i) {
          const ParameterShare piece = shares.piece(i, rank);
          if (piece.size > 0) {
            EXPECT_EQ(piece.begin, reached[i]);
          }
          reached[i] += piece.size;
          share += piece.size;
        }
        least = std::min(least, share);
        most = std::max(most, share);
      }
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        EXPECT_EQ(reached[i], parameters[i].length);
      }
      EXPECT_LE(most - least, 1) << size;
    });
  }
}

TEST(OptimizerShares, DoNotCutWhatMustStayWhole) {
  // Equal shares would end at 26, 52 and 78 of 104.
  const std::vector<SharedParameter> parameters = {{10, true}, {90, true}, {4}};
  in_world(4, [&](const std::shared_ptr<World>& world) {
    const OptimizerShares shares(world, parameters);
    const std::vector<std::vector<std::int64_t>> expected = {
        {10, 0, 0}, {0, 0, 0}, {0, 90, 0}, {0, 0, 4}};
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(shares.piece(i, rank).size, expected[static_cast<std::size_t>(rank)][i])
            << rank << " " << i;
      }
    }
  });
}

TEST(OptimizerShares, GoToAllProcesses) {
  const std::vector<SharedParameter> shapes = {{9}, {6, true}, {1}};
  in_world(4, [&](const std::shared_ptr<World>& world) {
    const OptimizerShares shares(world, shapes);
    const std::vector<Tensor> tensors = {at::zeros({3, 3}), at::zeros({3, 2}, at::kDouble).t(),
                                         at::scalar_tensor(0.0, at::kFloat)};
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const ParameterShare own = shares.own(i);
      const Tensor filled = tensors[i].reshape(-1).clone();
      filled.narrow(0, own.begin, own.size).fill_(double(world->rank() + 1));
      tensors[i].copy_(filled.view(tensors[i].sizes()));
    }
    shares.spread({0, 1, 2}, tensors);
    // Of 16 numbers 4 each; but the third share ends before the 6, in whose middle it would end.
    const Tensor expected = at::tensor({1., 1., 1., 1., 2., 2., 2., 2., 3.}, at::kFloat);
    EXPECT_TRUE(tensors[0].reshape(-1).equal(expected)) << tensors[0];
    EXPECT_TRUE(tensors[1].eq(4).all().item<bool>()) << tensors[1];
    EXPECT_EQ(tensors[2].item<float>(), 4);
  });
}

/// Of all kinds: cut within, cut nowhere (another dtype, another layout), of one number, without a
/// gradient, frozen at first.
std::vector<OptimizedParameter> parameters() {
  std::vector<OptimizedParameter> all;
  const auto add = [&](const char* name, const Tensor& start) -> OptimizedParameter& {
    all.push_back({name, leaf(start)});
    return all.back();
  };
  add("matrix", noise({130, 131}, 1));  // more than is updated at a time by one thread
  add("bias", noise({7}, 2)).decays = false;
  add("one", noise({}, 3)).lr_scale = 0.5;
  add("double", noise({50, 40}, 4, at::kDouble));
  add("turned", noise({120, 100}, 5).t());
  add("idle", noise({3}, 6));
  add("late", noise({90, 10}, 7)).first_epoch = 2;
  return all;
}

/// The steps [begin, end).
void train(Optimizer& optimizer, std::vector<OptimizedParameter>& all, int begin, int end) {
  for (int t = begin; t < end; ++t) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].name == "idle") continue;
      const Tensor& one = all[i].parameter;
      one.mutable_grad() =
          noise(one.sizes().vec(), 1000 + 50 * std::uint64_t(t) + i, one.scalar_type());
    }
    optimizer.set_pace({.learning_rate = 0.01 / (t + 1), .weight_decay = 0.1, .epoch = t / 3});
    optimizer.step(clip_factor(optimizer.gradient_norm(), 20));
  }
}

std::vector<OptimizerSettings> all_rules() {
  std::vector<OptimizerSettings> all;
  const auto add = [&](UpdateRule rule) -> OptimizerSettings& {
    OptimizerSettings settings{.beta1 = 0.8, .beta2 = 0.95};
    settings.rule = rule;
    all.push_back(settings);
    return all.back();
  };
  for (const UpdateRule rule : {UpdateRule::adamw, UpdateRule::radam, UpdateRule::adam}) add(rule);
  add(UpdateRule::sgd);
  OptimizerSettings& momentum = add(UpdateRule::sgd);
  momentum.momentum = 0.9;
  momentum.nesterov = true;
  add(UpdateRule::lamb).max_gradient_norm = 10;
  return all;
}

NamedTensors copy_of(const NamedTensors& state) {
  NamedTensors copy;
  for (const auto& [name, tensor] : state) copy.set(name, tensor.clone());
  return copy;
}

/// What process 0 writes; nothing in the others. Expects that parts of it are elsewhere.
NamedTensors collected(const Optimizer& optimizer, const World& world) {
  if (!world.first()) {
    optimizer.hand_over();
    return {};
  }
  NamedTensors state;
  int elsewhere = 0;
  for (const auto& [name, tensor] : optimizer.state()) {
    elsewhere += tensor.is_meta() ? 1 : 0;
    state.set(name, tensor.is_meta() ? optimizer.collect(name) : tensor);
  }
  optimizer.end_collecting();
  // (SGD without momentum remembers nothing.)
  EXPECT_EQ(elsewhere > 0, optimizer.state().size() > 1 + parameters().size());
  return state;
}

TEST(OptimizerShares, ChangeNoNumberOfAnyRule) {
  for (const OptimizerSettings& settings : all_rules()) {
    const std::string rule = std::to_string(int(settings.rule));
    std::vector<OptimizedParameter> expected = parameters();
    Optimizer alone(expected, settings);
    train(alone, expected, 0, 6);
    const NamedTensors middle = copy_of(alone.state());
    std::vector<Tensor> weights;
    for (const OptimizedParameter& one : expected) {
      weights.push_back(one.parameter.detach().clone());
    }
    train(alone, expected, 6, 11);
    const NamedTensors last = alone.state();
    EXPECT_TRUE(alone.is_whole());

    for (const std::int64_t size : {2, 4}) {
      in_world(size, [&](const std::shared_ptr<World>& world) {
        std::vector<OptimizedParameter> own = parameters();
        Optimizer optimizer(own, settings, world);
        EXPECT_FALSE(optimizer.is_whole());
        train(optimizer, own, 0, 6);
        for (std::size_t i = 0; i < own.size(); ++i) {
          EXPECT_TRUE(own[i].parameter.equal(weights[i])) << rule << ": " << own[i].name;
        }
        for (const auto& [name, tensor] : collected(optimizer, *world)) {
          EXPECT_TRUE(tensor.equal(middle.at(name))) << rule << ": " << name;
        }
        // Another one goes on from there, as after a kill.
        Optimizer second(own, settings, world);
        second.load_state(middle);
        train(second, own, 6, 11);
        for (std::size_t i = 0; i < own.size(); ++i) {
          EXPECT_TRUE(own[i].parameter.equal(expected[i].parameter)) << rule << ": " << own[i].name;
        }
        const NamedTensors found = collected(second, *world);
        EXPECT_EQ(found.size(), world->first() ? last.size() : 0);
        for (const auto& [name, tensor] : found) {
          EXPECT_TRUE(tensor.equal(last.at(name))) << rule << ": " << name;
        }
      });
    }
  }
}

TEST(OptimizerShares, OfOneProcessAreAll) {
  std::vector<OptimizedParameter> own = parameters();
  const Optimizer optimizer(own, {}, World::alone());
  EXPECT_TRUE(optimizer.is_whole());
  for (const auto& [name, tensor] : optimizer.state()) EXPECT_FALSE(tensor.is_meta()) << name;
  optimizer.hand_over();  // waits for nobody
}

}  // namespace
}  // namespace attnlab::optimizer_shares_test
