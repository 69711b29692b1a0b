// One more token behind many others: see the header.
#include "runner/engine/bench_decode.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "framework/base/error_text.h"
#include "framework/base/foreign_text.h"
#include "framework/base/json.h"
#include "framework/nn/modules/multi_head_attention.h"
#include "runner/engine/bench_report.h"

namespace attnlab {
namespace {

using nlohmann::json;

constexpr std::int64_t kAtOnce = 4096;  // tokens that a memory takes in at a time

/// A layer, and what it keeps of the tokens before.
class Writer {
 public:
  Writer(Registry& registry, const Part& part, const BenchShape& shape)
      : layer_(options_of(shape), registry.attention_builder(part, RandomStreams(0))) {
    layer_.eval();
    extras_.visible.causal = true;
    x_ = at::randn({shape.batch, 1, shape.heads * shape.dim});
    read(shape);
  }

  std::int64_t bytes() const { return cache_.bytes(); }

  void write() {
    KeyCache cache = cache_;  // each time behind the same tokens
    pass(x_, cache);
  }

 private:
  static MultiHeadOptions options_of(const BenchShape& shape) {
    MultiHeadOptions options;
    options.dim = shape.heads * shape.dim;
    options.heads = shape.heads;
    return options;
  }

  void pass(const Tensor& x, KeyCache& cache) {
    ForwardState state;
    AttentionContext context{0, &state};
    layer_.forward_cached(x, cache, context, extras_);
  }

  /// A memory takes the tokens in; what holds something of each token gets random numbers.
  void read(const BenchShape& shape) {
    const auto tokens = [&](std::int64_t count) {
      return at::randn({shape.batch, count, shape.heads * shape.dim});
    };
    if (layer_.attention().remembers()) {
      for (std::int64_t done = 0; done < shape.length; done += kAtOnce) {
        pass(tokens(std::min(kAtOnce, shape.length - done)), cache_);
      }
      return;
    }
    pass(tokens(1), cache_);
    const auto lengthen = [&](Tensor& kept, std::int64_t dim) {
      if (!kept.defined()) return;
      std::vector<std::int64_t> sizes = kept.sizes().vec();
      sizes[static_cast<std::size_t>(dim)] = shape.length;
      kept = at::randn(sizes);
    };
    for (Tensor* kept : {&cache_.keys, &cache_.values, &cache_.queries}) lengthen(*kept, 2);
    for (Tensor* kept : {&cache_.sources, &cache_.latent}) lengthen(*kept, 1);
  }

  MultiHeadAttention layer_;
  KeyCache cache_;
  AttentionExtras extras_;
  Tensor x_;
};

DecodeCell measured(Registry& registry, const BenchPlan& plan, const BenchSubject& subject,
                    const BenchShape& shape, Writer& standard) {
  DecodeCell cell;
  cell.attention = subject.part.label;
  cell.reason = subject.problem;
  if (!cell.reason.empty()) return cell;
  try {
    Writer writer(registry, subject.part, shape);
    cell.bytes = writer.bytes();
    cell.time = compare([&] { writer.write(); }, [&] { standard.write(); }, plan.seconds);
  } catch (const std::exception& error) {
    cell.reason = one_line(without_backtrace(error.what()));
  }
  return cell;
}

}  // namespace

DecodeBlock measure_decode(Registry& registry, const BenchPlan& plan, const BenchShape& shape) {
  const at::NoGradGuard no_gradients;
  DecodeBlock block{shape, {}};
  const Part standard = part_of(Kind::attention, "standard", Node(), registry.catalogue());
  Writer reference(registry, standard, shape);
  for (const BenchSubject& subject : plan.subjects) {
    block.cells.push_back(measured(registry, plan, subject, shape, reference));
  }
  return block;
}

std::string decode_text(const DecodeBlock& block) {
  std::size_t width = 9;
  for (const DecodeCell& cell : block.cells) width = std::max(width, cell.attention.size());
  std::string text =
      fmt::format("\none token behind {} ({})\n  {:<{}}  {:>10} {:>9} {:>10} {:>6} {:>13}\n",
                  block.shape.length, shape_text(block.shape), "attention", width, "kept",
                  "a token", "time", "ratio", "95 %");
  const auto tokens = static_cast<double>(block.shape.batch * block.shape.length);
  for (const DecodeCell& cell : block.cells) {
    if (!cell.reason.empty()) {
      text += fmt::format("  {:<{}}  - ({})\n", cell.attention, width, cell.reason);
      continue;
    }
    text += fmt::format("  {:<{}}  {:>10} {:>7.1f} B {:>7.3f} ms {:>6.3f} {:>13}\n", cell.attention,
                        width, bytes_text(cell.bytes), static_cast<double>(cell.bytes) / tokens,
                        1e3 * cell.time.seconds, cell.time.ratio,
                        fmt::format("{:.3f}-{:.3f}", cell.time.low, cell.time.high));
  }
  return text;
}

std::string decode_json(const std::vector<DecodeBlock>& blocks) {
  json out = json::array();
  for (const DecodeBlock& block : blocks) {
    json cells = json::array();
    for (const DecodeCell& cell : block.cells) {
      if (!cell.reason.empty()) {
        cells.push_back({{"attention", cell.attention}, {"absent", cell.reason}});
        continue;
      }
      cells.push_back({{"attention", cell.attention},
                       {"bytes", cell.bytes},
                       {"seconds", cell.time.seconds},
                       {"standard_seconds", cell.time.reference_seconds},
                       {"ratio", cell.time.ratio},
                       {"interval", {cell.time.low, cell.time.high}},
                       {"rounds", cell.time.rounds}});
    }
    out.push_back({{"shape", shape_text(block.shape)},
                   {"tokens_before", block.shape.length},
                   {"attentions", cells}});
  }
  return out.dump(2) + "\n";
}

}  // namespace attnlab
