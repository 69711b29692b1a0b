// Sizes of a Transformer-XL, and what its sources leave open.
#pragma once

#include "framework/plugin.h"

namespace attnlab {

struct TransformerXlOptions {
  std::string preset;
  std::int64_t dim = 0, depth = 0, heads = 0, hidden = 0;
  std::int64_t memory = -1, clamp_length = 0;
  bool same_length = false;
  std::string positions = "relative", biases = "shared", position_term = "mapped", norm = "last",
              softmax = "adaptive";
  std::string mlp = "plain", norm_kind = "layer";
  std::int64_t swiglu_multiple = 256;
  std::vector<std::int64_t> cutoffs = {20000, 40000, 200000};
  double dropout = 0, attention_dropout = 0;

  bool relative() const { return positions == "relative"; }
  bool swiglu() const { return mlp == "swiglu"; }

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("preset", preset,
      "a published model: 151M parameters on WikiText-103; options below override them");
    v("dim", dim, range(0, 1 << 24), "channels of a token; 0: the preset's");
    v("depth", depth, range(0, 10000), "number of layers; 0: the preset's");
    v("heads", heads, at_least(0), "attention heads, a divisor of dim; 0: the preset's");
    v("hidden", hidden, at_least(0), "hidden channels of the MLP; 0: the preset's, or 4 dim");
    v("memory", memory, range(-1, 1e9),
      "earlier tokens that a batch still sees, if batches continue each other; 0: none; -1: the "
      "length of the dataset's windows");
    v("clamp_length", clamp_length, at_least(0), "larger distances count as this one; 0: no limit");
    v("same_length", same_length,
      "every token sees exactly as many tokens as the memory has, including itself");
    v("positions", positions, one_of("none", "relative"),
      "none: only attention.positions, which also cover the memory");
    v("biases", biases, one_of("shared", "layer", "none"),
      "u and w: shared by all layers, separate in each layer, or none");
    v("position_term", position_term, one_of("mapped", "plain"),
      "mapped: the attention treats positions as keys (QUEST normalises both, and drops the "
      "scale); plain: positions add the bias (q + w) . r / sqrt(D) to any attention's logits");
    v("norm", norm, one_of("last", "first"),
      "norm after each branch (post-norm, published) or before it (pre-norm)");
    v("norm_kind", norm_kind, one_of("layer", "rms"), "kind of norm");
    v("mlp", mlp, one_of("plain", "swiglu"),
      "plain: two maps with ReLU; swiglu: silu(W_1 x) * W_2 x in place of the first map");
    v("swiglu_multiple", swiglu_multiple, at_least(0),
      "for swiglu: two thirds of `hidden`, rounded up to a multiple of this, so that the number of "
      "parameters stays (256: LLaMA's code); 0: `hidden` itself");
    v("softmax", softmax, one_of("adaptive", "plain"), "softmax over the next token");
    v("cutoffs", cutoffs, at_least(1),
      "where an adaptive softmax cuts the vocabulary, which is sorted by frequency");
    v("dropout", dropout, range(0, 0.99),
      "after the embedding, of the positions, after the attention and in the MLP");
    v("attention_dropout", attention_dropout, range(0, 0.99), "dropout of attention weights");
  }
};

/// The options with `hidden: 0` and `memory: -1` replaced by what they stand for.
/// @param window  tokens of the dataset's examples; -1: they differ
/// @throws OptionError.
TransformerXlOptions resolve(TransformerXlOptions options, std::int64_t window);

}  // namespace attnlab
