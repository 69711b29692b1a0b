#include "framework/nn/points/sparse_convolution.h"

#include <fmt/format.h>

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

#include "framework/nn/kernels/own_loop.h"
#include "framework/nn/points/convolution_loops.h"
#include "framework/tensor/flop_counter.h"
#include "framework/tensor/narrow.h"

namespace attnlab {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char *kLayoutEntry = "sparse_convolution", *kLayout = "out,x,y,z,in",
                     *kSpconv1Layout = "x,y,z,in,out";

/// [size, size, size, in, out], as far as the sizes tell.
bool is_of_spconv1(const Tensor& x) {
  return x.dim() == 5 && x.size(0) == x.size(1) && x.size(1) == x.size(2) && x.size(2) != x.size(3);
}

bool has_equal_sizes(const Tensor& x) {
  const at::IntArrayRef sizes = x.sizes();
  return std::all_of(sizes.begin(), sizes.end(), [&](std::int64_t n) { return n == sizes[0]; });
}

/// [out, places, in]
Tensor by_place(const Tensor& weight) {
  return weight.reshape({weight.size(0), -1, weight.size(4)});
}

/// Rows of inputs and outputs that meet at one place, as indices on x's device.
std::array<Tensor, 2> pairs_at(const KernelMap& map, std::int64_t place, const Tensor& x) {
  const std::int64_t* starts = map.starts.data_ptr<std::int64_t>();
  std::vector<Tensor> inputs, outputs;
  for (std::int64_t b = 0; b < map.blocks(); ++b) {
    const std::int64_t at = starts[b * map.places() + place];
    const std::int64_t count = starts[b * map.places() + place + 1] - at;
    inputs.push_back(map.inputs.narrow(0, at, count));
    outputs.push_back(map.outputs.narrow(0, at, count));
  }
  const auto joined = [&](const std::vector<Tensor>& parts) {
    return parts.empty() ? at::empty({0}, x.options().dtype(at::kLong))
                         : at::cat(parts).to(x.device(), at::kLong);
  };
  return {joined(inputs), joined(outputs)};
}

/// By operations that autograd can follow, on any device: a product for each place. An output
/// stands once among a place's pairs, so that nothing is added in an order of chance.
Tensor convolved_by_places(const Tensor& x, const Tensor& weight, const KernelMap& map) {
  Tensor y = x.new_zeros({map.rows, weight.size(0)});
  const Tensor kernel = by_place(weight);
  for (std::int64_t place = 0; place < map.places(); ++place) {
    const auto [inputs, outputs] = pairs_at(map, place, x);
    y = y.index_add(0, outputs, at::mm(x.index_select(0, inputs), kernel.select(1, place).t()));
  }
  return y;
}

/// The gradient of the weight, likewise.
Tensor gradient_by_places(const Tensor& x, const Tensor& dy, const Tensor& weight,
                          const KernelMap& map) {
  std::vector<Tensor> parts;
  for (std::int64_t place = 0; place < map.places(); ++place) {
    const auto [inputs, outputs] = pairs_at(map, place, x);
    parts.push_back(at::mm(dy.index_select(0, outputs).t(), x.index_select(0, inputs)));
  }
  return at::stack(parts, 1).view_as(weight);
}

/// The kernel of the gradient of x: what i gave to j comes back from j to i.
Tensor mirrored(const Tensor& weight) { return weight.flip({1, 2, 3}).transpose(0, 4); }

/// @param kernel  [out, places, in] of any strides
Tensor convolved_by_blocks(const Tensor& x, const Tensor& kernel, const KernelMap& map) {
  const OwnKernelFlops count("attnlab::sparse convolution",
                             map.pairs() * kernel.size(0) * kernel.size(2));
  Tensor y = at::empty({map.rows, kernel.size(0)}, x.options());
  convolve_blocks(x.contiguous(), packed_kernel(kernel), map, y);
  return y;
}

struct Convolve : public torch::autograd::Function<Convolve> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const KernelMap& map) {
    context->save_for_backward({x, weight, map.starts, map.inputs, map.outputs});
    context->saved_data["size"] = map.size;
    return convolved_by_blocks(x, by_place(weight), map);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1];
    const Tensor dy = gradients[0].contiguous();
    const KernelMap map{context->saved_data["size"].toInt(), x.size(0), saved[2], saved[3],
                        saved[4]};
    Tensor dx, dw;
    if (at::GradMode::is_enabled()) {  // a gradient of the gradient is wanted
      return {convolved_by_places(dy, mirrored(weight), map),
              gradient_by_places(x, dy, weight, map), Tensor()};
    }
    if (context->needs_input_grad(0)) {
      dx = convolved_by_blocks(dy, by_place(mirrored(weight)), map);
    }
    if (context->needs_input_grad(1)) {
      const OwnKernelFlops count("attnlab::sparse convolution",
                                 map.pairs() * x.size(1) * dy.size(1));
      dw = kernel_gradient(x.contiguous(), dy, map).reshape(weight.sizes());
    }
    return {dx, dw, Tensor()};
  }
};

}  // namespace

Tensor sparse_convolution(const Tensor& x, const Tensor& weight, const KernelMap& map) {
  const bool fits = x.dim() == 2 && x.size(0) == map.rows && weight.dim() == 5 &&
                    weight.size(1) == map.size && weight.size(2) == map.size &&
                    weight.size(3) == map.size && weight.size(4) == x.size(1);
  if (!fits) {
    throw ShapeError(
        fmt::format("sparse_convolution: expected x [{}, in] and weight [out, size, size, size, "
                    "in] of size {}, found {} and {}",
                    map.rows, map.size, describe(x), describe(weight)));
  }
  if (is_narrow(x)) return sparse_convolution(wide(x), wide(weight), map).to(x.scalar_type());
  return has_own_loop(x) ? Convolve::apply(x, weight, map) : convolved_by_places(x, weight, map);
}

SparseConvolution::SparseConvolution(std::int64_t in, std::int64_t out, std::int64_t size,
                                     bool has_bias) {
  const double bound = 1 / std::sqrt(static_cast<double>(in * size * size * size));
  const auto started = [&](at::IntArrayRef sizes) {
    return torch::empty(sizes).uniform_(-bound, bound);
  };
  weight = register_parameter("weight", started({out, size, size, size, in}));
  if (has_bias) bias = register_parameter("bias", started({out}));
}

Tensor SparseConvolution::forward(const Tensor& x, const KernelMap& map) const {
  const Tensor y = sparse_convolution(x, weight, map);
  return bias.defined() ? y + bias : y;
}

std::pair<std::string, std::string> SparseConvolution::layout_entry() const {
  return {kLayoutEntry, kLayout};
}

NamedTensors SparseConvolution::in_layout(const NamedTensors& tensors,
                                          const std::map<std::string, std::string>& metadata,
                                          const std::string& path) const {
  const auto entry = metadata.find(kLayoutEntry);
  const std::string said = entry == metadata.end() ? "" : entry->second;
  if (!said.empty() && said != kLayout && said != kSpconv1Layout) {
    throw DataError(fmt::format("{}: its metadata say {}: '{}', expected '{}' or '{}' (spconv 1)",
                                path, kLayoutEntry, said, kLayout, kSpconv1Layout));
  }
  NamedTensors ours;
  for (const auto& [name, tensor] : tensors) {
    const bool kernel = tensor.dim() == 5;
    if (kernel && said.empty() && has_equal_sizes(tensor)) {
      throw DataError(fmt::format(
          "{}: {} is {}, which may be a kernel of spconv 1 or of later ones; write {}: '{}' or "
          "'{}' (spconv 1) into the file's metadata",
          path, name, describe(tensor), kLayoutEntry, kLayout, kSpconv1Layout));
    }
    const bool first_version = said.empty() ? is_of_spconv1(tensor) : said == kSpconv1Layout;
    ours.set(name, kernel && first_version ? tensor.permute({4, 0, 1, 2, 3}).contiguous() : tensor);
  }
  return ours;
}

}  // namespace attnlab
