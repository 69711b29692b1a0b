#include "plugins/models/transformer_lm/options.h"

#include "framework/nn/modules/language.h"

namespace attnlab {
namespace {

template <class T>
void fill(T& value, const T& otherwise) {
  if (value == T{}) value = otherwise;
}

void check(const TransformerLmOptions& o) {
  const bool sinusoids =
      o.positions == "sinusoidal" || o.positions == "reversed" || o.positions == "relative";
  check_sizes({o.dim, o.depth, o.heads, sinusoids, o.cutoffs}, "small, medium, nano_gpt or gpt2");
  if (o.context == 0 && (o.positions == "learned" || o.positions == "reversed")) {
    throw OptionError("context",
                      "the dataset's lines differ in length; say how many tokens the longest has");
  }
}

}  // namespace

TransformerLmOptions resolve(TransformerLmOptions options, std::int64_t window) {
  fill(options.style, std::string("gpt2"));
  const bool gpt2 = options.gpt2();
  fill(options.hidden, 4 * options.dim);
  fill(options.activation, std::string(gpt2 ? "gelu" : "relu"));
  fill(options.positions, std::string(gpt2 ? "learned" : "reversed"));
  const char* of_gpt2 = options.preset == "nano_gpt" ? "none" : "all";
  fill(options.biases, std::string(gpt2 ? of_gpt2 : "mlp"));
  fill(options.softmax, std::string(gpt2 ? "plain" : "adaptive"));
  if (options.softmax == "plain") options.cutoffs.clear();
  fill(options.context, std::max<std::int64_t>(window, 0));
  check(options);
  return options;
}

}  // namespace attnlab
