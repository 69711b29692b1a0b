// Text streams: plain text by word, by character, by byte or by byte pairs, as windows or lines; or
// what benchmarks ask about the ends of texts (`form`: request_examples.h).
//
//   wiki.{train,valid,test}.tokens   WikiText-2 and -103 as published; .raw too
//   {train,valid,test}.txt           WikiText by another name, multi30k, ...
//   any file or folder of text       with `split`, the shares of train, validation and test
//
// framework/data/text says what tokens (vocabulary.h), examples (token_windows.h) and swapped words
// (word_swap.h) are. Texts may be gzipped.
// Source: layouts and vocabulary as in kimiyoung/transformer-xl, 44781ed2; windows from anywhere as
// in karpathy/nanoGPT; word swap as in QUEST, section 4.4.
// Cost: texts of 16 MiB and more are encoded once, into a file of the user's cache that is mapped;
// smaller ones each time, in memory. Opening reads text and cache once, for their fingerprints.
#include <fmt/format.h>

#include <optional>

#include "framework/base/cache_folder.h"
#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/data/text/token_windows.h"
#include "framework/data/text/word_swap.h"
#include "framework/plugin.h"
#include "plugins/datasets/language/text_stream/corpus.h"
#include "plugins/datasets/language/text_stream/request_examples.h"

namespace attnlab {
namespace {

/// Bytes of text that are encoded in memory.
constexpr std::uint64_t kSmall = std::uint64_t{16} << 20;

struct TextStreamOptions : CorpusOptions, WindowOptions, QuestionOptions {
  std::string unit = "word";
  std::string vocabulary, tokenizer;
  std::int64_t min_count = 1, max_size = 0;
  bool split_marks = false;
  double word_swap = 0;
  std::string cache;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    CorpusOptions::describe(v);
    v("unit", unit, one_of("word", "character", "byte", "byte_pair"), "what a token is");
    v("vocabulary", vocabulary,
      "for unit word: file with one word per line, in the order of the token numbers; empty: words "
      "of the training text");
    v("tokenizer", tokenizer,
      "for unit byte_pair: the folder with vocab.json and merges.txt, or with tokenizer.json, of a "
      "published model; a path, or one below $ATTNLAB_DATA");
    v("min_count", min_count, at_least(1),
      "words and characters that occur less often in the training text become <unk>");
    v("max_size", max_size, at_least(0),
      "entries of the vocabulary, the most frequent ones; the others become <unk>; 0: all");
    v("split_marks", split_marks, "for unit word: . , ; : ! ? \" ( ) [ ] are words of their own");
    WindowOptions::describe(v);
    QuestionOptions::describe(v);
    v("word_swap", word_swap, range(0, 1),
      "share of the words in each validation and test line that become AAA before tokenisation; at "
      "least one per line");
    v("cache", cache,
      "not used (an option of earlier versions): a run's configuration may come from elsewhere, "
      "and must not choose where files are written; encoded texts lie in attnlab/text in "
      "$XDG_CACHE_HOME or ~/.cache");
  }
};

/// What a dataset is made of, in the order in which it is found out.
struct Parts {
  Corpus corpus;
  std::uint64_t key = 0;
  Vocabulary vocabulary;
  std::array<TokenSpan, 3> splits;
};

void check(const TextStreamOptions& options) {
  const bool by_word = options.unit == "word";
  if (!by_word && !options.vocabulary.empty()) {
    throw OptionError("vocabulary", "is for words; unit is " + options.unit);
  }
  if (!by_word && options.split_marks) {
    throw OptionError("split_marks", "is for words; unit is " + options.unit);
  }
  const bool by_pairs = options.unit == "byte_pair";
  if (by_pairs == options.tokenizer.empty()) {
    throw OptionError("tokenizer",
                      by_pairs ? "say where the files of the byte pairs are: the folder with "
                                 "vocab.json and merges.txt, or with tokenizer.json"
                               : "is for byte pairs; unit is " + options.unit);
  }
  if (by_pairs && options.lines) {
    throw OptionError("lines", "byte pairs span line ends; set lines: false, or another unit");
  }
  const bool rules = options.min_count > 1 || options.max_size > 0;
  if (rules && (by_pairs || options.unit == "byte" || !options.vocabulary.empty())) {
    throw OptionError(options.max_size > 0 ? "max_size" : "min_count",
                      options.unit == "byte" ? "every byte has a token"
                                             : "the vocabulary's file says what is in it");
  }
}

void check(const QuestionOptions& options) {
  if (!options.labels.empty() && options.form != "piqa") {
    throw OptionError("labels", "is for piqa; other forms have labels in their lines");
  }
  if (options.form.empty() == options.requests.empty()) return;
  throw OptionError(options.form.empty() ? "form" : "requests",
                    options.form.empty() ? "say which layout the requests have: lambada, "
                                           "hellaswag, piqa, arc or choices"
                                         : "say which file the questions are in");
}

/// A vocabulary, and a number of the files that it comes from.
struct StatedVocabulary {
  Vocabulary vocabulary;
  std::uint64_t key = 0;
};

/// The byte pairs; nothing for other units.
std::optional<StatedVocabulary> byte_pairs(const TextStreamOptions& options) {
  if (options.tokenizer.empty()) return std::nullopt;
  const std::vector<std::string> files =
      byte_pair_files(found_data(options.tokenizer, "tokenizer"));
  std::uint64_t key = 1;
  for (const std::string& file : files) key = text_fingerprint({open_text(file)}, key + 1);
  return StatedVocabulary{Vocabulary::byte_pairs(files), key};
}

/// Of all that tokens depend on. @param stated  of the vocabulary's files; 0: there are none
std::uint64_t key_of(const TextStreamOptions& options, const TextSplits& texts,
                     std::uint64_t stated) {
  std::string rules = fmt::format("1;{};{};{};{}", options.unit, options.min_count,
                                  options.max_size, options.split_marks ? "marks" : "");
  std::uint64_t key = stated == 0 ? fingerprint(rules) : fingerprint(rules, stated);
  if (!options.vocabulary.empty())
    key = text_fingerprint({open_text(data_path(options.vocabulary))}, key);
  for (const Text& text : texts) key = text_fingerprint(text, key + 1);
  return key;
}

/// Text as it is after words were swapped; each line draws from a stream of its own.
Text swapped_text(const Text& text, double rate, const RandomStreams& streams, Split split) {
  std::string out;
  std::uint64_t number = 0;
  for (const TextPiece& piece : text) {
    for (std::string_view rest = piece.text; !rest.empty(); ++number) {
      const std::size_t end = rest.find('\n');
      out += swapped(rest.substr(0, end), rate,
                     streams.stream("swap", static_cast<std::uint64_t>(split), number));
      if (end != std::string_view::npos || &piece != &text.back()) out += '\n';
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
  }
  return {text_of(text.front().path + ", words swapped", std::move(out))};
}

Parts parts_of(const TextStreamOptions& options, const DatasetSetup& setup) {
  const TextUnit unit = text_unit(options.unit);
  Corpus corpus = open_corpus(options, unit);
  const TextSplits& texts = corpus.texts;
  const std::optional<StatedVocabulary> pairs = byte_pairs(options);
  const std::uint64_t key = key_of(options, texts, pairs ? pairs->key : 0);
  const auto vocabulary = [&] {
    if (pairs) return pairs->vocabulary;
    return options.vocabulary.empty()
               ? Vocabulary::learn(texts[0], unit,
                                   {options.min_count, options.max_size, options.split_marks})
               : Vocabulary::read(data_path(options.vocabulary), options.split_marks);
  };
  std::uint64_t bytes = 0;
  for (const Text& text : texts) bytes += size_of(text);
  const std::string cache = cache_folder();
  const bool caches = bytes >= kSmall && !cache.empty();
  EncodedText encoded = caches ? encode_text(cache + "/text/" + hex(key), key, texts, vocabulary)
                               : encode_text(vocabulary(), texts);
  Parts parts{
      std::move(corpus), key,
      pairs ? pairs->vocabulary : Vocabulary(unit, std::move(encoded.entries), options.split_marks),
      encoded.splits};
  if (options.word_swap == 0) return parts;
  for (const Split split : {Split::validation, Split::test}) {
    const Text& text = parts.corpus.texts[static_cast<std::size_t>(split)];
    if (text.empty()) continue;
    const Text changed = swapped_text(text, options.word_swap, setup.streams, split);
    parts.splits[static_cast<std::size_t>(split)] =
        encode_text(parts.vocabulary, {changed}).splits[0];
    parts.key = text_fingerprint(changed, parts.key);
  }
  return parts;
}

class TextWindows final : public TokenWindows {
 public:
  TextWindows(const TextStreamOptions& options, Parts parts)
      : TokenWindows(options, std::move(parts.vocabulary), parts.splits) {
    info_.name = parts.corpus.name;
    info_.source = parts.corpus.source;
    if (!parts.corpus.left_out.empty()) info_.source += " without " + parts.corpus.left_out;
    info_.fingerprint = hex(parts.key);
  }
};

/// The questions of a file, in the tokens of the text; byte pairs need none.
std::unique_ptr<Dataset> requests_of(TextStreamOptions options, const DatasetSetup& setup) {
  if (auto pairs = byte_pairs(options)) {
    return std::make_unique<RequestExamples>(options, options.window, std::move(pairs->vocabulary),
                                             pairs->key);
  }
  options.word_swap = 0;
  Parts parts = parts_of(options, setup);
  return std::make_unique<RequestExamples>(options, options.window, std::move(parts.vocabulary),
                                           parts.key);
}

class TextStream final : public Dataset {
 public:
  TextStream(const TextStreamOptions& options, const DatasetSetup& setup) {
    check(options);
    check(static_cast<const QuestionOptions&>(options));
    if (options.form.empty()) {
      examples_ = std::make_unique<TextWindows>(options, parts_of(options, setup));
    } else {
      examples_ = requests_of(options, setup);
    }
  }

  const DatasetInfo& info() const override { return examples_->info(); }
  std::int64_t size(Split split) const override { return examples_->size(split); }
  Batch collate(const std::vector<NamedTensors>& examples) const override {
    return examples_->collate(examples);
  }
  EpochPlan plan(const PlanRequest& request) const override { return examples_->plan(request); }
  std::int64_t cost(Split split, std::int64_t index) const override {
    return examples_->cost(split, index);
  }
  const TextCodec* codec() const override { return examples_->codec(); }

 protected:
  NamedTensors make_example(Split split, std::int64_t index, Random* augmentation) const override {
    return examples_->example(split, index, augmentation);
  }

 private:
  std::unique_ptr<Dataset> examples_;
};

}  // namespace

ATTNLAB_PLUGIN(dataset, TextStream, TextStreamOptions,
               {.id = "attnlab/text_stream",
                .version = "1.0.0",
                .summary = "plain text by word, character, byte or byte pair: WikiText, enwik8, "
                           "any file; LAMBADA's and other questions",
                .citation = "WikiText: Merity et al., Pointer sentinel mixture models, 2016, "
                            "arXiv:1609.07843",
                .licence = "as each text's; WikiText is CC BY-SA",
                .gives = {"tokens", "targets", "tokens_valid if lines=true", "tokens_valid?",
                          "cut?", "choice?"}})

}  // namespace attnlab
