// Synthetic text: sentences of a Markov chain over made-up words, by character. Enough to see a
// language model learn on a machine without data; never evidence about attention.
//
//   words     `words` of them, 2 to 6 letters each, letters uniform
//   sentence  6 to 12 words, one a blank, and a line's end; after each word one of 4 words follows,
//             drawn once for all splits, each with probability 1/4
//
// So a model that knows the words cannot get below about log 4 nats a word. The alphabet is the
// blank, the line's end and a to z.
#include "framework/base/files.h"
#include "framework/data/made_up.h"
#include "framework/data/text/token_windows.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

constexpr std::int64_t kFollowers = 4;

struct SyntheticTextOptions : MadeUpOptions, WindowOptions {
  std::int64_t words = 32;

  constexpr SyntheticTextOptions() {
    train = 40000;
    validation = test = 4000;
    window = 32;
  }

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("words", words, range(1, 100000), "number of different words");
    v("train", train, range(2, 1e9), "characters of the training text");
    v("validation", validation, range(0, 1e9), "characters of the validation text");
    v("test", test, range(0, 1e9), "characters of the test text");
    v("data_seed", data_seed, at_least(-1),
      "seed of the data, independent of the run's seed; -1: the run's seed");
    WindowOptions::describe(v);
  }
};

struct Word {
  std::string letters;
  std::array<std::size_t, kFollowers> followers;
};

std::vector<Word> made_words(std::int64_t count, Random random) {
  std::vector<Word> words(static_cast<std::size_t>(count));
  for (Word& word : words) {
    for (std::int64_t left = 2 + random.below(5); left > 0; --left) {
      word.letters += static_cast<char>('a' + random.below(26));
    }
    for (std::size_t& next : word.followers) next = static_cast<std::size_t>(random.below(count));
  }
  return words;
}

std::string made_text(const std::vector<Word>& words, std::int64_t characters, Random random) {
  std::string text;
  std::size_t word = 0;
  while (std::ssize(text) < characters) {
    for (std::int64_t left = 6 + random.below(7); left > 0; --left) {
      word = words[word].followers[static_cast<std::size_t>(random.below(kFollowers))];
      text += words[word].letters + (left > 1 ? " " : "\n");
    }
  }
  text.resize(static_cast<std::size_t>(characters));
  return text;
}

Vocabulary alphabet() {
  std::vector<std::string> characters = {"\n", " "};
  for (char c = 'a'; c <= 'z'; ++c) characters.emplace_back(1, c);
  return {TextUnit::character, std::move(characters), false};
}

std::array<TokenSpan, 3> made_splits(const SyntheticTextOptions& options,
                                     const RandomStreams& streams) {
  const std::vector<Word> words = made_words(options.words, streams.stream("synthetic", 3));
  TextSplits texts;
  const std::int64_t sizes[] = {options.train, options.validation, options.test};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (sizes[i] == 0) continue;
    texts[i] = {
        text_of("synthetic text", made_text(words, sizes[i], streams.stream("synthetic", i)))};
  }
  return encode_text(alphabet(), texts).splits;
}

class SyntheticText final : public TokenWindows {
 public:
  SyntheticText(const SyntheticTextOptions& options, const DatasetSetup& setup)
      : SyntheticText(options, options.data_seed < 0
                                   ? setup.streams
                                   : RandomStreams(static_cast<std::uint64_t>(options.data_seed))) {
  }

 private:
  SyntheticText(const SyntheticTextOptions& options, const RandomStreams& streams)
      : TokenWindows(options, alphabet(), made_splits(options, streams)) {
    info_.name = "synthetic_text";
    info_.source = "a Markov chain over made-up words";
    info_.fingerprint =
        hex(fingerprint("synthetic_text;" + OptionText::of(options), streams.key("synthetic")));
  }
};

}  // namespace

ATTNLAB_PLUGIN(dataset, SyntheticText, SyntheticTextOptions,
               {.id = "attnlab/synthetic_text",
                .version = "1.0.0",
                .summary = "made-up sentences by character, for machines without data",
                .citation = "",
                .licence = "CC0-1.0",
                .gives = {"tokens", "targets", "tokens_valid if lines=true"}})

}  // namespace attnlab
