#include "framework/nn/points/convolution_loops.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "framework/nn/points/convolution_pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/nn/points/convolution_loops.cpp"
#include "framework/nn/kernels/dispatch-inl.h"
// (Above: before the vectors.)
#include "framework/nn/kernels/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnlab::HWY_NAMESPACE {

/// @param j  the first of two vectors of the panel's columns
template <int rows, class T>
HWY_INLINE void convolve_tile(const Piece<T>& p, std::int64_t at, std::int64_t j) {
  constexpr std::int64_t N = kLanes<T>;
  const T* x[rows];
  T* to[rows];
  Vec<T> low[rows], high[rows];
  for (int r = 0; r < rows; ++r) {
    x[r] = p.x + p.inputs[at + r] * p.in;
    to[r] = p.sums + (p.outputs[at + r] - p.first) * kPanel<T> + j;
    low[r] = load(to[r], Whole());
    high[r] = load(to[r] + N, Whole());
  }
  for (std::int64_t c = 0; c < p.in; ++c) {
    const T* weight = p.weight + c * kPanel<T> + j;
    const Vec<T> left = load(weight, Whole()), right = load(weight + N, Whole());
    for (int r = 0; r < rows; ++r) {
      const Vec<T> factor = all(x[r][c]);
      low[r] = hn::MulAdd(factor, left, low[r]);
      high[r] = hn::MulAdd(factor, right, high[r]);
    }
  }
  for (int r = 0; r < rows; ++r) {
    store<T>(low[r], to[r], Whole());
    store<T>(high[r], to[r] + N, Whole());
  }
}

template <class T>
HWY_INLINE void convolve_piece(const Piece<T>& p) {
  for (std::int64_t j = 0; j < kPanel<T>; j += kWide<T>) {
    std::int64_t at = 0;
    for (; at + 6 <= p.pairs; at += 6) convolve_tile<6>(p, at, j);
    if (at + 4 <= p.pairs) {
      convolve_tile<4>(p, at, j);
      at += 4;
    }
    if (at + 2 <= p.pairs) {
      convolve_tile<2>(p, at, j);
      at += 2;
    }
    if (at < p.pairs) convolve_tile<1>(p, at, j);
  }
}

template <int channels, class T>
HWY_INLINE void outer_tile(const Outer<T>& p, std::int64_t c, std::int64_t j) {
  constexpr std::int64_t N = kLanes<T>;
  Vec<T> low[channels], high[channels];
  for (int r = 0; r < channels; ++r) {
    const T* from = p.sums + (c + r) * kPanel<T> + j;
    low[r] = load(from, Whole());
    high[r] = load(from + N, Whole());
  }
  for (std::int64_t i = 0; i < p.pairs; ++i) {
    const T* x = p.x + p.inputs[i] * p.in + c;
    const T* dy = p.dy + p.outputs[i] * p.out + j;
    const Vec<T> left = load(dy, Whole()), right = load(dy + N, Whole());
    for (int r = 0; r < channels; ++r) {
      const Vec<T> factor = all(x[r]);
      low[r] = hn::MulAdd(factor, left, low[r]);
      high[r] = hn::MulAdd(factor, right, high[r]);
    }
  }
  for (int r = 0; r < channels; ++r) {
    T* to = p.sums + (c + r) * kPanel<T> + j;
    store<T>(low[r], to, Whole());
    store<T>(high[r], to + N, Whole());
  }
}

template <class T>
HWY_INLINE void add_outer(const Outer<T>& p) {
  for (std::int64_t j = 0; j < kPanel<T>; j += kWide<T>) {
    std::int64_t c = 0;
    for (; c + 6 <= p.in; c += 6) outer_tile<6>(p, c, j);
    if (c + 4 <= p.in) {
      outer_tile<4>(p, c, j);
      c += 4;
    }
    if (c + 2 <= p.in) {
      outer_tile<2>(p, c, j);
      c += 2;
    }
    if (c < p.in) outer_tile<1>(p, c, j);
  }
}

// Tables of kernels hold plain functions.
void convolve_floats(const Piece<float>& piece) { convolve_piece(piece); }
void convolve_doubles(const Piece<double>& piece) { convolve_piece(piece); }
void add_float_pairs(const Outer<float>& piece) { add_outer(piece); }
void add_double_pairs(const Outer<double>& piece) { add_outer(piece); }

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnlab {
namespace {

HWY_EXPORT(convolve_floats);
HWY_EXPORT(convolve_doubles);
HWY_EXPORT(add_float_pairs);
HWY_EXPORT(add_double_pairs);

void convolve(const Piece<float>& piece) { ATTNLAB_DISPATCH(convolve_floats)(piece); }
void convolve(const Piece<double>& piece) { ATTNLAB_DISPATCH(convolve_doubles)(piece); }
void add_pairs(const Outer<float>& piece) { ATTNLAB_DISPATCH(add_float_pairs)(piece); }
void add_pairs(const Outer<double>& piece) { ATTNLAB_DISPATCH(add_double_pairs)(piece); }

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
          convolve(Piece<T>{x.data_ptr<T>(), x.size(1),
                            packed.data_ptr<T>() + (panel * places + d) * x.size(1) * kPanel<T>,
                            map.inputs.data_ptr<std::int32_t>() + at,
                            map.outputs.data_ptr<std::int32_t>() + at,
                            starts[b * places + d + 1] - at, sums.data(), first});
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
        add_pairs(Outer<T>{
            x.data_ptr<T>(), in, dy.data_ptr<T>() + panel * kPanel<T>, out,
            map.inputs.data_ptr<std::int32_t>() + at, map.outputs.data_ptr<std::int32_t>() + at,
            starts[b * places + d + 1] - at, sums.data_ptr<T>() + task * in * kPanel<T>});
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
#endif
