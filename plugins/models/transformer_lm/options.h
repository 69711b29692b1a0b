// Sizes and style of a language model of fixed context.
#pragma once

#include "framework/nn/modules/layers.h"
#include "framework/plugin.h"

namespace attnlab {

struct TransformerLmOptions {
  std::string preset, style;
  std::int64_t dim = 0, depth = 0, heads = 0, hidden = 0, context = 0;
  std::string activation, positions, biases, softmax;
  std::string mlp = "plain", norm = "layer";
  std::int64_t swiglu_multiple = 256;
  std::vector<std::int64_t> cutoffs = {20000, 40000, 200000};
  double initial_std = 0.02, dropout = 0, attention_dropout = 0;
  bool answers = false;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("preset", preset,
      "a published model: 44M and 90M parameters on WikiText-103, nanoGPT's on characters; options "
      "below override them");
    v("style", style, one_of("", "gpt2", "transformer_xl"),
      "gpt2: pre-norm and a final norm, GELU, learned positions; transformer_xl: post-norm, ReLU, "
      "tokens times sqrt(dim), reversed sinusoids; empty: the preset's, or gpt2");
    v("dim", dim, range(0, 1 << 24), "channels of a token; 0: the preset's");
    v("depth", depth, range(0, 10000), "number of layers; 0: the preset's");
    v("heads", heads, at_least(0), "attention heads, a divisor of dim; 0: the preset's");
    v("hidden", hidden, at_least(0), "hidden channels of the MLP; 0: the preset's, or 4 dim");
    v("context", context, at_least(0),
      "number of positions; 0: the length of the dataset's windows");
    v("positions", positions, one_of("", "none", "learned", "sinusoidal", "reversed", "relative"),
      "reversed: sinusoids that count down to 0 at the context's end (published); relative: "
      "Transformer-XL's, separate in each layer; empty: the style's");
    v("activation", activation, one_of("", "gelu", "gelu_tanh", "relu"),
      "activation of a plain MLP; gelu_tanh: GPT-2's approximation of gelu; empty: gelu in gpt2, "
      "relu in transformer_xl");
    v("biases", biases, one_of("", "all", "mlp", "none"),
      "which maps and norms have biases; mlp: the MLP and the norms; empty: all in gpt2 (nano_gpt: "
      "none), mlp in transformer_xl");
    v("mlp", mlp, one_of("plain", "swiglu"),
      "plain: two maps with the style's activation; swiglu: silu(W_1 x) * W_2 x in place of the "
      "first map");
    v("swiglu_multiple", swiglu_multiple, at_least(0),
      "for swiglu: two thirds of `hidden`, rounded up to a multiple of this, so that the number of "
      "parameters stays (256: LLaMA's code); 0: `hidden` itself");
    v("norm", norm, one_of("layer", "rms"), "norm of every layer, and the final norm of gpt2");
    v("softmax", softmax, one_of("", "adaptive", "plain"),
      "softmax over the next token; empty: adaptive in transformer_xl, plain in gpt2");
    v("cutoffs", cutoffs, at_least(1),
      "where an adaptive softmax cuts the vocabulary, which is sorted by frequency");
    v("initial_std", initial_std, range(1e-4, 1),
      "initial standard deviation of the layers' weights and learned positions: 0.02 as published; "
      "with 0.1 narrow models learn to recall much sooner");
    v("dropout", dropout, range(0, 0.99), "after the positions, the attention and in the MLP");
    v("attention_dropout", attention_dropout, range(0, 0.99), "dropout of attention weights");
    v("answers", answers,
      "also give the most likely token at each target, for task.answers; this computes the "
      "probabilities of all tokens there");
  }

  bool gpt2() const { return style == "gpt2"; }
  Activation activation_kind() const {
    if (activation == "gelu_tanh") return Activation::gelu_tanh;
    return activation == "relu" ? Activation::relu : Activation::gelu;
  }
  bool swiglu() const { return mlp == "swiglu"; }
  NormKind norm_kind() const { return norm == "rms" ? NormKind::rms : NormKind::layer; }
};

/// The options with all that stands for "as the style" replaced.
/// @param window  tokens of the dataset's examples; -1: they differ
/// @throws OptionError.
TransformerLmOptions resolve(TransformerLmOptions options, std::int64_t window);

}  // namespace attnlab
