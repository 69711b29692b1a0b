// Ensembles of the models that declare them, against their members trained alone.
#include "tests/support/data_files.h"
#include "tests/support/ensembles.h"

namespace attnlab::ensemble_test {
namespace {

using attnlab::testing::mentions;
using testing::EnsembleCase;
using testing::expect_nan_stays_alone;
using testing::expect_same_as_alone;
using ::testing::HasSubstr;
using testing::message_of;

constexpr std::int64_t kMembers = 3, kBatch = 4, kTokens = 5, kDim = 6, kLength = 5;

/// Every learned part of `composed`, and each of the two kinds that heads share.
constexpr const char* kComposed[] = {
    "{query: {map: layer_norm, scales: channel}, key: {map: sphere, scales: head_channel}, "
    "scale: {kind: learned, init: 2}}",
    "{query: {map: sphere, scales: channel}, scale: {kind: learned, parameter: plain, init: 2}, "
    "normaliser: {kind: power}}",
    "{key: {map: layer_norm}, metric: {kind: elliptical}, scale: {by: model_dim}, "
    "normaliser: {kind: sigmoid}}"};

struct Named {
  std::string attention, options = "{}";
};

/// Every attention with its defaults, and `composed` with parameters.
std::vector<Named> all_attentions() {
  std::vector<Named> all;
  for (const std::string& name : testing::attentions_without("ordered")) {
    all.push_back({name});
  }
  for (const char* options : kComposed) all.push_back({"composed", options});
  return all;
}

EnsembleCase toy(const Named& attention, const std::string& options = "{hidden: 7}") {
  EnsembleCase c;
  c.model = "toy_transformer";
  c.data.name = "made up";
  c.data.classes = 4;
  c.data.fields = {{"series", {kTokens, kDim}, at::kFloat}};
  c.options = options;
  c.attention = attention.attention;
  c.attention_options = attention.options;
  return c;
}

std::vector<Batch> toy_batches() {
  std::vector<Batch> batches;
  for (std::int64_t m = 0; m < kMembers; ++m) {
    batches.push_back({{{"series", at::randn({kBatch, kTokens, kDim})}}, kBatch});
  }
  return batches;
}

TEST(ToyTransformerEnsemble, IsItsMembersAloneWithEveryAttention) {
  at::manual_seed(21);
  const std::vector<Named> all = all_attentions();
  EXPECT_GT(all.size(), 15U);
  for (const Named& attention : all) {
    SCOPED_TRACE(attention.attention + " " + attention.options);
    for (const char* block : {"as_printed", "pre_norm"}) {
      EnsembleCase c = toy(attention, std::string("{hidden: 7, block: ") + block + "}");
      expect_same_as_alone(c, toy_batches(), 1e-10);
    }
  }
}

TEST(ToyTransformerEnsemble, IsItsMembersAloneInSinglePrecision) {
  at::manual_seed(22);
  for (const Named& attention : all_attentions()) {
    SCOPED_TRACE(attention.attention + " " + attention.options);
    EnsembleCase c = toy(attention, "{hidden: 7, activation: relu}");
    c.dtype = at::kFloat;
    expect_same_as_alone(c, toy_batches(), 1e-5);
  }
}

TEST(ToyTransformerEnsemble, KeepsNotANumberToItsMember) {
  at::manual_seed(23);
  const Named kinds[] = {{"standard"}, {"quest"},    {"qknorm"}, {"qknorm", "{scales: channel}"},
                         {"cosine"},   {"qknorm_ln"}};
  for (const Named& attention : kinds) {
    SCOPED_TRACE(attention.attention + attention.options);
    EnsembleCase c = toy(attention);
    expect_nan_stays_alone(c, toy_batches());
    c.dtype = at::kFloat;
    expect_nan_stays_alone(c, toy_batches());
  }
}

TEST(ToyTransformerEnsemble, RefusesABatchThatDoesNotDivide) {
  const testing::Ensemble ensemble(toy({"standard"}), kMembers);
  const Batch batch{{{"series", at::randn({kMembers * kBatch + 1, kTokens, kDim})}},
                    kMembers * kBatch + 1};
  EXPECT_THAT(message_of<ShapeError>([&] { testing::logits_of(*ensemble.together, batch); }),
              HasSubstr("ensemble of 3 members"));
}

EnsembleCase pairs(const Named& attention, std::int64_t targets, const std::string& more) {
  EnsembleCase c;
  c.model = "seq_pair_transformer";
  c.data.name = "made up";
  c.data.classes = 4;
  c.data.vocabulary = 6;
  c.data.fields = {{"condition", {kLength}, at::kLong},
                   {"condition_valid", {kLength}, at::kBool},
                   {"content", {kLength}, at::kLong},
                   {"targets", {targets}, at::kLong}};
  c.options = "{dim: 8, depth: 2, heads: 2, hidden: 12" + more + "}";
  c.attention = attention.attention;
  c.attention_options = attention.options;
  return c;
}

std::vector<Batch> pair_batches() {
  std::vector<Batch> batches;
  for (std::int64_t m = 0; m < kMembers; ++m) {
    const Tensor lengths = at::randint(1, kLength + 1, {kBatch, 1}, at::kLong);
    const Tensor valid = at::arange(kLength).unsqueeze(0) < lengths;
    batches.push_back({{{"condition", at::randint(5, {kBatch, kLength}, at::kLong)},
                        {"condition_valid", valid},
                        {"content", at::randint(6, {kBatch, kLength}, at::kLong)}},
                       kBatch});
  }
  return batches;
}

TEST(SeqPairTransformerEnsemble, IsItsMembersAloneInEveryWiring) {
  at::manual_seed(24);
  const Named kinds[] = {
      {"standard"},
      {"misaligned"},
      {"indirect", "{hidden: 5}"},
      {"indirect", "{hidden: 5, refine: false, bias: after_scaling}"},
      {"qknorm", "{scales: channel}"},
      {"qknorm_hs"},
      {"composed",
       "{scale: {kind: learned, init: 2}, metric: {kind: elliptical, elliptical: "
       "{causal_leak: true}}}"}};
  for (const Named& attention : kinds) {
    for (const char* more : {"", ", positions: none", ", self_attention: true", ", wiring: cross",
                             ", wiring: cross, queries: content", ", pool: pointer"}) {
      SCOPED_TRACE(attention.attention + attention.options + more);
      expect_same_as_alone(pairs(attention, 1, more), pair_batches(), 1e-10);
    }
    expect_same_as_alone(pairs(attention, kLength, ""), pair_batches(), 1e-10);
  }
}

TEST(SeqPairTransformerEnsemble, IsItsMembersAloneInSinglePrecision) {
  at::manual_seed(25);
  for (const char* attention : {"standard", "misaligned", "indirect"}) {
    SCOPED_TRACE(attention);
    EnsembleCase c = pairs({attention}, 1, "");
    c.dtype = at::kFloat;
    expect_same_as_alone(c, pair_batches(), 2e-5);
  }
}

TEST(SeqPairTransformerEnsemble, KeepsNotANumberToItsMember) {
  at::manual_seed(26);
  for (const char* attention : {"standard", "indirect"}) {
    SCOPED_TRACE(attention);
    expect_nan_stays_alone(pairs({attention}, 1, ""), pair_batches());
  }
}

TEST(SeqPairTransformerEnsemble, RefusesATokenOfAnotherMembersPart) {
  const testing::Ensemble ensemble(pairs({"standard"}, 1, ""), kMembers);
  std::vector<Batch> batches = pair_batches();
  batches[0].fields.at("content").select(0, 1).select(0, 2).fill_(6);
  EXPECT_THAT(
      message_of<DataError>([&] { testing::logits_of(*ensemble.together, joined(batches)); }),
      mentions("content", "vocabulary (0 to 5)"));
}

TEST(SeqPairTransformerEnsemble, RefusesPaddingThatAnAttentionCannotTellMembersApartBy) {
  const testing::Ensemble ensemble(pairs({"cosine"}, 1, ", wiring: cross, queries: content"),
                                   kMembers);
  EXPECT_THAT(message_of<ShapeError>(
                  [&] { testing::logits_of(*ensemble.together, joined(pair_batches())); }),
              mentions("'pair_mask'", "one by one"));
}

}  // namespace
}  // namespace attnlab::ensemble_test
