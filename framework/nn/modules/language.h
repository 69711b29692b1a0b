// What language models share: the fields that they read, and keys that they keep while they write.
//
//   tokens        [B, L] int64
//   targets       [B, L] int64, what each token is to be followed by; negative: not counted. A
//                 batch without targets asks for what follows its last tokens: `logits`, not `nll`.
//   tokens_valid  [B, L] bool, false = padding, which stands at the end; absent: there is none
#pragma once

#include "framework/contracts/model.h"
#include "framework/nn/modules/multi_head_attention.h"

namespace attnlab {

/// What a model reads of a batch of text.
struct TokenBatch {
  Tensor tokens;   ///< [B, L]
  Tensor targets;  ///< [B, L], negative for padding, too; undefined: what follows is asked for
  Tensor valid;    ///< [B, L] bool; undefined: all are real

  /// @throws ShapeError for fields of other shapes, or padding where what follows is asked for.
  explicit TokenBatch(const Batch& batch);

  std::int64_t length() const { return tokens.size(1); }
};

/// What the options of every language model say.
struct LanguageSizes {
  std::int64_t dim = 0, depth = 0, heads = 0;
  bool sinusoids = false;  ///< positions are sinusoids, which are pairs of channels
  std::vector<std::int64_t> cutoffs{};
};

/// @param presets  from which sizes that are 0 can be taken, for the message: "small or medium"
/// @throws OptionError for a size of 0, heads that do not divide dim, and cutoffs that do not rise.
void check_sizes(const LanguageSizes& sizes, const std::string& presets);

/// The length of a dataset's lines; -1: they differ.
/// @throws DataError where it states no vocabulary, or its tokens are not a sequence.
std::int64_t window_of(const DatasetInfo& data);

/// That padding can be hidden where the data mark it. @throws TraitError.
void check_padding(const DatasetInfo& data, const Attention& attention);

/// The caches of all layers, as `ForwardPass::carried` holds them.
std::vector<KeyCache> read_caches(const NamedTensors& carried, std::int64_t layers);
/// @param most  tokens to keep of each cache, the last ones; 0: all
void write_caches(const std::vector<KeyCache>& caches, std::int64_t most, NamedTensors& carried);

/// Tells attentions that reason about places where tokens stand: `count` of them, behind `before`
/// others that are keys alone. Without others they stand at 0, 1, 2, ..., which need not be said.
void set_places(std::int64_t before, std::int64_t count, AttentionExtras& extras);

/// The last n rows along a dimension, or all.
Tensor last_of(const Tensor& x, std::int64_t dim, std::int64_t n);

}  // namespace attnlab
