// The edges of a batch: see the header.
#include "framework/nn/graph/message_passing.h"

#include <fmt/format.h>

namespace attnlab {

Edges::Edges(const Tensor& ends, std::int64_t nodes) {
  if (ends.dim() != 2 || ends.size(1) != 2 || ends.scalar_type() != at::kLong) {
    throw ShapeError(
        fmt::format("edges must be [E, 2] int64, source and target, found {}", describe(ends)));
  }
  by_target = segments_by(ends.select(1, 1), nodes, "the target of edge");
  by_source = segments_by(ends.select(1, 0), nodes, "the source of edge");
}

Tensor with_own_loops(const Tensor& ends, std::int64_t nodes) {
  const Tensor others = ends.select(1, 0).ne(ends.select(1, 1)).nonzero().squeeze(1);
  const Tensor own = at::arange(nodes, ends.options()).unsqueeze(1).expand({nodes, 2});
  return at::cat({ends.index_select(0, others), own});
}

Edges::Edges(Segments by_target, Segments by_source)
    : by_target(std::move(by_target)), by_source(std::move(by_source)) {}

}  // namespace attnlab
