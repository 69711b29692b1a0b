// QKNorm-HS: unit queries and keys, a learned scale for each head.
#include "tests/plugins/attention/qk_normalisation.h"

namespace attnlab::qknorm_hs_test {
namespace {

using testing::attended;
using testing::BuiltAttention;
using ::testing::HasSubstr;
using testing::Learned;
using testing::logits_of;
using testing::NaiveSettings;
using testing::QKNormalisation;
using testing::random_input;
using testing::Row;

NaiveSettings equation(const Attention& attention) {
  NaiveSettings settings;
  settings.map_query = [logarithms = testing::numbers_of(attention, "scale.log_scale")](
                           const Row& x, std::int64_t h) {
    return testing::times(testing::on_sphere(x),
                          Row(x.size(), std::exp(logarithms[std::size_t(h)])), 0);
  };
  settings.map_key = [](const Row& x, std::int64_t) { return testing::on_sphere(x); };
  return settings;
}

const testing::NormalisedForm kQKNormHs{"qknorm_hs", "", equation};

INSTANTIATE_TEST_SUITE_P(QKNormHs, QKNormalisation, ::testing::Values(kQKNormHs));

TEST(QKNormHsAttention, IgnoresBothNorms) { testing::expect_blind_to_norms(kQKNormHs); }

TEST(QKNormHsAttention, StartsAtTenTimesTheCosine) {
  at::manual_seed(8);
  const AttentionInput in = random_input(2, 2, 4, 5, 9, 3);
  EXPECT_LT(testing::largest_difference(logits_of(kQKNormHs.built(in), in),
                                        testing::cosines(in.queries, in.keys) * 10),
            1e-5);
}

TEST(QKNormHsAttention, LearnsAScaleOfEachHead) {
  const AttentionInput in = random_input(1, 2, 3, 3, 4, 3);
  EXPECT_EQ(testing::learned_by(kQKNormHs.built(in)), Learned({{"scale.log_scale", {2}}}));
  EXPECT_EQ(testing::learned_by(kQKNormHs.built(in, "parameter: plain")),
            Learned({{"scale.scale", {2}}}));
}

TEST(QKNormHsAttention, SharpensWithItsScale) {
  at::manual_seed(9);
  const AttentionInput in = random_input(1, 2, 3, 6, 8, 8);
  AttentionTrace trace;
  trace.entropy = true;
  for (const std::string init : {"0", "1", "4", "16", "64"}) {
    attended(kQKNormHs.built(in, "parameter: plain, init: " + init), in, &trace);
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
  const BuiltAttention attention = kQKNormHs.built(in);
  {
    const at::NoGradGuard no_gradients;
    for (Tensor& parameter : attention->parameters()) parameter.fill_(30);
  }
  EXPECT_NEAR(logits_of(attention, in).max().item<double>(), 100, 1e-9);
}

TEST(QKNormHsAttention, RefusesAStartThatCannotLearn) {
  const AttentionInput in = random_input(1, 2, 3, 3, 4, 3);
  EXPECT_THAT([&] { kQKNormHs.built(in, "init: 200"); },
              ::testing::ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("options:1:"), HasSubstr("init: 200"), HasSubstr("max (100)"))));
}

}  // namespace
}  // namespace attnlab::qknorm_hs_test
