#include "plugins/models/transformer_xl/options.h"

#include <fmt/format.h>

#include <algorithm>

namespace attnlab {
namespace {

void check(const TransformerXlOptions& o) {
  const auto need = [](const char* name, std::int64_t value) {
    if (value > 0) return;
    throw OptionError(name,
                      "is 0 and there is no preset to take it from; set it, or set preset to "
                      "standard");
  };
  need("dim", o.dim);
  need("depth", o.depth);
  need("heads", o.heads);
  if (o.dim % o.heads != 0) {
    throw OptionError("heads",
                      fmt::format("{} heads do not divide dim {}; change either", o.heads, o.dim));
  }
  if (o.dim % 2 != 0) {
    throw OptionError("dim", "is odd, and sinusoids are pairs; make it even");
  }
  if (o.same_length && o.memory == 0) {
    throw OptionError("same_length", "needs a memory, whose length every token sees; set memory");
  }
  for (std::size_t i = 1; i < o.cutoffs.size(); ++i) {
    if (o.cutoffs[i] <= o.cutoffs[i - 1]) throw OptionError("cutoffs", "must rise");
  }
}

}  // namespace

TransformerXlOptions resolve(TransformerXlOptions options, std::int64_t window) {
  const auto fill = [](std::int64_t& value, std::int64_t otherwise) {
    if (value == 0) value = otherwise;
  };
  if (options.preset == "standard") {
    fill(options.dim, 410);
    fill(options.depth, 16);
    fill(options.heads, 10);
    fill(options.hidden, 2100);
  }
  fill(options.hidden, 4 * options.dim);
  if (options.memory < 0) options.memory = std::max<std::int64_t>(window, 0);
  if (options.softmax == "plain") options.cutoffs.clear();
  check(options);
  return options;
}

}  // namespace attnlab
