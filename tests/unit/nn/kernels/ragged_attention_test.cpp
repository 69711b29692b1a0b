// Sequences end to end: what each gives by itself, to the last bit.
#include "framework/nn/kernels/ragged_attention.h"

#include <ATen/Parallel.h>

#include <numeric>

#include "framework/nn/kernels/cpu_attention.h"
#include "tests/support/like_double.h"
#include "tests/support/product_precision.h"

namespace attnlab::ragged_attention_test {
namespace {

using testing::value_and_gradients;

/// Queries and keys of each sequence; one of them too long to keep its weights (small_attention.h).
struct Lengths {
  std::vector<std::int64_t> queries, keys;
};
const Lengths kSets = {{40, 1, 17, 300, 5}, {40, 1, 17, 300, 5}};
const Lengths kPairsOfSets = {{3, 260, 2}, {30, 300, 1}};

Tensor offsets_of(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> offsets = {0};
  for (const std::int64_t length : lengths) offsets.push_back(offsets.back() + length);
  return at::tensor(offsets, at::kLong);
}

std::int64_t sum_of(const std::vector<std::int64_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

/// Queries, keys and values, by token in memory.
std::vector<Tensor> leaves_of(const Lengths& lengths, at::ScalarType dtype) {
  const auto drawn = [&](std::int64_t length, std::int64_t dim) {
    return at::randn({1, length, 2, dim}, dtype).transpose(1, 2).requires_grad_();
  };
  const std::int64_t keys = sum_of(lengths.keys);
  return {drawn(sum_of(lengths.queries), 8), drawn(keys, 8), drawn(keys, 6)};
}

RaggedQuestion question_of(const Lengths& lengths) {
  return {.query_offsets = offsets_of(lengths.queries),
          .key_offsets = offsets_of(lengths.keys),
          .scale = 0.4};
}

testing::Function at_once(const RaggedQuestion& question) {
  return [question](const std::vector<Tensor>& in) {
    at::manual_seed(7);  // of dropout
    return cpu_ragged_attention(in[0], in[1], in[2], question);
  };
}

testing::Function one_by_one(const Lengths& lengths, const RaggedQuestion& question) {
  return [lengths, question](const std::vector<Tensor>& in) {
    at::manual_seed(7);
    std::vector<Tensor> outputs;
    std::int64_t query = 0, key = 0;
    for (std::size_t t = 0; t < lengths.queries.size(); ++t) {
      const std::int64_t rows = lengths.queries[t], columns = lengths.keys[t];
      outputs.push_back(cpu_softmax_attention(in[0].narrow(2, query, rows),
                                              in[1].narrow(2, key, columns),
                                              in[2].narrow(2, key, columns),
                                              {.rules = question.rules,
                                               .scale = question.scale,
                                               .unit_keys = question.unit_keys,
                                               .dropout = question.dropout}));
      query += rows, key += columns;
    }
    return at::cat(outputs, 2);
  };
}

void expect_the_same(const testing::Function& found, const testing::Function& wanted,
                     const std::vector<Tensor>& leaves, const char* name) {
  const auto all = value_and_gradients(found, leaves),
             expected = value_and_gradients(wanted, leaves);
  ASSERT_EQ(all.size(), expected.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_TRUE(all[i].equal(expected[i])) << name << ", result " << i;
  }
}

TEST(RaggedAttention, IsWhatSequencesGiveByThemselves) {
  at::manual_seed(1);
  struct Kind {
    at::ScalarType dtype;
    Precision products;
  };
  for (const Kind& kind :
       {Kind{at::kFloat, Precision::float32}, Kind{at::kDouble, Precision::float32},
        Kind{at::kFloat, Precision::bfloat16}}) {
    const at::ScalarType dtype = kind.dtype;
    const testing::ProductPrecision precision(kind.products);
    for (const Lengths& lengths : {kSets, kPairsOfSets}) {
      const std::vector<Tensor> leaves = leaves_of(lengths, dtype);
      const auto check = [&](const char* name, const auto& change) {
        RaggedQuestion question = question_of(lengths);
        change(question);
        expect_the_same(at_once(question), one_by_one(lengths, question), leaves, name);
      };
      check("plain", [](RaggedQuestion&) {});
      check("causal", [](RaggedQuestion& question) { question.rules.causal = true; });
      check("window", [](RaggedQuestion& question) { question.rules.window = 9; });
      check("unit keys", [](RaggedQuestion& question) { question.unit_keys = 1e-6; });
      check("dropout", [](RaggedQuestion& question) { question.dropout = 0.3; });
    }
  }
}

TEST(RaggedAttention, ThreadsChangeNoBit) {
  at::manual_seed(2);
  const Lengths lengths = {{40, 1, 17, 200, 5, 90}, {40, 1, 17, 200, 5, 90}};
  const std::vector<Tensor> leaves = leaves_of(lengths, at::kFloat);
  RaggedQuestion question = question_of(lengths);
  question.dropout = 0.3;
  const std::vector<Tensor> wanted = value_and_gradients(at_once(question), leaves);
  const int before = at::get_num_threads();
  for (const int threads : {1, 2, 5}) {
    at::set_num_threads(threads);
    const std::vector<Tensor> found = value_and_gradients(at_once(question), leaves);
    for (std::size_t i = 0; i < 4; ++i) {  // behind them come gradients of gradients, by a library
      EXPECT_TRUE(found[i].equal(wanted[i])) << threads << " threads, result " << i;
    }
  }
  at::set_num_threads(before);
}

TEST(RaggedAttention, SequencesMayBeEmpty) {
  at::manual_seed(3);
  const Lengths lengths = {{0, 2, 0, 20}, {1, 0, 0, 20}};
  const std::vector<Tensor> leaves = leaves_of(lengths, at::kDouble);
  const auto all = value_and_gradients(at_once(question_of(lengths)), leaves);
  EXPECT_TRUE(all[0].narrow(2, 0, 2).eq(0).all().item<bool>());
  EXPECT_TRUE(all[1].narrow(2, 0, 2).eq(0).all().item<bool>());  // of queries without keys
  EXPECT_TRUE(all[2].narrow(2, 0, 1).eq(0).all().item<bool>());  // of a key that none asks
  EXPECT_TRUE(all[3].narrow(2, 0, 1).eq(0).all().item<bool>());
  const Lengths full = {{20}, {20}};
  std::vector<Tensor> own;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    own.push_back(leaves[i].detach().narrow(2, i == 0 ? 2 : 1, 20).requires_grad_());
  }
  EXPECT_TRUE(all[0].narrow(2, 2, 20).equal(at_once(question_of(full))(own)));
}

TEST(RaggedAttention, KeepsNothingWithoutGradients) {
  at::manual_seed(4);
  const std::vector<Tensor> leaves = leaves_of(kSets, at::kFloat);
  const auto f = at_once(question_of(kSets));
  const Tensor wanted = f(leaves).detach();
  const at::NoGradGuard none;
  EXPECT_TRUE(f(leaves).equal(wanted));
}

}  // namespace
}  // namespace attnlab::ragged_attention_test
