// Sums by sorted segments: see the header.
#include "framework/nn/graph/segments.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>

#include "framework/base/vector_clones.h"
#include "framework/nn/graph/work.h"
#include "framework/tensor/narrow.h"

namespace attnlab {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A counting sort, which is stable.
Segments sorted_here(const Tensor& index, std::int64_t count, const std::string& what) {
  const std::int64_t items = index.size(0);
  const Tensor offsets = at::zeros({count + 1}, at::kLong), order = at::empty({items}, at::kLong);
  const auto* at = index.data_ptr<std::int64_t>();
  auto *ends = offsets.data_ptr<std::int64_t>(), *to = order.data_ptr<std::int64_t>();
  for (std::int64_t m = 0; m < items; ++m) {
    if (at[m] < 0 || at[m] >= count) {
      throw DataError(fmt::format("{} {} of the batch belongs to row {}, and there are {}", what, m,
                                  at[m], count));
    }
    ++ends[at[m] + 1];
  }
  for (std::int64_t r = 0; r < count; ++r) ends[r + 1] += ends[r];
  std::vector<std::int64_t> next(ends, ends + count);
  for (std::int64_t m = 0; m < items; ++m) to[next[static_cast<std::size_t>(at[m])]++] = m;
  return {index, order, offsets};
}

template <class T>
[[gnu::always_inline]] inline void sum_rows(const T* __restrict__ y, T* __restrict__ x,
                                            const std::int64_t* order, std::int64_t items,
                                            std::int64_t width) {
  for (std::int64_t c = 0; c < width; ++c) x[c] = 0;
  for (std::int64_t k = 0; k < items; ++k) {
    const T* const row = y + order[k] * width;
    for (std::int64_t c = 0; c < width; ++c) x[c] += row[c];
  }
}

ATTNLAB_VECTOR_CLONES
void sum_segment(const float* y, float* x, const std::int64_t* order, std::int64_t items,
                 std::int64_t width) {
  sum_rows(y, x, order, items, width);
}
ATTNLAB_VECTOR_CLONES
void sum_segment(const double* y, double* x, const std::int64_t* order, std::int64_t items,
                 std::int64_t width) {
  sum_rows(y, x, order, items, width);
}

std::vector<std::int64_t> with_rows(const Tensor& like, std::int64_t rows) {
  std::vector<std::int64_t> sizes = like.sizes().vec();
  sizes[0] = rows;
  return sizes;
}

Tensor summed(const Tensor& given, const Segments& s) {
  if (!has_graph_kernel(given)) {
    // LibTorch's refuses to reduce nothing.
    if (given.numel() == 0) return at::zeros(with_rows(given, s.count()), given.options());
    const Tensor lengths = s.offsets.slice(0, 1) - s.offsets.slice(0, 0, -1);
    return at::segment_reduce(wide(given).index_select(0, s.order), "sum", lengths, {}, {}, 0,
                              /*unsafe=*/true, /*initial=*/0)
        .to(given.scalar_type());
  }
  const Tensor y = given.contiguous();
  Tensor x = at::empty(with_rows(y, s.count()), y.options());
  const std::int64_t width = s.count() == 0 ? 0 : x.numel() / s.count();
  const auto *order = s.order.data_ptr<std::int64_t>(), *at = s.offsets.data_ptr<std::int64_t>();
  AT_DISPATCH_FLOATING_TYPES(y.scalar_type(), "segment_sum", [&] {
    each_segment(s, width, [&](std::int64_t r) {
      sum_segment(y.data_ptr<scalar_t>(), x.data_ptr<scalar_t>() + r * width, order + at[r],
                  at[r + 1] - at[r], width);
    });
  });
  return x;
}

template <class Own, class Other>
struct Linear : public torch::autograd::Function<Own> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Segments& s) {
    context->saved_data["segments"] = std::vector<Tensor>{s.index, s.order, s.offsets};
    return Own::compute(x, s);
  }
  /// Linear: its derivative is the other one, which autograd follows where it must.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const std::vector<Tensor> s = context->saved_data["segments"].toTensorVector();
    return {Other::apply(gradients[0], Segments{s[0], s[1], s[2]}), Tensor()};
  }
};

struct SegmentSum;
struct GatherRows : public Linear<GatherRows, SegmentSum> {
  static Tensor compute(const Tensor& x, const Segments& s) { return x.index_select(0, s.index); }
};
struct SegmentSum : public Linear<SegmentSum, GatherRows> {
  static Tensor compute(const Tensor& y, const Segments& s) { return summed(y, s); }
};

struct RoutedSum : public torch::autograd::Function<RoutedSum> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Segments& from,
                        const Segments& to) {
    context->saved_data["edges"] = kept({to, from});
    return summed(x, {to.index, from.index.index_select(0, to.order), to.offsets});
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Edges edges = edges_of(context->saved_data["edges"].toTensorVector());
    return {RoutedSum::apply(gradients[0], edges.by_target, edges.by_source), Tensor(), Tensor()};
  }
};

void check_rows(const char* what, const Tensor& tensor, std::int64_t rows) {
  if (tensor.dim() > 0 && tensor.size(0) == rows && tensor.is_floating_point()) return;
  throw ShapeError(
      fmt::format("{} takes [{}, ...] floating point, found {}", what, rows, describe(tensor)));
}

}  // namespace

Segments segments_by(const Tensor& given, std::int64_t count, const std::string& what) {
  const Tensor index = given.contiguous();
  if (index.dim() != 1 || index.scalar_type() != at::kLong) {
    throw ShapeError(fmt::format("segments_by takes [M] int64, found {}", describe(given)));
  }
  return index.device().is_cpu() ? sorted_here(index, count, what)
                                 : composed_segments_by(index, count);
}

Segments composed_segments_by(const Tensor& index, std::int64_t count) {
  const auto [sorted, order] = at::sort(index, /*stable=*/true, 0, false);
  return {index, order, at::searchsorted(sorted, at::arange(count + 1, index.options()))};
}

Segments segments_of(const Tensor& offsets, const at::Device& device) {
  const std::int64_t count = offsets.size(0) - 1;
  const Tensor lengths = offsets.slice(0, 1) - offsets.slice(0, 0, -1);
  const Tensor index = at::arange(count, at::kLong).repeat_interleave(lengths);
  return {index.to(device), at::arange(index.size(0), at::kLong).to(device), offsets.to(device)};
}

Tensor gather_rows(const Tensor& x, const Segments& segments) {
  check_rows("gather_rows", x, segments.count());
  return GatherRows::apply(x, segments);
}

Tensor segment_sum(const Tensor& y, const Segments& segments) {
  check_rows("segment_sum", y, segments.items());
  return SegmentSum::apply(y, segments);
}

Tensor segment_mean(const Tensor& y, const Segments& segments) {
  Tensor items = segments.offsets.slice(0, 1) - segments.offsets.slice(0, 0, -1);
  items = items.clamp_min(1).to(y.scalar_type());
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(y.dim()), 1);
  sizes[0] = items.size(0);
  return segment_sum(y, segments) / items.view(sizes);
}

Tensor routed_sum(const Tensor& x, const Segments& from, const Segments& to) {
  check_rows("routed_sum", x, from.count());
  return RoutedSum::apply(x, from, to);
}

Tensor segment_softmax(const Tensor& y, const Segments& segments) {
  check_rows("segment_softmax", y, segments.items());
  if (y.numel() == 0) return y;
  Tensor largest;
  {
    const at::NoGradGuard no_gradients;  // what all of a segment are less by changes nothing
    const Tensor lengths = segments.offsets.slice(0, 1) - segments.offsets.slice(0, 0, -1);
    largest = at::segment_reduce(y.index_select(0, segments.order), "max", lengths, {}, {}, 0,
                                 /*unsafe=*/true, -std::numeric_limits<double>::infinity());
    largest = largest.index_select(0, segments.index);
  }
  const Tensor raised = (y - largest).exp();
  return raised / gather_rows(segment_sum(raised, segments), segments);
}

}  // namespace attnlab
