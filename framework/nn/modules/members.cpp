// Members of an ensemble: see the header.
#include "framework/nn/modules/members.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <numeric>

#include "framework/nn/kernels/linear.h"
#include "framework/nn/kernels/precision.h"
#include "framework/nn/kernels/row_kernels.h"
#include "framework/nn/kernels/small_product.h"
#include "framework/tensor/flop_counter.h"
#include "framework/tensor/narrow.h"

namespace attnlab {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Numbers of a member's matrix up to which the own kernel is faster than a BLAS library's.
constexpr std::int64_t kLargestMatrix = 128 * 128;
/// Multiply-adds below which a thread is not worth waking.
constexpr std::int64_t kThreadWork = 64 * 1024;

void check_divides(const char* what, const Tensor& tensor, std::int64_t members) {
  if (members > 0 && tensor.dim() > 0 && tensor.size(0) % members == 0) return;
  throw ShapeError(
      fmt::format("ensemble of {} members: {} must be the members' own one after the other along "
                  "the first dimension, as many rows for each, found {}",
                  members, what, describe(tensor)));
}

/// What one call multiplies: for each member x [n, in] by parts of W [all, in], transposed.
struct Sizes {
  std::int64_t members, n, in, all, first;
  std::int64_t places = 0;  ///< of a sequence, each with a row to start from; 0: a bias for all
  std::vector<std::int64_t> widths;  ///< of the parts, one after the other from `first` on

  Sizes(const Tensor& x, const Tensor& weight, std::int64_t members, std::int64_t first,
        std::vector<std::int64_t> widths)
      : members(members),
        n(x.size(-1) == 0 ? 0 : x.numel() / members / x.size(-1)),
        in(weight.size(1)),
        all(weight.size(0) / members),
        first(first),
        widths(std::move(widths)) {}

  std::int64_t out() const { return std::accumulate(widths.begin(), widths.end(), std::int64_t{}); }
  std::int64_t widest() const { return *std::max_element(widths.begin(), widths.end()); }
  std::int64_t work() const { return members * n * in * out(); }

  /// Calls work(e, room for one matrix) for all members, in parallel.
  template <class Work>
  void each_member(const Work& work_on) const {
    const std::int64_t grain = std::max<std::int64_t>(1, kThreadWork / (n * in * out()));
    at::parallel_for(0, members, grain, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> room(in * widest());
      for (std::int64_t e = begin; e < end; ++e) work_on(e, room.data());
    });
  }

  /// Calls work(part, its first row in the weight, its width) for member e's parts.
  template <class Work>
  void each_part(std::int64_t e, const Work& work_on) const {
    std::int64_t row = e * all + first;
    for (std::size_t p = 0; p < widths.size(); ++p) {
      work_on(p, row, widths[p]);
      row += widths[p];
    }
  }
};

std::vector<std::int64_t> with_last(const Tensor& x, std::int64_t last) {
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = last;
  return sizes;
}

float* start_of(const Tensor& x) { return x.defined() ? x.data_ptr<float>() : nullptr; }

/// What the rows of Y start from: a bias, or a row for each place of a sequence, place n's for row
/// n of every example.
struct InitialRows {
  float* first = nullptr;  ///< the first member's, for the first part; null: none
  std::int64_t places = 1;
  std::int64_t step = 0;    ///< from one place to the next
  std::int64_t member = 0;  ///< from one member to the next

  /// @param starts  [E * all], or [E * places, out] where sizes have places; contiguous
  InitialRows(const Tensor& starts, const Sizes& s)
      : first(start_of(starts)),
        places(std::max<std::int64_t>(1, s.places)),
        step(s.places > 0 ? s.out() : s.all),
        member(places * step) {
    if (first != nullptr && s.places == 0) first += s.first;
  }

  /// @param column  of the part, behind the first part's first
  float* of(std::int64_t e, std::int64_t column) const {
    return first == nullptr ? nullptr : first + e * member + column;
  }
};

variable_list multiply(const Tensor& given, const Tensor& weight, const Tensor& given_starts,
                       const Sizes& s) {
  const OwnKernelFlops flops("attnlab::linear layers of members", s.work());
  const Tensor x = given.contiguous();
  variable_list outputs;
  std::vector<float*> to;
  for (const std::int64_t width : s.widths) {
    outputs.push_back(at::empty(with_last(x, width), x.options()));
    to.push_back(start_of(outputs.back()));
  }
  const InitialRows starts(given_starts, s);
  const float *const from = start_of(x), *const w = start_of(weight);
  s.each_member([&](std::int64_t e, float* transposed) {
    s.each_part(e, [&](std::size_t part, std::int64_t row, std::int64_t width) {
      small_transpose(w + row * s.in, width, s.in, transposed);
      small_product({.rows = s.n,
                     .depth = s.in,
                     .columns = width,
                     .a = {from + e * s.n * s.in, s.in},
                     .b = transposed,
                     .start = starts.of(e, row - e * s.all - s.first),
                     .places = starts.places,
                     .start_step = starts.step,
                     .c = to[part] + e * s.n * width});
    });
  });
  return outputs;
}

struct Gradients {
  Tensor x, weight, starts;  ///< undefined where not wanted
};

/// dX = sum of dY W,  dW = dY^T X,  and sums of dY's rows for what they started from; rows that
/// belong to no part stay.
/// @param grads  [E * B, ..., width] of each part
/// @param out    tensors to fill, undefined where not wanted
void differentiate(const Tensor& given, const Tensor& weight, const variable_list& grads,
                   const Sizes& s, const Gradients& out) {
  const OwnKernelFlops flops("attnlab::linear layers of members",
                             s.work() * (out.x.defined() + out.weight.defined()));
  const Tensor x = given.contiguous();
  variable_list dense;  // holds what the pointers point to
  std::vector<const float*> dy;
  for (const Tensor& grad : grads) {
    dense.push_back(grad.contiguous());
    dy.push_back(start_of(dense.back()));
  }
  const float *const from = start_of(x), *const w = start_of(weight);
  float *const dx = start_of(out.x), *const dw = start_of(out.weight);
  const InitialRows starts(out.starts, s);
  s.each_member([&](std::int64_t e, float*) {
    s.each_part(e, [&](std::size_t part, std::int64_t row, std::int64_t width) {
      const float* const mine = dy[part] + e * s.n * width;
      if (dx != nullptr) {
        small_product({.rows = s.n,
                       .depth = width,
                       .columns = s.in,
                       .a = {mine, width},
                       .b = w + row * s.in,
                       .c = dx + e * s.n * s.in,
                       .add = part > 0});
      }
      if (dw != nullptr) {
        small_product({.rows = width,
                       .depth = s.n,
                       .columns = s.in,
                       .a = {mine, 1, width},
                       .b = from + e * s.n * s.in,
                       .c = dw + row * s.in});
      }
      if (float* const sums = starts.of(e, row - e * s.all - s.first)) {
        rows::add_rows(mine, s.n, width, {sums, starts.step}, starts.places);
      }
    });
  });
}

/// The maps as operations that autograd can follow.
/// @returns [E * B, ..., out], the parts side by side.
Tensor compose(const Tensor& x, const Tensor& weight, const Tensor& starts, const Sizes& s) {
  const Tensor w =
      weight.view({s.members, s.all, s.in}).narrow(1, s.first, s.out()).transpose(1, 2);
  const Tensor in = x.reshape({s.members, s.n, s.in});
  if (!starts.defined()) return product(in, w).view(with_last(x, s.out()));
  if (s.places == 0) {
    const Tensor bias = starts.view({s.members, 1, s.all}).narrow(2, s.first, s.out());
    return (rounds_products(in) ? product(in, w) + bias : at::baddbmm(bias, in, w))
        .view(with_last(x, s.out()));
  }
  const Tensor y = product(in, w).view({s.members, -1, s.places, s.out()});
  return (y + starts.view({s.members, 1, s.places, s.out()})).view(with_last(x, s.out()));
}

/// The gradients likewise. @param grad  [E * B, ..., out]
Gradients compose_gradients(const Tensor& x, const Tensor& weight, const Tensor& grad,
                            const Sizes& s) {
  const Tensor dy = grad.reshape({s.members, s.n, s.out()});
  const Tensor w = weight.view({s.members, s.all, s.in}).narrow(1, s.first, s.out());
  const Tensor dw = product(dy.transpose(1, 2), x.reshape({s.members, s.n, s.in}));
  const std::int64_t after = s.all - s.first - s.out();
  const Tensor starts =
      s.places == 0 ? at::constant_pad_nd(dy.sum(1), {s.first, after}).view({-1})
                    : dy.view({s.members, -1, s.places, s.out()}).sum(1).view({-1, s.out()});
  return {product(dy, w).view(x.sizes()),
          at::constant_pad_nd(dw, {0, 0, s.first, after}).view(weight.sizes()), starts};
}

struct MemberLinears : public torch::autograd::Function<MemberLinears> {
  /// @param starts  of no elements: none; autograd takes no undefined tensor here
  static variable_list forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                               const Tensor& starts, const Sizes& sizes) {
    context->save_for_backward({x, weight});
    context->saved_data["members"] = sizes.members;
    context->saved_data["first"] = sizes.first;
    context->saved_data["widths"] = sizes.widths;
    context->saved_data["places"] = sizes.places;
    context->saved_data["starts"] = starts.sizes().vec();
    return multiply(x, weight, starts.numel() > 0 ? starts : Tensor(), sizes);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1];
    Sizes sizes(x, weight, context->saved_data["members"].toInt(),
                context->saved_data["first"].toInt(), context->saved_data["widths"].toIntVector());
    sizes.places = context->saved_data["places"].toInt();
    const std::vector<std::int64_t> starts = context->saved_data["starts"].toIntVector();
    const bool started = starts != std::vector<std::int64_t>{0};
    Gradients out;
    // With gradients on, the caller asked for a graph of this backward pass.
    if (at::GradMode::is_enabled()) {
      out = compose_gradients(x, weight, at::cat(gradients, -1), sizes);
      return {out.x, out.weight, started ? out.starts : Tensor(), Tensor()};
    }
    const bool part = sizes.out() < sizes.all;
    const auto room = [&](at::IntArrayRef shape) {
      return part ? at::zeros(shape, weight.options()) : at::empty(shape, weight.options());
    };
    if (context->needs_input_grad(0)) out.x = at::empty(x.sizes(), x.options());
    if (context->needs_input_grad(1)) out.weight = room(weight.sizes());
    if (started && context->needs_input_grad(2)) out.starts = room(starts);
    differentiate(x, weight, gradients, sizes, out);
    return {out.x, out.weight, out.starts, Tensor()};
  }
};

bool has_own_kernel(const Tensor& x, const Tensor& weight, const Sizes& sizes) {
  return !rounds_products(x) && x.device().is_cpu() && weight.device().is_cpu() &&
         x.scalar_type() == at::kFloat && weight.scalar_type() == at::kFloat &&
         weight.is_contiguous() && sizes.work() > 0 && sizes.in * sizes.widest() <= kLargestMatrix;
}

std::vector<Tensor> parts_of(const Tensor& y, const Sizes& sizes) {
  if (sizes.widths.size() == 1) return {y};
  return y.split_with_sizes(sizes.widths, -1);
}

/// By the own kernel where that is the faster one.
/// @param starts  undefined: none
std::vector<Tensor> mapped(const Tensor& x, const Tensor& weight, const Tensor& starts,
                           const Sizes& sizes) {
  if (x.size(-1) != sizes.in) {
    throw ShapeError(
        fmt::format("ensemble: a linear map {} of {} members takes [..., {}], found {}",
                    describe(weight), sizes.members, sizes.in, describe(x)));
  }
  if (is_narrow(x) && x.device().is_cpu()) {
    std::vector<Tensor> parts = mapped(wide(x), wide(weight), wide(starts), sizes);
    for (Tensor& part : parts) part = part.to(x.scalar_type());
    return parts;
  }
  if (!has_own_kernel(x, weight, sizes)) return parts_of(compose(x, weight, starts, sizes), sizes);
  const bool gradients =
      at::GradMode::is_enabled() &&
      (x.requires_grad() || weight.requires_grad() || (starts.defined() && starts.requires_grad()));
  if (!gradients) return multiply(x, weight, starts, sizes);
  return MemberLinears::apply(x, weight, starts.defined() ? starts : at::empty({0}), sizes);
}

}  // namespace

std::int64_t batch_of_member(const Tensor& x, std::int64_t members) {
  check_divides("a batch", x, members);
  return x.size(0) / members;
}

Tensor per_head(const Tensor& parameter, std::int64_t groups, std::int64_t heads) {
  Tensor rows = parameter.view({groups, 1, -1});
  if (groups == 1 || groups == heads) return rows;
  return rows.expand({groups, heads / groups, -1}).reshape({heads, 1, -1});
}

Tensor member_linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     std::int64_t members, MemberRows rows) {
  if (members == 1 && rows.count == 0) return attnlab::linear(x, weight, bias);
  check_divides("a matrix", weight, members);
  const std::int64_t all = weight.size(0) / members;
  return member_linears(x, weight, bias, members, rows.first,
                        {rows.count == 0 ? all - rows.first : rows.count})[0];
}

std::vector<Tensor> member_linears(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                   std::int64_t members, std::int64_t first,
                                   const std::vector<std::int64_t>& widths) {
  check_divides("a batch", x, members);
  check_divides("a matrix", weight, members);
  const Sizes sizes(x, weight, members, first, widths);
  if (members > 1) return mapped(x, weight, bias, sizes);
  return parts_of(attnlab::linear(x, weight.narrow(0, first, sizes.out()),
                                  bias.defined() ? bias.narrow(0, first, sizes.out()) : bias),
                  sizes);
}

std::vector<Tensor> placed_linears(const Tensor& x, const Tensor& places, const Tensor& weight,
                                   const Tensor& bias, std::int64_t members, std::int64_t first,
                                   const std::vector<std::int64_t>& widths) {
  check_divides("a batch", x, members);
  check_divides("a matrix", weight, members);
  Sizes sizes(x, weight, members, first, widths);
  if (x.dim() != 3 || places.dim() != 2 || places.size(0) != members * x.size(1) ||
      places.size(1) != x.size(2)) {
    throw ShapeError(
        fmt::format("places: expected [members * N, in] for {} members and tokens {}, found {}",
                    members, describe(x), describe(places)));
  }
  const Tensor starts = member_linears(places, weight, bias, members, first, {sizes.out()})[0];
  sizes.places = x.size(1);
  if (members > 1) return mapped(x, weight, starts, sizes);
  return parts_of(attnlab::linear(x, weight.narrow(0, first, sizes.out()), {}) + starts, sizes);
}

Tensor by_member(const Tensor& parameter, std::int64_t members, std::int64_t batch) {
  check_divides("a parameter", parameter, members);
  std::vector<std::int64_t> sizes = parameter.sizes().vec();
  sizes[0] /= members;
  sizes.insert(sizes.begin(), {members, 1});
  const Tensor apart = parameter.view(sizes);
  sizes[1] = batch;
  const Tensor beside = apart.expand(sizes);
  sizes.erase(sizes.begin());
  sizes[0] = members * batch;
  return beside.reshape(sizes);
}

Tensor add_by_member(const Tensor& x, const Tensor& parameter, std::int64_t members) {
  check_divides("a parameter", parameter, members);
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes[0] = batch_of_member(x, members);
  sizes.insert(sizes.begin(), members);
  std::vector<std::int64_t> rows = parameter.sizes().vec();
  rows[0] /= members;
  rows.insert(rows.begin(), {members, 1});
  return (x.view(sizes) + parameter.view(rows)).reshape(x.sizes());
}

}  // namespace attnlab
