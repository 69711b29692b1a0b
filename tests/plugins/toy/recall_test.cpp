// Recall: answers against slow loops over the tokens before them, and what the rules say of chance.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "tests/support/data_files.h"
#include "tests/support/kept_contract.h"
#include "tests/support/plugins.h"

namespace attnlab::recall_test {
namespace {

using attnlab::testing::mentions;
using ::testing::HasSubstr;
using testing::make_dataset;
using testing::message_of;
using Numbers = std::vector<std::int64_t>;

struct Example {
  Numbers tokens, targets;
};

Example example(const Dataset& data, std::int64_t index, Split split = Split::train) {
  const NamedTensors one = data.example(split, index, nullptr);
  const auto numbers = [&](const char* field) {
    const auto* first = one.at(field).data_ptr<std::int64_t>();
    return Numbers(first, first + one.at(field).numel());
  };
  return {numbers("tokens"), numbers("targets")};
}

/// What is asked at the last of these tokens, which are an example's first; -1: nothing.
/// @param length  of the whole example
using Answer = std::function<std::int64_t(const Numbers& seen, std::size_t length)>;

std::int64_t value_of_key(const Numbers& seen, std::size_t pairs, std::int64_t symbols) {
  if (seen.size() <= 2 * pairs || seen.back() == 2 * symbols) return -1;
  for (std::size_t i = 0; i < 2 * pairs; i += 2) {
    if (seen[i] == seen.back()) return seen[i + 1];
  }
  ADD_FAILURE() << "a query is not one of the keys";
  return -1;
}

std::int64_t next_symbol(const Numbers& seen, std::int64_t symbols) {
  auto marks = std::count(seen.begin(), seen.end(), symbols + 1);
  if (seen.back() != symbols + 1) return -1;
  for (const std::int64_t token : seen) {
    if (token < symbols && --marks == 0) return token;
  }
  ADD_FAILURE() << "more marks than symbols";
  return -1;
}

std::int64_t last_bit(const Numbers& seen) {
  if (seen.size() % 2 == 0 || seen.back() != 3) return -1;
  for (std::size_t t = seen.size() - 1; t >= 2; t -= 2) {
    if (seen[t - 2] == 2) return seen[t - 1];
  }
  ADD_FAILURE() << "nothing was written";
  return -1;
}

/// Where place i of the permutation of this number leads: its digits in the factorial system.
std::int64_t image(std::int64_t number, std::int64_t i, std::int64_t elements) {
  Numbers left(static_cast<std::size_t>(elements));
  for (std::int64_t k = 0; k < elements; ++k) left[std::size_t(k)] = k;
  std::int64_t block = 1;
  for (std::int64_t k = 2; k < elements; ++k) block *= k;
  for (std::int64_t k = 0;; ++k) {
    const auto at = left.begin() + number / block;
    if (k == i) return *at;
    left.erase(at);
    number %= block;
    block /= std::max<std::int64_t>(elements - 1 - k, 1);
  }
}

/// Each place is followed through all moves, the last one first.
std::int64_t product(const Numbers& seen, std::int64_t elements) {
  Numbers all;
  for (std::int64_t i = 0; i < elements; ++i) {
    std::int64_t place = i;
    for (auto move = seen.rbegin(); move != seen.rend(); ++move) {
      place = image(*move, place, elements);
    }
    all.push_back(place);
  }
  std::int64_t number = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    number *= std::ssize(all) - std::int64_t(i);
    number += std::count_if(all.begin() + std::int64_t(i), all.end(),
                            [&](std::int64_t later) { return later < all[i]; });
  }
  return number;
}

std::int64_t value_in_filler(const Numbers& seen, std::size_t length) {
  if (seen.size() < length) return -1;
  for (std::size_t i = 0; i + 1 < length; ++i) {
    if (seen[i] == seen.back()) return seen[i + 1];
  }
  ADD_FAILURE() << "the key is not there";
  return -1;
}

struct RuleCase {
  std::string name, options;
  Answer answer;
  double asked;  ///< tokens of an example at which something is asked, on average
};

void PrintTo(const RuleCase& rule, std::ostream* out) { *out << rule.options; }

const RuleCase kRules[] = {
    {"associative", "{length: 40, items: 5, symbols: 12}",
     [](const Numbers& seen, std::size_t) { return value_of_key(seen, 5, 12); }, 5},
    {"associative_at_its_shortest", "{length: 16, items: 4, symbols: 4}",
     [](const Numbers& seen, std::size_t) { return value_of_key(seen, 4, 4); }, 4},
    {"copy", "{rule: copy, length: 30, items: 7, symbols: 5}",
     [](const Numbers& seen, std::size_t) { return next_symbol(seen, 5); }, 7},
    {"copy_at_its_shortest", "{rule: copy, length: 8, items: 4, symbols: 5}",
     [](const Numbers& seen, std::size_t) { return next_symbol(seen, 5); }, 4},
    {"flip_flop", "{rule: flip_flop, length: 42}",
     [](const Numbers& seen, std::size_t) { return last_bit(seen); }, 1 + 19 * 0.1},
    {"flip_flop_dense", "{rule: flip_flop, length: 42, ignore: 0.1}",
     [](const Numbers& seen, std::size_t) { return last_bit(seen); }, 1 + 19 * 0.45},
    {"parity", "{rule: permutations, elements: 2, length: 20}",
     [](const Numbers& seen, std::size_t) { return std::count(seen.begin(), seen.end(), 1) % 2; },
     20},
    {"permutations_of_three", "{rule: permutations, elements: 3, length: 15}",
     [](const Numbers& seen, std::size_t) { return product(seen, 3); }, 15},
    {"permutations_of_five", "{rule: permutations, length: 20}",
     [](const Numbers& seen, std::size_t) { return product(seen, 5); }, 20},
    {"needle", "{rule: needle, length: 50, items: 3, symbols: 9}", value_in_filler, 1},
    {"needle_without_filler", "{rule: needle, length: 9, items: 4, symbols: 4}", value_in_filler,
     1}};

class RecallRule : public ::testing::TestWithParam<RuleCase> {};

TEST_P(RecallRule, AsksWhatFollowsFromEarlierTokensAlone) {
  const auto data = make_dataset("recall", GetParam().options, 3);
  double asked = 0;
  for (std::int64_t i = 0; i < 300; ++i) {
    const Example one = example(*data, i);
    for (std::size_t t = 0; t < one.tokens.size(); ++t) {
      const Numbers seen(one.tokens.begin(), one.tokens.begin() + std::int64_t(t) + 1);
      ASSERT_EQ(one.targets[t], GetParam().answer(seen, one.tokens.size()))
          << "example " << i << ", token " << t;
      asked += one.targets[t] >= 0;
    }
  }
  EXPECT_NEAR(asked / 300, GetParam().asked, 0.35);
}

TEST_P(RecallRule, KeepsTheContract) {
  testing::expect_contract_kept("recall", GetParam().options);
}

std::string name_of(const ::testing::TestParamInfo<RuleCase>& rule) { return rule.param.name; }

INSTANTIATE_TEST_SUITE_P(Every, RecallRule, ::testing::ValuesIn(kRules), name_of);

TEST(Recall, AsksForEachKeyOnceAtEvenDistances) {
  const auto data = make_dataset("recall", "{length: 64, items: 8, symbols: 10}");
  for (std::int64_t i = 0; i < 100; ++i) {
    const Example one = example(*data, i);
    std::set<std::int64_t> keys, values, asked;
    for (std::size_t t = 0; t < 16; t += 2) {
      EXPECT_LT(one.tokens[t], 10);
      EXPECT_GE(one.tokens[t + 1], 10);
      EXPECT_LT(one.tokens[t + 1], 20);
      keys.insert(one.tokens[t]);
      values.insert(one.tokens[t + 1]);
    }
    for (std::size_t t = 16; t < 64; ++t) {
      if (one.targets[t] < 0) continue;
      EXPECT_EQ(t % 2, 0U);
      asked.insert(one.tokens[t]);
    }
    EXPECT_EQ(keys.size(), 8U);
    EXPECT_EQ(values.size(), 8U);
    EXPECT_EQ(asked, keys);
  }
}

/// The share of examples whose one query stands at each place, by half its distance to the pair.
std::vector<double> gaps(const std::string& power) {
  const auto data = make_dataset("recall", "{items: 1, power: " + power + "}");
  std::vector<double> shares(31);
  for (std::int64_t i = 0; i < 1000; ++i) {
    for (const Split split : {Split::train, Split::test}) {
      const Numbers targets = example(*data, i, split).targets;
      std::size_t query = 0;
      while (targets[query] < 0) ++query;
      shares.at((query - 2) / 2) += 1.0 / 2000;
    }
  }
  return shares;
}

TEST(Recall, DrawsDistancesByAPowerLaw) {
  const std::vector<double> near = gaps("0.01"), uniform = gaps("1");
  double sum = 0;
  for (int gap = 1; gap <= 31; ++gap) sum += std::pow(gap, -0.99);
  EXPECT_NEAR(near[0], 1 / sum, 0.04);  // 0.245, four deviations
  EXPECT_NEAR(near[4], std::pow(5, -0.99) / sum, 0.02);
  for (const double share : uniform) EXPECT_NEAR(share, 1.0 / 31, 0.017);
}

TEST(Recall, CopiesFromPlacesThatAreUniform) {
  const auto data = make_dataset("recall", "{rule: copy, length: 24, items: 4, symbols: 3}");
  std::vector<int> at(20);
  std::map<std::int64_t, int> symbols;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const Numbers tokens = example(*data, i).tokens;
    for (std::size_t t = 0; t < 20; ++t) {
      at[t] += tokens[t] < 3;
      ++symbols[tokens[t]];
    }
    for (std::size_t t = 20; t < 24; ++t) EXPECT_EQ(tokens[t], 4) << "a mark";
  }
  for (const int count : at) EXPECT_NEAR(count / 1000.0, 0.2, 0.055);
  EXPECT_EQ(symbols[3], 16000) << "blanks";
  for (const std::int64_t symbol : {0, 1, 2}) EXPECT_NEAR(symbols[symbol] / 4000.0, 1 / 3., 0.03);
}

TEST(Recall, WritesFirstAndReadsLastAndIgnoresAsOftenAsAsked) {
  for (const double ignore : {0.8, 0.98, 0.0, 1.0}) {
    const auto data =
        make_dataset("recall", "{rule: flip_flop, ignore: " + std::to_string(ignore) + "}");
    std::map<std::int64_t, double> inner;
    double ones = 0;
    for (std::int64_t i = 0; i < 400; ++i) {
      const Example one = example(*data, i);
      const Numbers& tokens = one.tokens;
      EXPECT_EQ(tokens.front(), 2);
      EXPECT_EQ(tokens[62], 3);
      for (std::size_t t = 2; t < 62; t += 2) inner[tokens[t]] += 1.0 / (400 * 30);
      for (std::size_t t = 1; t < 64; t += 2) {
        ASSERT_LE(tokens[t], 1);
        ones += double(tokens[t]) / (400 * 32);
        if (tokens[t - 1] == 3) {
          EXPECT_EQ(tokens[t], one.targets[t - 1]);
        }
      }
    }
    EXPECT_NEAR(inner[4], ignore, 0.015);
    EXPECT_NEAR(inner[2], (1 - ignore) / 2, 0.015);
    EXPECT_NEAR(inner[3], (1 - ignore) / 2, 0.015);
    EXPECT_NEAR(ones, 0.5, 0.05);
  }
}

TEST(Recall, DrawsAllPermutationsAlike) {
  const auto data = make_dataset("recall", "{rule: permutations, length: 100}");
  EXPECT_EQ(data->info().vocabulary, 120);
  std::map<std::int64_t, int> moves, states;
  for (std::int64_t i = 0; i < 240; ++i) {
    const Example one = example(*data, i);
    for (const std::int64_t token : one.tokens) ++moves[token];
    for (const std::int64_t target : one.targets) ++states[target];
  }
  EXPECT_EQ(moves.size(), 120U);
  for (const auto& [move, count] : moves) EXPECT_NEAR(count, 200, 75) << move;
  for (const auto& [state, count] : states) EXPECT_NEAR(count, 200, 75) << state;
}

TEST(Recall, HidesNeedlesAtEveryDepth) {
  const auto data = make_dataset("recall", "{rule: needle, length: 42, items: 2, symbols: 6}");
  std::vector<int> quarter(4);
  for (std::int64_t i = 0; i < 1000; ++i) {
    const Numbers tokens = example(*data, i).tokens;
    EXPECT_EQ(std::count_if(tokens.begin(), tokens.end(), [](auto t) { return t < 6; }), 3);
    EXPECT_EQ(std::count_if(tokens.begin(), tokens.end(), [](auto t) { return t >= 12; }), 37);
    const auto place = std::find(tokens.begin(), tokens.end(), tokens.back()) - tokens.begin();
    ++quarter.at(static_cast<std::size_t>(place * 4 / 40));
  }
  for (const int count : quarter) EXPECT_NEAR(count, 250, 60);
}

// Computed from the rule with another program.
TEST(Recall, IsTheSameOnEveryMachine) {
  const auto first = [](const std::string& options, std::int64_t index, Split split) {
    return example(*make_dataset("recall", options, 5), index, split);
  };
  const std::string small = "{length: 16, items: 3, symbols: 5}";
  EXPECT_EQ(first(small, 0, Split::train).tokens,
            (Numbers{0, 6, 4, 9, 2, 5, 0, 10, 4, 10, 10, 10, 10, 10, 2, 10}));
  EXPECT_EQ(first(small, 7, Split::test).tokens,
            (Numbers{2, 5, 1, 9, 3, 6, 2, 10, 1, 10, 10, 10, 3, 10, 10, 10}));
  EXPECT_EQ(first("{rule: copy, length: 12, items: 4, symbols: 6}", 0, Split::train).tokens,
            (Numbers{4, 4, 6, 6, 6, 5, 3, 6, 7, 7, 7, 7}));
  EXPECT_EQ(first("{rule: flip_flop, length: 16, ignore: 0.5}", 0, Split::train).tokens,
            (Numbers{2, 0, 4, 1, 3, 0, 4, 0, 3, 0, 3, 0, 2, 1, 3, 1}));
  EXPECT_EQ(first("{rule: permutations, length: 8}", 0, Split::train).targets,
            (Numbers{49, 93, 114, 54, 67, 45, 47, 97}));
  EXPECT_EQ(first("{rule: needle, length: 12, items: 2, symbols: 4}", 0, Split::train).tokens,
            (Numbers{9, 3, 4, 11, 9, 11, 10, 2, 5, 10, 11, 2}));
}

TEST(Recall, HasOneVocabularyAtEveryLength) {
  const std::map<std::string, std::int64_t> expected = {
      {"associative", 129}, {"copy", 66}, {"flip_flop", 5}, {"permutations", 120}, {"needle", 192}};
  for (const auto& [rule, vocabulary] : expected) {
    std::set<std::string> fingerprints;
    for (const std::string length : {"64", "128", "1024"}) {
      const auto data = make_dataset("recall", "{rule: " + rule + ", length: " + length + "}");
      EXPECT_EQ(data->info().vocabulary, vocabulary) << rule;
      EXPECT_EQ(data->info().field("tokens").shape, Numbers{std::stoi(length)});
      EXPECT_EQ(data->cost(Split::train, 0), std::stoi(length));
      fingerprints.insert(data->info().fingerprint);
    }
    EXPECT_EQ(fingerprints.size(), 3U) << rule;
  }
}

TEST(Recall, ShowsNoTrainingExampleAgain) {
  const auto data = make_dataset("recall", "{train: 400, validation: 400, test: 400}");
  std::set<Numbers> seen;
  for (std::int64_t i = 0; i < 400; ++i) {
    for (const Split split : {Split::train, Split::validation, Split::test}) {
      EXPECT_TRUE(seen.insert(example(*data, i, split).tokens).second) << i;
    }
  }
}

TEST(Recall, RefusesWhatDoesNotFit) {
  const auto message = [](const std::string& options) {
    return message_of<ConfigError>([&] { make_dataset("recall", options); });
  };
  EXPECT_THAT(message("{length: 31}"),
              mentions("length:", "31 is too short", "associative", "8 items", "32 tokens"));
  EXPECT_THAT(message("{rule: copy, length: 15}"), HasSubstr("copy of 8 items takes 16 tokens"));
  EXPECT_THAT(message("{rule: needle, length: 16}"), HasSubstr("needle of 8 items takes 17"));
  EXPECT_THAT(message("{rule: flip_flop, length: 2}"),
              mentions("length:", "2 is too short", "flip_flop", "4 tokens"));
  EXPECT_THAT(message("{rule: flip_flop, length: 65}"),
              mentions("length:", "65 is odd", "flip_flop"));
  for (const std::string rule : {"associative", "needle"}) {
    EXPECT_THAT(message("{symbols: 7, rule: " + rule + "}"),
                mentions("symbols:", "7 are too few", "8 items"));
  }
  EXPECT_THAT(message("{rule: parity}"), HasSubstr("rule"));
  EXPECT_THAT(message("{ignore: 1.1}"), HasSubstr("ignore: 1.1 is out of range"));
  EXPECT_THAT(message("{elements: 7}"), HasSubstr("elements: 7 is out of range"));
}

// --- The language task's answers, by which recall is judged. ---

std::shared_ptr<Task> judge(const std::string& options) {
  return testing::make_task("language_modelling", make_dataset("recall")->info(), options);
}

Batch asked(const Tensor& targets) { return {{{"targets", targets}}, targets.size(0)}; }

NamedTensors answered(const Tensor& answers) {
  return {{"nll", at::ones(answers.sizes())}, {"answers", answers}};
}

/// Five targets in three lines; one line has none.
const Tensor kTargets =
    at::tensor({7, -1, 3, -1, 4, 2, -1, -1, -1, 5, -1, -1}, at::kLong).view({4, 3});

TEST(LanguageAnswers, CountWhatIsAskedAndLinesThatAreAllRight) {
  const auto task = judge("{answers: true}");
  std::vector<std::string> names;
  for (const MetricInfo& info : task->metrics()) names.push_back(info.name);
  EXPECT_EQ(names, (std::vector<std::string>{"accuracy", "exact", "perplexity", "nll"}));
  EXPECT_EQ(task->metrics().front().better, Better::higher);
  const Tensor answers = kTargets.clone();
  answers[1][2] = 1;  // one of two in the second line
  answers[0][1] = 6;  // where nothing is asked
  const auto meter = task->meter();
  meter->add(answered(answers), asked(kTargets));
  EXPECT_DOUBLE_EQ(meter->result().at("accuracy"), 4 / 5.0);
  EXPECT_DOUBLE_EQ(meter->result().at("exact"), 2 / 3.0);
  meter->add(answered(kTargets), asked(kTargets));
  EXPECT_DOUBLE_EQ(meter->result().at("accuracy"), 9 / 10.0);
  EXPECT_DOUBLE_EQ(meter->result().at("exact"), 5 / 6.0);
}

TEST(LanguageAnswers, AreNotAskedForUnlessSaid) {
  const auto meter = judge("{}")->meter();
  meter->add({{"nll", at::ones({4, 3})}}, asked(kTargets));
  EXPECT_EQ(meter->result().count("accuracy"), 0U);
}

TEST(LanguageAnswers, MustBeTokensOfEachTarget) {
  const auto task = judge("{answers: true}");
  EXPECT_THAT(message_of<ShapeError>([&] {
                task->meter()->add({{"nll", at::ones({4, 3})}, {"answers", at::ones({4, 3})}},
                                   asked(kTargets));
              }),
              mentions("answers:", "[4, 3] int64"));
  const auto data = make_dataset("recall");
  const Part part = testing::make_part(Kind::task, "language_modelling", "{answers: true}");
  const FieldInfo nll = {"nll", {-1}, at::kFloat};
  EXPECT_THAT(message_of<ConfigError>([&] {
                testing::registry().task(part, {data->info(), {nll}});
              }),
              mentions("answers:", "model.answers: true"));
  EXPECT_NE(testing::registry().task(part, {data->info(), {nll, {"answers", {-1}, at::kLong}}}),
            nullptr);
}

}  // namespace
}  // namespace attnlab::recall_test
