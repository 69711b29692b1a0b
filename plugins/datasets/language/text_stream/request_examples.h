// Requests to a language model as examples: how likely is this continuation behind this context?
//
//   example   tokens   all of context and continuation but the last
//             targets  what follows each of them within the continuation, -1 within the context
//             choice   [5] int64: number of the question, of the choice, how many there are, which
//                      is right, characters of this one; not of lambada
//             cut      int64: tokens that were left out at the context's beginning, as the window
//                      is too short
//
// The continuation's tokens are those of the whole behind as many as the context alone has. An
// empty context is the token that ends a text: `<|endoftext|>` of byte pairs, else a line's end.
// Source: EleutherAI/lm-evaluation-harness, 0.4, lm_eval/models/huggingface.py.
#pragma once

#include "framework/contracts/dataset.h"
#include "framework/data/text/vocabulary.h"
#include "plugins/datasets/language/text_stream/questions.h"

namespace attnlab {

/// The test split alone; an example is one choice of a question, in the file's order.
class RequestExamples final : public Dataset {
 public:
  /// @param window  tokens of an example at most
  /// @param key     of all that the vocabulary depends on
  /// @throws DataError for a continuation that is longer than the window, naming its line
  RequestExamples(const QuestionOptions& options, std::int64_t window, Vocabulary vocabulary,
                  std::uint64_t key);

  const DatasetInfo& info() const override { return info_; }
  std::int64_t size(Split split) const override {
    return split == Split::test ? static_cast<std::int64_t>(requests_.size()) : 0;
  }
  Batch collate(const std::vector<NamedTensors>& examples) const override;
  std::int64_t cost(Split, std::int64_t index) const override {
    return static_cast<std::int64_t>(requests_[std::size_t(index)].tokens.size()) - 1;
  }
  const TextCodec* codec() const override { return &vocabulary_; }

 protected:
  NamedTensors make_example(Split split, std::int64_t index, Random* augmentation) const override;

 private:
  struct Request {
    std::vector<std::int64_t> tokens;  ///< of context and continuation
    std::int64_t targets = 0;          ///< tokens of the continuation
    std::int64_t cut = 0;
    std::vector<std::int64_t> choice;
  };

  void add(const Question& question, std::int64_t number, std::int64_t window);
  std::vector<std::int64_t> tokens_of(const Question& question, const std::string& text) const;
  /// What stands before a text that begins with nothing. @throws DataError where there is no token.
  std::int64_t beginning(const std::string& place) const;

  Vocabulary vocabulary_;
  std::vector<Request> requests_;
  bool choices_;
  DatasetInfo info_;
};

}  // namespace attnlab
