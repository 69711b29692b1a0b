// Synthetic text: a chain over made-up words that one can predict.
#include <map>
#include <set>

#include "tests/plugins/language/text_streams.h"

namespace attnlab::synthetic_text_test {
namespace {

using testing::list_of;
using testing::make_dataset;

TEST(SyntheticText, KeepsTheContract) {
  testing::expect_contract_kept("synthetic_text", "{train: 2000, validation: 300, test: 500}");
  EXPECT_THROW(make_dataset("synthetic_text", "{test: 9223372036854775807}"), ConfigError);
}

TEST(SyntheticText, IsAChainOfWordsThatHelpsToPredict) {
  const auto dataset = make_dataset("synthetic_text", "{train: 20000, words: 8, window: 1000}");
  std::string text;
  std::int64_t before = -1;
  for (std::int64_t p = 0; p + 1000 <= 20000; p += 1000) {
    for (const std::int64_t token :
         list_of(dataset->example(Split::train, p, nullptr).at("tokens"))) {
      text += dataset->codec()->decode(token, before);
      before = token;
    }
  }
  std::map<std::string, std::set<std::string>> followers;
  std::string last, word;
  for (const char c : text.substr(text.find('\n') + 1)) {
    ASSERT_TRUE(c == ' ' || c == '\n' || (c >= 'a' && c <= 'z'));
    if (c >= 'a') {
      word += c;
      continue;
    }
    if (!last.empty()) followers[last].insert(word);
    last = word;
    word.clear();
  }
  EXPECT_LE(followers.size(), 8U);
  for (const auto& [from, to] : followers) EXPECT_LE(to.size(), 4U) << from;
}

}  // namespace
}  // namespace attnlab::synthetic_text_test
