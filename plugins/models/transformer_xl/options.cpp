#include "plugins/models/transformer_xl/options.h"

#include <algorithm>

#include "framework/nn/modules/language.h"

namespace attnlab {
namespace {

void check(const TransformerXlOptions& o) {
  check_sizes({o.dim, o.depth, o.heads, o.relative(), o.cutoffs}, "standard");
  if (o.same_length && o.memory == 0) {
    throw OptionError("same_length", "needs a memory, whose length every token sees; set memory");
  }
}

}  // namespace

TransformerXlOptions resolve(TransformerXlOptions options, std::int64_t window) {
  if (options.hidden == 0) options.hidden = 4 * options.dim;
  if (options.memory < 0) options.memory = std::max<std::int64_t>(window, 0);
  if (options.softmax == "plain") options.cutoffs.clear();
  check(options);
  return options;
}

}  // namespace attnlab
