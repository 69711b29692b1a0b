// The gate of every attention: wrong shapes and inputs beyond the traits never reach a mechanism.
#include <gtest/gtest.h>

#include "framework/contracts/attention.h"
#include "tests/support/message_of.h"
#include "tests/support/naive_attention.h"

namespace attnlab::attention_contract_test {
namespace {

using attnlab::testing::says;
using testing::random_input;

/// Counts how often it is reached.
class Counting final : public Attention {
 public:
  explicit Counting(const AttentionTraits& traits) : Attention(shape_of(), traits) {}
  int calls = 0;

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext&) override {
    ++calls;
    return input.values;
  }

 private:
  static AttentionShape shape_of() {
    AttentionShape shape;
    shape.heads = 2, shape.head_dim = 4, shape.value_dim = 3;
    return shape;
  }
};

AttentionInput good() { return random_input(1, 2, 6, 6, 4, 3); }

template <class Expected>
std::string message_of(const AttentionInput& in,
                       const AttentionTraits& traits = AttentionTraits::all_quadratic()) {
  Counting attention(traits);
  AttentionContext context;
  try {
    attention.forward(in, context);
  } catch (const Expected& error) {
    EXPECT_EQ(attention.calls, 0);
    return error.what();
  }
  return "nothing was thrown";
}

struct UseOfTrait {
  const char* trait;
  bool AttentionTraits::*member;
  void (*use)(AttentionInput&);
};

const UseOfTrait kUses[] = {
    {"bias", &AttentionTraits::bias,
     [](AttentionInput& in) {
       in.bias = at::zeros({6, 6}, at::kDouble);
     }},
    {"bias", &AttentionTraits::bias,
     [](AttentionInput& in) {
       in.distance_bias = at::zeros({1, 2, 11}, at::kDouble);
     }},
    {"causal", &AttentionTraits::causal, [](AttentionInput& in) { in.visible.causal = true; }},
    {"window", &AttentionTraits::window, [](AttentionInput& in) { in.visible.window = 2; }},
    {"pair_mask", &AttentionTraits::pair_mask,
     [](AttentionInput& in) {
       in.visible.pairs = at::ones({6, 6}, at::kBool);
     }},
    {"padding", &AttentionTraits::padding,
     [](AttentionInput& in) {
       in.visible.key_valid = at::ones({1, 6}, at::kBool);
     }},
    {"padding", &AttentionTraits::padding,
     [](AttentionInput& in) {
       in.visible.query_valid = at::ones({1, 6}, at::kBool);
     }},
    {"ragged", &AttentionTraits::ragged,
     [](AttentionInput& in) {
       in.visible.query_offsets = in.visible.key_offsets = at::tensor({0, 2, 6}, at::kLong);
     }},
    {"different_lengths", &AttentionTraits::different_lengths,
     [](AttentionInput& in) { in.queries = in.queries.narrow(2, 0, 5); }},
    {"different_source", &AttentionTraits::different_source,
     [](AttentionInput& in) { in.values_from_elsewhere = true; }},
    {"relative_positions", &AttentionTraits::relative_positions,
     [](AttentionInput& in) {
       in.relative.keys = at::zeros({2, 11, 4}, at::kDouble);
     }},
};

TEST(AttentionContract, RefusesEachInputWhoseTraitIsAbsent) {
  for (const auto& [trait, member, use] : kUses) {
    AttentionInput in = good();
    use(in);
    AttentionTraits traits = AttentionTraits::all_quadratic();
    traits.*member = false;
    const std::string message = message_of<TraitError>(in, traits);
    EXPECT_NE(message.find("no trait '" + std::string(trait) + "'"), std::string::npos) << message;
    EXPECT_NE(message.find("Counting"), std::string::npos) << message;
  }
}

TEST(AttentionContract, AcceptsEachInputWhoseTraitAloneIsPresent) {
  for (const auto& [trait, member, use] : kUses) {
    AttentionInput in = good();
    use(in);
    AttentionTraits traits;
    traits.*member = true;
    Counting attention(traits);
    AttentionContext context;
    EXPECT_NO_THROW(attention.forward(in, context)) << trait;
    EXPECT_EQ(attention.calls, 1) << trait;
  }
}

TEST(AttentionContract, AsksForDifferentLengthsWhereOneRaggedSequenceHasThem) {
  AttentionInput in = good();
  in.visible.query_offsets = at::tensor({0, 2, 6}, at::kLong);
  in.visible.key_offsets = at::tensor({0, 3, 6}, at::kLong);
  AttentionTraits traits = AttentionTraits::all_quadratic();
  traits.different_lengths = false;
  EXPECT_NE(message_of<TraitError>(in, traits).find("different_lengths"), std::string::npos);
}

TEST(AttentionContract, ShowsExpectedAndFoundShapes) {
  AttentionInput in = good();
  in.keys = at::zeros({1, 2, 6, 5}, at::kDouble);
  EXPECT_THAT(message_of<ShapeError>(in),
              says({"keys must be", "[1, 2, *, 4]", "[1, 2, 6, 5] float64"}));
}

TEST(AttentionContract, RefusesWrongShapesAndDtypes) {
  using Change = void (*)(AttentionInput&);
  const std::pair<const char*, Change> wrong[] = {
      {"queries", [](AttentionInput& in) { in.queries = Tensor(); }},
      {"queries", [](AttentionInput& in) { in.queries = in.queries[0]; }},
      {"queries", [](AttentionInput& in) { in.queries = in.queries.to(at::kLong); }},
      {"keys", [](AttentionInput& in) { in.keys = in.keys.to(at::kFloat); }},
      {"keys",
       [](AttentionInput& in) {
         in.keys = in.keys.expand({3, 2, 6, 4});
       }},
      {"values", [](AttentionInput& in) { in.values = in.values.narrow(2, 0, 5); }},
      {"values", [](AttentionInput& in) { in.values = in.keys; }},
      {"bias",
       [](AttentionInput& in) {
         in.bias = at::zeros({6, 5}, at::kDouble);
       }},
      {"bias",
       [](AttentionInput& in) {
         in.bias = at::zeros({6, 6}, at::kFloat);
       }},
      {"distance_bias",
       [](AttentionInput& in) {
         in.distance_bias = at::zeros({1, 2, 12}, at::kDouble);
       }},
      {"distance_bias",
       [](AttentionInput& in) {
         in.distance_bias = at::zeros({1, 1, 11}, at::kDouble);
       }},
      {"distance_bias",
       [](AttentionInput& in) {
         in.distance_bias = at::zeros({1, 2, 11}, at::kFloat);
       }},
      {"visible.window", [](AttentionInput& in) { in.visible.window = -1; }},
      {"visible.pairs",
       [](AttentionInput& in) {
         in.visible.pairs = at::ones({6, 6});
       }},
      {"visible.pairs",
       [](AttentionInput& in) {
         in.visible.pairs = at::ones({5, 6}, at::kBool);
       }},
      {"visible.key_valid",
       [](AttentionInput& in) {
         in.visible.key_valid = at::ones({2, 6}, at::kBool);
       }},
      {"visible.key_valid",
       [](AttentionInput& in) {
         in.visible.key_valid = at::ones({1, 6});
       }},
      {"relative.keys",
       [](AttentionInput& in) {
         in.relative.keys = at::zeros({2, 12, 4}, at::kDouble);
       }},
      {"relative.content_bias",
       [](AttentionInput& in) {
         in.relative.keys = at::zeros({2, 11, 4}, at::kDouble);
         in.relative.content_bias = at::zeros({4}, at::kDouble);
       }},
      {"query_positions",
       [](AttentionInput& in) {
         in.query_positions = at::zeros({1, 5, 2});
       }},
      {"key_positions",
       [](AttentionInput& in) {
         in.key_positions = at::zeros({6, 2});
       }},
  };
  for (const auto& [field, change] : wrong) {
    AttentionInput in = good();
    change(in);
    const std::string message = message_of<ShapeError>(in);
    EXPECT_EQ(message.find("attention input: " + std::string(field) + " must be"), 0u) << message;
  }
}

TEST(AttentionContract, RefusesOffsetsThatDoNotCoverTheSequence) {
  const std::pair<Tensor, const char*> wrong[] = {
      {at::tensor({0, 2, 5}, at::kLong), "goes from 0 to 5"},
      {at::tensor({1, 2, 6}, at::kLong), "goes from 1 to 6"},
      {at::tensor({0, 4, 2, 6}, at::kLong), "entry 2 falls"},
      {at::tensor({0, 2, 6}, at::kInt), "int32"},
      {at::zeros({0}, at::kLong), "[0] int64"},
  };
  for (const auto& [offsets, part] : wrong) {
    AttentionInput in = good();
    in.visible.query_offsets = in.visible.key_offsets = offsets;
    const std::string message = message_of<ShapeError>(in);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  AttentionInput in = good();
  in.visible.query_offsets = at::tensor({0, 6}, at::kLong);
  EXPECT_NE(message_of<ShapeError>(in).find("key_offsets"), std::string::npos);
  in.visible.key_offsets = at::tensor({0, 2, 6}, at::kLong);
  EXPECT_NE(message_of<ShapeError>(in).find("key_offsets"), std::string::npos);
}

TEST(AttentionContract, RefusesARaggedBatchOfMoreThanOne) {
  AttentionInput in = random_input(2, 2, 6, 6, 4, 3);
  in.visible.query_offsets = in.visible.key_offsets = at::tensor({0, 6}, at::kLong);
  EXPECT_NE(message_of<ShapeError>(in).find("B must be 1"), std::string::npos);
}

/// Keeps what it is reached with, and learns a scale.
class Seeing final : public Attention {
 public:
  Seeing() : Attention({.heads = 2, .head_dim = 4}, AttentionTraits::all_quadratic()) {
    scale = register_parameter("scale", at::full({4}, 1.0 / 3));
  }
  Tensor scale;
  AttentionInput seen;

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext&) override {
    seen = input;
    return input.values * scale;
  }
};

TEST(AttentionContract, ABiasByDistanceReachesWhoDoesNotReadItByPair) {
  for (const bool both : {false, true}) {
    AttentionInput in = random_input(2, 2, 3, 5, 4, 4);
    in.distance_bias = at::randn({1, 2, 7}, at::kDouble).requires_grad_();
    if (both) in.bias = at::randn({2, 1, 3, 5}, at::kDouble);
    Seeing attention;
    AttentionContext context;
    attention.forward(in, context);
    EXPECT_FALSE(attention.seen.distance_bias.defined());
    const Tensor pairs = attention.seen.bias.expand({2, 2, 3, 5});
    for (std::int64_t i = 0; i < 3; ++i) {
      for (std::int64_t j = 0; j < 5; ++j) {
        const double own = both ? in.bias[1][0][i][j].item<double>() : 0;
        EXPECT_NEAR(pairs[1][1][i][j].item<double>(),
                    in.distance_bias[0][1][2 - i + j].item<double>() + own, 1e-15);
      }
    }
    attention.seen.bias.sum().backward();
    // How many pairs have each distance.
    const Tensor counts = at::tensor({1, 2, 3, 3, 3, 2, 1}, at::kDouble) * (both ? 2 : 1);
    EXPECT_TRUE(in.distance_bias.grad()[0][1].equal(counts)) << in.distance_bias.grad();
  }
}

TEST(AttentionContract, ABiasByDistanceIsNotOfARaggedBatchNorBehindAMemory) {
  AttentionInput in = good();
  in.distance_bias = at::zeros({1, 2, 11}, at::kDouble);
  Seeing attention;
  AttentionContext context;
  AttentionMemory memory;
  AttentionInput behind = random_input(1, 2, 6, 6, 4, 4);
  behind.distance_bias = in.distance_bias;
  behind.visible.causal = true;
  try {
    attention.extend(behind, memory, context);
    FAIL() << "nothing was thrown";
  } catch (const ShapeError& error) {
    EXPECT_NE(std::string(error.what()).find("leave the rest out"), std::string::npos)
        << error.what();
  }
  in.visible.query_offsets = in.visible.key_offsets = at::tensor({0, 2, 6}, at::kLong);
  const std::string message = message_of<ShapeError>(in);
  EXPECT_NE(message.find("distance_bias"), std::string::npos) << message;
  EXPECT_NE(message.find("give `bias`"), std::string::npos) << message;
}

TEST(AttentionContract, NumbersOf16BitsAreWidenedBeforeAndRoundedOnceBehind) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    AttentionInput in = random_input(1, 2, 6, 6, 4, 4);
    in.bias = at::randn({6, 6});
    in.relative.keys = at::randn({2, 11, 4});
    in.relative.content_bias = in.relative.position_bias = at::randn({2, 4});
    in.query_positions = in.key_positions = at::randn({1, 6, 2});
    RelativePositions& relative = in.relative;
    for (Tensor* x :
         {&in.queries, &in.keys, &in.values, &in.bias, &relative.keys, &relative.content_bias,
          &relative.position_bias, &in.query_positions, &in.key_positions}) {
      *x = x->to(dtype);
    }
    in.values.requires_grad_();
    Seeing attention;
    attention.to(dtype);
    const Tensor rounded = at::full({4}, 1.0 / 3).to(dtype);
    EXPECT_EQ(attention.scale.scalar_type(), at::kFloat);
    EXPECT_TRUE(attention.scale.equal(rounded.to(at::kFloat)));
    AttentionContext context;
    const Tensor out = attention.forward(in, context);
    const AttentionInput& seen = attention.seen;
    for (const Tensor& x : {seen.queries, seen.keys, seen.values, seen.bias, seen.relative.keys,
                            seen.relative.content_bias, seen.relative.position_bias,
                            seen.query_positions, seen.key_positions}) {
      EXPECT_EQ(x.scalar_type(), at::kFloat);
    }
    EXPECT_TRUE(out.equal((in.values.to(at::kFloat) * rounded.to(at::kFloat)).to(dtype)));
    out.sum().backward();
    EXPECT_EQ(in.values.grad().scalar_type(), dtype);
    EXPECT_TRUE(in.values.grad().equal(rounded.expand(in.values.sizes())));
    EXPECT_EQ(attention.scale.grad().scalar_type(), at::kFloat);
  }
}

TEST(AttentionContract, OtherNumbersReachTheMechanismAsTheyAre) {
  const AttentionInput in = random_input(1, 2, 6, 6, 4, 4);
  Seeing attention;
  attention.to(at::kDouble);
  AttentionContext context;
  EXPECT_EQ(attention.forward(in, context).scalar_type(), at::kDouble);
  EXPECT_TRUE(attention.seen.queries.is_same(in.queries));
  EXPECT_EQ(attention.scale.scalar_type(), at::kDouble);
}

/// Reads sources of 5, 6 and 7 channels.
class Sourced final : public Attention {
 public:
  explicit Sourced(std::int64_t members = 1)
      : Attention({.heads = 2 * members,
                   .head_dim = 4,
                   .members = members,
                   .query_width = 5,
                   .key_width = 6,
                   .value_width = 7},
                  {.causal = true, .sources = true, .ordered = true}) {}
  AttentionInput seen;

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext&) override {
    seen = input;
    return input.values;
  }
};

AttentionInput sourced(std::int64_t members = 1) {
  AttentionInput in = random_input(1, 2 * members, 6, 6, 4, 4);
  in.visible.causal = true;
  in.query_source = at::randn({members, 6, 5}, at::kDouble);
  in.key_source = at::randn({members, 6, 6}, at::kDouble);
  in.value_source = at::randn({members, 6, 7}, at::kDouble);
  return in;
}

TEST(AttentionContract, SourcesReachWhoReadsThemAndAreRefusedByOthers) {
  for (const std::int64_t members : {1, 2}) {
    const AttentionInput in = sourced(members);
    Sourced attention(members);
    AttentionContext context;
    attention.forward(in, context);
    EXPECT_TRUE(attention.seen.key_source.is_same(in.key_source));
  }
  AttentionInput in = good();
  in.value_source = at::randn({1, 6, 7}, at::kDouble);
  EXPECT_NE(message_of<TraitError>(in).find("no trait 'sources'"), std::string::npos);
}

TEST(AttentionContract, SourcesAreWidenedAsQueriesAre) {
  AttentionInput in = sourced();
  for (Tensor* x :
       {&in.queries, &in.keys, &in.values, &in.query_source, &in.key_source, &in.value_source}) {
    *x = x->to(at::kBFloat16);
  }
  Sourced attention;
  AttentionContext context;
  attention.forward(in, context);
  for (const Tensor& x :
       {attention.seen.query_source, attention.seen.key_source, attention.seen.value_source}) {
    EXPECT_EQ(x.scalar_type(), at::kFloat);
  }
}

TEST(AttentionContract, RefusesSourcesThatAreMissingOrOfAnotherShape) {
  const std::pair<Tensor AttentionInput::*, const char*> all[] = {
      {&AttentionInput::query_source, "query_source must be [members * B, Lq, query_width]"},
      {&AttentionInput::key_source, "key_source must be [members * B, Lk, key_width]"},
      {&AttentionInput::value_source, "value_source must be [members * B, Lk, value_width]"}};
  Sourced attention;
  AttentionContext context;
  for (const auto& [field, expected] : all) {
    const Tensor right = sourced().*field;
    for (const Tensor& wrong : {Tensor(), right.narrow(1, 0, 5), right.narrow(2, 0, 4),
                                right.repeat({2, 1, 1}), right.to(at::kFloat)}) {
      AttentionInput in = sourced();
      in.*field = wrong;
      std::string message = "nothing was thrown";
      try {
        attention.forward(in, context);
      } catch (const ShapeError& error) {
        message = error.what();
      }
      const std::string name = std::string(expected).substr(0, 10);
      EXPECT_NE(message.find(name), std::string::npos) << message;
    }
    AttentionInput in = sourced();
    in.*field = Tensor();
    try {
      attention.forward(in, context);
      ADD_FAILURE() << expected;
    } catch (const ShapeError& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
  }
}

TEST(AttentionContract, RefusesAModelThatGivesNoSources) {
  class Needing final : public Attention {
   public:
    explicit Needing(const AttentionShape& shape) : Attention(shape, {.sources = true}) {}

   protected:
    Tensor attend(const AttentionInput& input, AttentionContext&) override { return input.values; }
  };
  EXPECT_THROW(Needing({.heads = 2, .head_dim = 4}), ConfigError);
  EXPECT_THROW(Needing({.heads = 2, .head_dim = 4, .query_width = 8, .key_width = 8}), ConfigError);
}

TEST(AttentionContract, AnOrderedAttentionRefusesAnInputWithoutTheCausalRule) {
  AttentionInput in = sourced();
  in.visible.causal = false;
  Sourced attention;
  AttentionContext context;
  try {
    attention.forward(in, context);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const TraitError& error) {
    EXPECT_NE(std::string(error.what()).find("'ordered'"), std::string::npos) << error.what();
  }
}

TEST(AttentionLosses, GatherByNameAndAreSingleNumbers) {
  AttentionLosses losses;
  losses.add("entropy", at::ones({1}));
  losses.add("entropy", at::zeros({}));
  ASSERT_EQ(losses.all().size(), 1U);
  ASSERT_EQ(losses.all().at("entropy").size(), 2U);
  EXPECT_EQ(losses.all().at("entropy")[0].dim(), 0);
  EXPECT_THROW(losses.add("entropy", at::ones({2})), ShapeError);
  EXPECT_THROW(losses.add("entropy", Tensor()), ShapeError);
}

TEST(ForwardState, KeepsOneObjectForEachType) {
  struct First {
    int value = 3;
  };
  struct Second {
    int value = 5;
  };
  ForwardState state;
  EXPECT_EQ(state.of<First>().value, 3);
  state.of<First>().value = 4;
  EXPECT_EQ(state.of<First>().value, 4);
  EXPECT_EQ(state.of<Second>().value, 5);
}

}  // namespace
}  // namespace attnlab::attention_contract_test
