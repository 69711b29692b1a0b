// Vocabularies: text to tokens and back, by word, by character, by byte or by byte pairs.
//
//   word       what stands between white space (as Python's str.split sees it); `<eos>` ends each
//              line. Token 0 is `<eos>`, then the words of the training text, the most frequent
//              first and equally frequent ones as they first stand there: the vocabulary of
//              Transformer-XL's code. `<unk>` is a word like any other where the text has it, as
//              WikiText does; else it comes last.
//   character  Unicode's code points, sorted; `<unk>` comes last where rare ones are left out
//   byte       0 to 255
//   byte_pair  those of a published model's files, GPT-2's for one (byte_pairs.h)
//
// Source: kimiyoung/transformer-xl, 44781ed2, vocabulary of WikiText-103; karpathy/nanoGPT,
// tokens of Shakespeare by character. Cost: one pass over the text for each call, some hundred
// MB/s.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/contracts/dataset.h"
#include "framework/data/text/text.h"

namespace attnlab {

/// How text becomes tokens, beside the unit.
struct VocabularyRules {
  std::int64_t min_count = 1;  ///< what stands in the training text less often is `<unk>`
  std::int64_t max_size = 0;   ///< entries that are kept, the most frequent; 0: all
  bool split_marks = false;    ///< by word: . , ; : ! ? " ( ) [ ] are words of their own
};

class Vocabulary final : public TextCodec {
 public:
  static constexpr std::string_view kLineEnd = "<eos>", kUnknown = "<unk>";
  /// Takes tokens as they come, some thousand at a time.
  using Take = std::function<void(const std::int32_t* tokens, std::size_t count)>;

  /// @throws DataError for text that is not UTF-8 (but by byte), with file and line.
  static Vocabulary learn(const Text& train, TextUnit unit, const VocabularyRules& rules);
  /// One entry a line, by word. @throws DataError where one stands twice, or `<eos>` or `<unk>`
  /// does not stand there.
  static Vocabulary read(const std::string& path, bool split_marks);
  /// @param files  of `byte_pair_files`
  /// @throws DataError, with file and line, for files that are damaged or of two models
  static Vocabulary byte_pairs(const std::vector<std::string>& files);
  /// @param entries  what each token stands for
  Vocabulary(TextUnit unit, std::vector<std::string> entries, bool split_marks);

  std::int64_t size() const { return static_cast<std::int64_t>(entries_.size()); }
  const std::vector<std::string>& entries() const { return entries_; }
  /// The token that ends a line; -1 where nothing does, as of byte pairs, which span line ends.
  std::int64_t line_end() const { return line_end_; }

  /// A corpus's text; by word a line's end follows the last line, too.
  /// @throws DataError for a character that the vocabulary lacks, or that is not UTF-8
  void encode(const Text& text, const Take& take) const;

  std::vector<std::int64_t> encode(std::string_view text) const override;
  std::string decode(std::int64_t token, std::int64_t before) const override;

 private:
  class Index;
  Vocabulary(std::vector<std::string> entries, std::shared_ptr<const Index> byte_pairs);
  void encode(const TextPiece& piece, bool ends_line, const Take& take) const;

  TextUnit unit_;
  bool split_marks_;
  std::vector<std::string> entries_;
  std::shared_ptr<const Index> index_;
  std::int64_t line_end_ = -1, unknown_ = -1;
};

/// The files of a byte-pair tokeniser.
/// @param tokenizer  a folder with vocab.json and merges.txt, or else with tokenizer.json; or that
///                   file
/// @throws DataMissingError naming what is looked for.
std::vector<std::string> byte_pair_files(const std::string& tokenizer);

}  // namespace attnlab
