// The QK-normalisations: qnorm, qknorm, qknorm_hs, qknorm_ln, and qknorm with the scales of
// qknorm_ds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/gradcheck.h"
#include "tests/support/naive_attention.h"
#include "tests/support/plugins.h"

namespace attnlab::qk_normalisation_test {
namespace {

using ::testing::HasSubstr;
using testing::largest_difference;
using testing::naive_attention;
using testing::NaiveSettings;
using testing::random_input;
using testing::Row;
using testing::row;

constexpr const char* kNames[] = {"qnorm", "qknorm", "qknorm_hs", "qknorm_ds", "qknorm_ln"};
constexpr const char* kBlindToNorms[] = {"qknorm", "qknorm_hs", "qknorm_ds", "qknorm_ln"};

using Built = std::shared_ptr<Attention>;

/// In double, with the parameters that it starts with. qknorm_ds is qknorm with other scales.
Built built(const std::string& name, const AttentionInput& in, const std::string& options = "{}") {
  if (name == "qknorm_ds") {
    const std::string more = options.substr(1);  // "init: 2}", "}"
    return built("qknorm", in, "{scales: channel" + (more == "}" ? more : ", " + more));
  }
  const Built attention = testing::make_attention(name, testing::shape_of(in), options);
  attention->to(at::kDouble);
  return attention;
}

/// As `built`, with parameters that differ from each other.
Built varied(const std::string& name, const AttentionInput& in) {
  const Built attention = built(name, in);
  const at::NoGradGuard no_gradients;
  for (Tensor& parameter : attention->parameters()) parameter.add_(at::rand_like(parameter));
  return attention;
}

Tensor attended(const Built& attention, const AttentionInput& in, AttentionTrace* trace = nullptr) {
  AttentionContext context;
  context.trace = trace;
  return attention->forward(in, context);
}

Tensor logits_of(const Built& attention, const AttentionInput& in) {
  AttentionTrace trace;
  trace.logits = true;
  attended(attention, in, &trace);
  return trace.layers[0].logits;
}

/// c ⊙ x, c being the part of `factors` that belongs to head h where heads have their own.
Row times(Row x, const Row& factors, std::int64_t h) {
  const std::size_t first = factors.size() > x.size() ? h * x.size() : 0;
  for (std::size_t c = 0; c < x.size(); ++c) x[c] *= factors[first + c];
  return x;
}

Row layer_normed(Row x, const Row& weight, const Row& bias) {
  double mean = 0, variance = 0;
  for (const double c : x) mean += c / x.size();
  for (const double c : x) variance += (c - mean) * (c - mean) / x.size();
  for (std::size_t c = 0; c < x.size(); ++c) {
    x[c] = (x[c] - mean) / std::sqrt(variance + 1e-6) * weight[c] + bias[c];
  }
  return x;
}

/// The paper's formulas, with the parameters of `attention`.
NaiveSettings equation_of(const std::string& name, const Attention& attention) {
  const auto parameters = attention.named_parameters();
  const auto numbers = [&](const std::string& key) { return row(parameters[key].detach()); };
  const auto on_sphere = [](const Row& x, std::int64_t) { return testing::over_norm(x, 1e-12); };
  NaiveSettings settings;
  if (name == "qnorm") {
    settings.map_query = on_sphere;
  } else if (name == "qknorm_hs") {
    const Row logarithms = numbers("scale.log_scale");
    settings.map_query = [=](const Row& x, std::int64_t h) {
      return times(on_sphere(x, h), Row(x.size(), std::exp(logarithms[h])), 0);
    };
    settings.map_key = on_sphere;
  } else if (name == "qknorm_ln") {
    const auto map = [&](const std::string& side) {
      return [weight = numbers(side + ".norm.weight"), bias = numbers(side + ".norm.bias")](
                 const Row& x, std::int64_t) { return layer_normed(x, weight, bias); };
    };
    settings.scale = 1 / std::sqrt(static_cast<double>(attention.shape().head_dim));
    settings.map_query = map("query");
    settings.map_key = map("key");
  } else {
    const auto map = [&](const std::string& side) {
      return [on_sphere, factors = numbers(side + ".scale")](const Row& x, std::int64_t h) {
        return times(on_sphere(x, h), factors, h);
      };
    };
    settings.map_query = map("query");
    settings.map_key = map("key");
  }
  return settings;
}

std::vector<std::pair<std::string, std::vector<std::int64_t>>> learned_by(const Built& attention) {
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> found;
  for (const auto& item : attention->named_parameters()) {
    found.emplace_back(item.key(), item.value().sizes().vec());
  }
  return found;
}

TEST(QKNormalisations, HonourEveryInputOfTheContract) {
  for (const char* name : kNames) {
    EXPECT_EQ(built(name, random_input(1, 2, 3, 3, 4, 4))->traits(),
              AttentionTraits::all_quadratic())
        << name;
  }
}

TEST(QKNormalisations, EqualTheirEquationsUnderEveryRule) {
  at::manual_seed(1);
  for (const auto& [rule, in] : testing::one_input_for_each_rule()) {
    for (const char* name : kNames) {
      const Built attention = varied(name, in);
      const Tensor expected = naive_attention(in, equation_of(name, *attention));
      EXPECT_LT(largest_difference(attended(attention, in), expected), 1e-10)
          << name << ", " << rule;
      AttentionTrace trace;
      EXPECT_LT(largest_difference(attended(attention, in, &trace), expected), 1e-10)
          << name << ", " << rule << ", traced";
    }
  }
}

TEST(QKNormalisations, GradientsAreRight) {
  at::manual_seed(2);
  AttentionInput in = random_input(2, 2, 3, 4, 4, 3);
  in.visible.causal = true;
  for (Tensor* x : {&in.queries, &in.keys, &in.values}) x->requires_grad_();
  for (const char* name : kNames) {
    const Built attention = varied(name, in);
    std::vector<Tensor> leaves = attention->parameters();
    leaves.insert(leaves.end(), {in.queries, in.keys, in.values});
    AttentionTrace trace;
    for (AttentionTrace* with : {static_cast<AttentionTrace*>(nullptr), &trace}) {
      const auto f = [&] { return attended(attention, in, with); };
      EXPECT_LT(testing::leaf_gradient_error(f, leaves), 1e-7) << name;
    }
  }
}

TEST(QKNormalisations, GradientsOfGradientsAreRight) {
  at::manual_seed(3);
  const AttentionInput in = random_input(1, 2, 2, 3, 3, 2);
  for (const char* name : kNames) {
    const Built attention = varied(name, in);
    const auto f = [&](const std::vector<Tensor>& x) {
      AttentionInput changed = in;
      changed.queries = x[0], changed.keys = x[1], changed.values = x[2];
      return attended(attention, changed);
    };
    EXPECT_LT(testing::second_gradient_error(f, {in.queries, in.keys, in.values}), 1e-6) << name;
  }
}

TEST(QKNormalisations, RaggedSequencesEqualSeparateOnes) {
  at::manual_seed(4);
  AttentionInput in = random_input(1, 2, 7, 7, 4, 4);
  in.visible.causal = true;
  in.visible.query_offsets = in.visible.key_offsets = at::tensor({0, 3, 7}, at::kLong);
  for (const char* name : kNames) {
    const Built attention = varied(name, in);
    std::vector<Tensor> separate;
    for (const auto& [first, length] : {std::pair(0, 3), std::pair(3, 4)}) {
      AttentionInput one = in;
      one.visible.query_offsets = one.visible.key_offsets = Tensor();
      for (Tensor* x : {&one.queries, &one.keys, &one.values}) *x = x->narrow(2, first, length);
      separate.push_back(naive_attention(one, equation_of(name, *attention)));
    }
    EXPECT_LT(largest_difference(attended(attention, in), at::cat(separate, 2)), 1e-10) << name;
  }
}

TEST(QKNormalisations, ZeroVectorsGiveFiniteGradients) {
  AttentionInput in = random_input(1, 1, 2, 3, 4, 4);
  for (const char* name : kNames) {
    in.queries = at::zeros({1, 1, 2, 4}, at::kDouble).requires_grad_();
    in.keys = at::zeros({1, 1, 3, 4}, at::kDouble).requires_grad_();
    const Tensor y = attended(built(name, in), in);
    EXPECT_LT(largest_difference(y.detach(), in.values.mean(2, true).expand({1, 1, 2, 4})), 1e-12)
        << name;
    y.sum().backward();
    EXPECT_TRUE(in.queries.grad().isfinite().all().item<bool>()) << name;
    EXPECT_TRUE(in.keys.grad().isfinite().all().item<bool>()) << name;
  }
}

TEST(QNormAttention, IgnoresQueryNormAndFollowsKeyNorm) {
  at::manual_seed(5);
  const AttentionInput in = random_input(2, 2, 4, 5, 6, 3);
  const Built attention = built("qnorm", in);
  AttentionInput louder = in;
  louder.queries = in.queries * at::logspace(-3, 3, 4, 10.0, at::kDouble).view({1, 1, 4, 1});
  EXPECT_LT(largest_difference(attended(attention, in), attended(attention, louder)), 1e-12);
  // A key's norm multiplies its logits: that is what QUEST's keys cannot do.
  louder = in;
  louder.keys = in.keys * 3;
  EXPECT_LT(largest_difference(logits_of(attention, louder), logits_of(attention, in) * 3), 1e-12);
}

TEST(QNormAttention, EpsIsTheFloorOfAQuerysNorm) {
  at::manual_seed(6);
  AttentionInput in = random_input(1, 2, 3, 4, 5, 5);
  in.queries.narrow(2, 0, 2).mul_(0.01);
  NaiveSettings settings;
  settings.map_query = [](const Row& x, std::int64_t) { return testing::over_norm(x, 0.5); };
  const Tensor expected = naive_attention(in, settings);
  EXPECT_LT(largest_difference(attended(built("qnorm", in, "{eps: 0.5}"), in), expected), 1e-10);
  EXPECT_GT(largest_difference(attended(built("qnorm", in), in), expected), 1e-3);
}

TEST(QKNormAttention, IgnoresBothNormsInAllItsForms) {
  at::manual_seed(7);
  const AttentionInput in = random_input(2, 2, 4, 5, 6, 3);
  AttentionInput louder = in;
  louder.queries = in.queries * at::logspace(-1, 3, 4, 10.0, at::kDouble).view({1, 1, 4, 1});
  louder.keys = in.keys * at::logspace(-1, 3, 5, 10.0, at::kDouble).view({1, 1, 5, 1});
  for (const std::string name : kBlindToNorms) {
    // Layer normalisation adds eps to the variance, so that only a small one leaves norms out.
    const Built attention = built(name, in, "{eps: 1.0e-30}");
    EXPECT_LT(largest_difference(attended(attention, in), attended(attention, louder)), 1e-12)
        << name;
  }
}

TEST(QKNormAttention, StartsAtTheRootOfTheDimensionTimesTheCosine) {
  at::manual_seed(8);
  const AttentionInput in = random_input(2, 2, 4, 5, 9, 3);
  const auto cosine = [&](const Tensor& q, const Tensor& k) {
    return at::matmul(q / q.norm(2, -1, true), (k / k.norm(2, -1, true)).transpose(-2, -1));
  };
  const auto start = [&](const char* name, const char* options = "{}") {
    return logits_of(built(name, in, options), in);
  };
  const Tensor expected = cosine(in.queries, in.keys) * 3;
  EXPECT_LT(largest_difference(start("qknorm"), expected), 1e-5);
  EXPECT_LT(largest_difference(start("qknorm_ds"), expected), 1e-5);
  EXPECT_LT(largest_difference(start("qknorm", "{init: 0.5}"), expected / 12), 1e-5);
  EXPECT_LT(largest_difference(start("qknorm_ds", "{init: 0.5}"), expected / 12), 1e-5);
  EXPECT_LT(largest_difference(start("qknorm_hs"), expected / 3 * 10), 1e-5);
  const auto centred = [](const Tensor& x) { return x - x.mean(-1, true); };
  EXPECT_LT(
      largest_difference(start("qknorm_ln"), cosine(centred(in.queries), centred(in.keys)) * 3),
      1e-4);
}

TEST(QKNormAttention, LearnsWhatThePaperSays) {
  using Learned = decltype(learned_by(nullptr));
  const AttentionInput in = random_input(1, 2, 3, 3, 4, 3);
  EXPECT_EQ(learned_by(built("qnorm", in)), Learned());
  EXPECT_EQ(learned_by(built("qknorm", in)), Learned({{"query.scale", {8}}, {"key.scale", {8}}}));
  EXPECT_EQ(learned_by(built("qknorm_ds", in)),
            Learned({{"query.scale", {4}}, {"key.scale", {4}}}));
  EXPECT_EQ(learned_by(built("qknorm_hs", in)), Learned({{"scale.log_scale", {2}}}));
  EXPECT_EQ(learned_by(built("qknorm_hs", in, "{parameter: plain}")),
            Learned({{"scale.scale", {2}}}));
  EXPECT_EQ(learned_by(built("qknorm_ln", in)), Learned({{"query.norm.weight", {4}},
                                                         {"query.norm.bias", {4}},
                                                         {"key.norm.weight", {4}},
                                                         {"key.norm.bias", {4}}}));
}

TEST(QKNormHsAttention, SharpensWithItsScale) {
  at::manual_seed(9);
  const AttentionInput in = random_input(1, 2, 3, 6, 8, 8);
  AttentionTrace trace;
  trace.entropy = true;
  for (const char* init : {"0", "1", "4", "16", "64"}) {
    const std::string options = std::string("{parameter: plain, init: ") + init + "}";
    attended(built("qknorm_hs", in, options), in, &trace);
  }
  EXPECT_NEAR(trace.layers[0].entropy.min().item<double>(), std::log(6.0), 1e-12);
  for (std::size_t i = 1; i < trace.layers.size(); ++i) {
    EXPECT_TRUE((trace.layers[i].entropy < trace.layers[i - 1].entropy).all().item<bool>());
  }
}

TEST(QKNormHsAttention, BoundsLogitsWhateverIsLearned) {
  at::manual_seed(10);
  AttentionInput in = random_input(1, 2, 3, 6, 8, 8);
  in.keys = in.queries.repeat({1, 1, 2, 1});  // cosines of 1 are among them
  const Built attention = built("qknorm_hs", in);
  {
    const at::NoGradGuard no_gradients;
    for (Tensor& parameter : attention->parameters()) parameter.fill_(30);
  }
  EXPECT_NEAR(logits_of(attention, in).max().item<double>(), 100, 1e-9);
}

TEST(QKNormHsAttention, RefusesAStartThatCannotLearn) {
  const AttentionInput in = random_input(1, 2, 3, 3, 4, 3);
  try {
    built("qknorm_hs", in, "{init: 200}");
    FAIL() << "a start above max was taken";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("init: 200 is above max (100)"));
    EXPECT_THAT(error.what(), HasSubstr("options:1:"));
  }
}

}  // namespace
}  // namespace attnlab::qk_normalisation_test
