#include "framework/nn/points/convolution_loops.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "framework/base/vector_clones.h"
#include "framework/nn/kernels/small_matrix.h"

namespace attnlab {
namespace {

using small::kLanes;
using small::Vector;
using small::vector_at;

template <class T>
inline constexpr std::int64_t kPanel = 2 * kLanes<T>;  // columns of a tile

/// One place of the kernel in one block of rows, one panel of columns.
template <class T>
struct Piece {
  const T* x;  ///< rows of `in` numbers
  std::int64_t in;
  const T* weight;  ///< [in, kPanel]
  const std::int32_t *inputs, *outputs;
  std::int64_t pairs;
  T* sums;             ///< [kBlock, kPanel]
  std::int64_t first;  ///< the block's first row
};

template <int rows, class T>
[[gnu::always_inline]] inline void convolve_tile(const Piece<T>& p, std::int64_t at) {
  const T* x[rows];
  T* to[rows];
  Vector<T> low[rows], high[rows];
  for (int r = 0; r < rows; ++r) {
    x[r] = p.x + p.inputs[at + r] * p.in;
    to[r] = p.sums + (p.outputs[at + r] - p.first) * kPanel<T>;
    low[r] = vector_at(to[r]);
    high[r] = vector_at(to[r] + kLanes<T>);
  }
  for (std::int64_t c = 0; c < p.in; ++c) {
    const Vector<T> left = vector_at(p.weight + c * kPanel<T>);
    const Vector<T> right = vector_at(p.weight + c * kPanel<T> + kLanes<T>);
    for (int r = 0; r < rows; ++r) {
      low[r] += x[r][c] * left;
      high[r] += x[r][c] * right;
    }
  }
  for (int r = 0; r < rows; ++r) {
    vector_at(to[r]) = low[r];
    vector_at(to[r] + kLanes<T>) = high[r];
  }
}

template <class T>
[[gnu::always_inline]] inline void convolve_piece(const Piece<T>& p) {
  std::int64_t at = 0;
  for (; at + 6 <= p.pairs; at += 6) convolve_tile<6>(p, at);
  if (at + 4 <= p.pairs) {
    convolve_tile<4>(p, at);
    at += 4;
  }
  if (at + 2 <= p.pairs) {
    convolve_tile<2>(p, at);
    at += 2;
  }
  if (at < p.pairs) convolve_tile<1>(p, at);
}

ATTNLAB_VECTOR_CLONES void convolve(const Piece<float>& piece) { convolve_piece(piece); }
ATTNLAB_VECTOR_CLONES void convolve(const Piece<double>& piece) { convolve_piece(piece); }

template <class T>
void convolve_all(const Tensor& x, const Tensor& packed, const KernelMap& map, const Tensor& y) {
  const std::int64_t out = y.size(1), places = map.places(), panels = packed.size(0);
  const std::int64_t* starts = map.starts.data_ptr<std::int64_t>();
  at::parallel_for(0, map.blocks(), 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> sums(static_cast<std::size_t>(KernelMap::kBlock * kPanel<T>));
    for (std::int64_t b = begin; b < end; ++b) {
      const std::int64_t first = b * KernelMap::kBlock;
      const std::int64_t rows = std::min(KernelMap::kBlock, map.rows - first);
      for (std::int64_t panel = 0; panel < panels; ++panel) {
        std::fill(sums.begin(), sums.end(), T(0));
        for (std::int64_t d = 0; d < places; ++d) {
          const std::int64_t at = starts[b * places + d];
          convolve({x.data_ptr<T>(), x.size(1),
                    packed.data_ptr<T>() + (panel * places + d) * x.size(1) * kPanel<T>,
                    map.inputs.data_ptr<std::int32_t>() + at,
                    map.outputs.data_ptr<std::int32_t>() + at, starts[b * places + d + 1] - at,
                    sums.data(), first});
        }
        const std::int64_t columns = std::min(kPanel<T>, out - panel * kPanel<T>);
        for (std::int64_t r = 0; r < rows; ++r) {
          std::copy_n(sums.data() + r * kPanel<T>, columns,
                      y.data_ptr<T>() + (first + r) * out + panel * kPanel<T>);
        }
      }
    }
  });
}

/// dW of one place and one panel of outputs, the pairs of one block.
template <class T>
struct Outer {
  const T* x;
  std::int64_t in;
  const T* dy;  ///< rows of `out` numbers, at the panel
  std::int64_t out;
  const std::int32_t *inputs, *outputs;
  std::int64_t pairs;
  T* sums;  ///< [in, kPanel]
};

template <int channels, class T>
[[gnu::always_inline]] inline void outer_tile(const Outer<T>& p, std::int64_t c) {
  Vector<T> low[channels], high[channels];
  for (int r = 0; r < channels; ++r) {
    low[r] = vector_at(p.sums + (c + r) * kPanel<T>);
    high[r] = vector_at(p.sums + (c + r) * kPanel<T> + kLanes<T>);
  }
  for (std::int64_t i = 0; i < p.pairs; ++i) {
    const T* x = p.x + p.inputs[i] * p.in + c;
    const T* dy = p.dy + p.outputs[i] * p.out;
    const Vector<T> left = vector_at(dy), right = vector_at(dy + kLanes<T>);
    for (int r = 0; r < channels; ++r) {
      low[r] += x[r] * left;
      high[r] += x[r] * right;
    }
  }
  for (int r = 0; r < channels; ++r) {
    vector_at(p.sums + (c + r) * kPanel<T>) = low[r];
    vector_at(p.sums + (c + r) * kPanel<T> + kLanes<T>) = high[r];
  }
}

template <class T>
[[gnu::always_inline]] inline void add_outer(const Outer<T>& p) {
  std::int64_t c = 0;
  for (; c + 6 <= p.in; c += 6) outer_tile<6>(p, c);
  if (c + 4 <= p.in) {
    outer_tile<4>(p, c);
    c += 4;
  }
  if (c + 2 <= p.in) {
    outer_tile<2>(p, c);
    c += 2;
  }
  if (c < p.in) outer_tile<1>(p, c);
}

ATTNLAB_VECTOR_CLONES void add_pairs(const Outer<float>& piece) { add_outer(piece); }
ATTNLAB_VECTOR_CLONES void add_pairs(const Outer<double>& piece) { add_outer(piece); }

/// @param dy  [N, panels * kPanel]
template <class T>
void add_gradients(const Tensor& x, const Tensor& dy, const KernelMap& map, const Tensor& sums) {
  const std::int64_t places = map.places(), in = x.size(1), out = dy.size(1);
  const std::int64_t panels = out / kPanel<T>;
  const std::int64_t* starts = map.starts.data_ptr<std::int64_t>();
  at::parallel_for(0, places * panels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t d = task / panels, panel = task % panels;
      for (std::int64_t b = 0; b < map.blocks(); ++b) {
        const std::int64_t at = starts[b * places + d];
        add_pairs({x.data_ptr<T>(), in, dy.data_ptr<T>() + panel * kPanel<T>, out,
                   map.inputs.data_ptr<std::int32_t>() + at,
                   map.outputs.data_ptr<std::int32_t>() + at, starts[b * places + d + 1] - at,
                   sums.data_ptr<T>() + task * in * kPanel<T>});
      }
    }
  });
}

std::int64_t panel_of(const Tensor& x) {
  return x.scalar_type() == at::kDouble ? kPanel<double> : kPanel<float>;
}

}  // namespace

Tensor packed_kernel(const Tensor& kernel) {
  const std::int64_t out = kernel.size(0), panel = panel_of(kernel);
  const std::int64_t panels = (out + panel - 1) / panel;
  Tensor padded = at::zeros({panels * panel, kernel.size(1), kernel.size(2)}, kernel.options());
  padded.narrow(0, 0, out).copy_(kernel);
  return padded.view({panels, panel, kernel.size(1), kernel.size(2)})
      .permute({0, 2, 3, 1})
      .contiguous();
}

void convolve_blocks(const Tensor& x, const Tensor& packed, const KernelMap& map, const Tensor& y) {
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "sparse_convolution",
                             [&] { convolve_all<scalar_t>(x, packed, map, y); });
}

Tensor kernel_gradient(const Tensor& x, const Tensor& dy, const KernelMap& map) {
  const std::int64_t out = dy.size(1), panel = panel_of(x), places = map.places();
  const std::int64_t panels = (out + panel - 1) / panel;
  const Tensor whole =
      out % panel == 0 ? dy.contiguous() : at::constant_pad_nd(dy, {0, panels * panel - out});
  const Tensor sums = at::zeros({places, panels, x.size(1), panel}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "sparse_convolution_gradient",
                             [&] { add_gradients<scalar_t>(x, whole, map, sums); });
  return sums.permute({1, 3, 0, 2}).reshape({panels * panel, places, x.size(1)}).narrow(0, 0, out);
}

}  // namespace attnlab
