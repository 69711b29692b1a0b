#include "plugins/models/transformer_lm/options.h"

#include "framework/nn/modules/language.h"

namespace attnlab {
namespace {

struct Preset {
  std::string_view name, style, biases;
  std::int64_t dim, depth, heads, hidden;
};

constexpr Preset kPresets[] = {
    {"small", "transformer_xl", "mlp", 128, 16, 8, 2048},
    {"medium", "transformer_xl", "mlp", 256, 16, 8, 2048},
    {"nano_gpt", "gpt2", "none", 128, 4, 4, 512},
};

template <class T>
void fill(T& value, const T& otherwise) {
  if (value == T{}) value = otherwise;
}

void check(const TransformerLmOptions& o) {
  const bool sinusoids = o.positions == "sinusoidal" || o.positions == "reversed";
  check_sizes({o.dim, o.depth, o.heads, sinusoids, o.cutoffs}, "small, medium or nano_gpt");
  if (o.context == 0 && (o.positions == "learned" || o.positions == "reversed")) {
    throw OptionError("context",
                      "the dataset's lines differ in length; say how many tokens the longest has");
  }
}

}  // namespace

TransformerLmOptions resolve(TransformerLmOptions options, std::int64_t window) {
  for (const Preset& preset : kPresets) {
    if (preset.name != options.preset) continue;
    fill(options.style, std::string(preset.style));
    if (options.style == preset.style) fill(options.biases, std::string(preset.biases));
    fill(options.dim, preset.dim);
    fill(options.depth, preset.depth);
    fill(options.heads, preset.heads);
    fill(options.hidden, preset.hidden);
  }
  fill(options.style, std::string("gpt2"));
  const bool gpt2 = options.gpt2();
  fill(options.hidden, 4 * options.dim);
  fill(options.positions, std::string(gpt2 ? "learned" : "reversed"));
  fill(options.biases, std::string(gpt2 ? "all" : "mlp"));
  fill(options.softmax, std::string(gpt2 ? "plain" : "adaptive"));
  if (options.softmax == "plain") options.cutoffs.clear();
  fill(options.context, std::max<std::int64_t>(window, 0));
  check(options);
  return options;
}

}  // namespace attnlab
