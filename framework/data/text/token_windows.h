// Tokens as examples: windows of a stream, or lines. What datasets of text derive from.
//
//   example p   tokens  x[p], ..., x[p + L - 1]
//               targets x[p + 1], ..., x[p + L];  -1: no target
//
// An index is a position in the split's tokens x, and plans choose positions:
//
//   order: stream   windows p = 0, L, 2L, ... in rows: row i of a batch goes on in row i of the
//   next
//                   one (`continues`). Each token but the first is a target once per epoch,
//                   whatever the batch size; published code drops what does not fill the rows.
//   order: random   training: as many windows as the stream has, beginning anywhere (nanoGPT)
//   stride: s       evaluation: windows p = 0, s, 2s, ...; the first one's targets all count, of
//                   each later one the last s, which have a context of at least L - s tokens
//   lines: true     an example is a line with what ends it, behind the token that ended the line
//                   before: nothing of other lines is seen. Lines above L tokens are cut into
//                   examples. Padded within a batch; the mask is `tokens_valid`.
#pragma once

#include "framework/config/options.h"
#include "framework/data/text/encoded_text.h"

namespace attnlab {

struct WindowOptions {
  std::int64_t window = 64;
  std::string order = "stream";
  std::int64_t stride = 0;
  std::int64_t eval_rows = 0;
  bool lines = false;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("window", window, range(1, 1 << 24), "tokens per example; longer lines are split into parts");
    v("order", order, one_of("stream", "random"),
      "windows in order, each batch continuing the one before; or training windows from random "
      "places");
    v("stride", stride, at_least(0),
      "in evaluation: tokens from one window to the next; the last tokens of each window count; at "
      "most the window; 0: windows do not overlap");
    v("eval_rows", eval_rows, range(0, 1e9),
      "for models with memory: rows that the evaluation text is cut into; each row begins with an "
      "empty memory; 0: train.eval_batch_size");
    v("lines", lines, "each line is one example");
  }
};

class TokenWindows : public Dataset {
 public:
  const DatasetInfo& info() const override { return info_; }
  std::int64_t size(Split split) const override;
  Batch collate(const std::vector<NamedTensors>& examples) const override;
  EpochPlan plan(const PlanRequest& request) const override;
  /// Tokens.
  std::int64_t cost(Split split, std::int64_t index) const override;
  const TextCodec* codec() const override { return &vocabulary_; }

 protected:
  /// @throws OptionError for options that contradict, DataError for a split without a target.
  TokenWindows(const WindowOptions& options, Vocabulary vocabulary,
               const std::array<TokenSpan, 3>& splits);

  NamedTensors make_example(Split split, std::int64_t index, Random* augmentation) const override;

  DatasetInfo info_;  ///< the constructor leaves name, source and fingerprint to the dataset

 private:
  const TokenSpan& tokens(Split split) const { return splits_[static_cast<std::size_t>(split)]; }
  /// The first target of an example of lines, and how many it has.
  std::pair<std::int64_t, std::int64_t> part_of_line(Split split, std::int64_t index) const;
  std::int64_t rows_within(const PlanRequest& request) const;
  EpochPlan stream(Split split, std::int64_t rows, std::int64_t repeat) const;
  EpochPlan random(const PlanRequest& request) const;
  EpochPlan sliding(const PlanRequest& request) const;

  WindowOptions options_;
  Vocabulary vocabulary_;
  std::array<TokenSpan, 3> splits_;
  /// With `lines`: where each example's targets begin, and the end of the last one's.
  std::array<std::vector<std::int64_t>, 3> parts_;
};

}  // namespace attnlab
