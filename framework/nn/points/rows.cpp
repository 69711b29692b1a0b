#include "framework/nn/points/rows.h"

#include <fmt/format.h>

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstring>

#include "framework/nn/kernels/own_loop.h"
#include "framework/tensor/narrow.h"

namespace attnlab {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// How many rows of C numbers make a thread's work worth while.
std::int64_t grain(std::int64_t channels) {
  return std::max<std::int64_t>(1, 32768 / std::max<std::int64_t>(channels, 1));
}

Tensor taken(const Tensor& x, const RowMap& map) {
  const std::int64_t n = map.source.size(0), channels = x.size(1);
  if (!has_own_loop(x)) {
    if (x.size(0) == 0) return x.new_zeros({n, channels});
    const Tensor y = x.index_select(0, map.source.clamp_min(0));
    return y.masked_fill(map.source.lt(0).unsqueeze(1), 0);
  }
  const Tensor from = x.contiguous();
  Tensor y = at::empty({n, channels}, x.options());
  const std::int64_t* source = map.source.data_ptr<std::int64_t>();
  const auto bytes = static_cast<std::size_t>(channels) * x.element_size();
  const char* in = static_cast<const char*>(from.data_ptr());
  char* out = static_cast<char*>(y.data_ptr());
  at::parallel_for(0, n, grain(channels), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      char* row = out + static_cast<std::size_t>(i) * bytes;
      if (source[i] < 0) {
        std::memset(row, 0, bytes);
      } else {
        std::memcpy(row, in + static_cast<std::size_t>(source[i]) * bytes, bytes);
      }
    }
  });
  return y;
}

/// [M, most] int64: the users of each row, -1 where it has fewer. For devices without loops of
/// ours.
Tensor users_table(const RowMap& map) {
  const Tensor rank = at::arange(map.most, map.starts.options());
  const Tensor at = map.starts.slice(0, 0, -1).unsqueeze(1) + rank;
  const Tensor there = at.lt(map.starts.slice(0, 1).unsqueeze(1));
  return map.users.index_select(0, at.clamp_max(map.users.size(0) - 1).view({-1}))
      .view_as(at)
      .masked_fill(there.logical_not(), -1);
}

template <class T>
void sum_users(const T* y, const RowMap& map, std::int64_t channels, T* x) {
  const std::int64_t* starts = map.starts.data_ptr<std::int64_t>();
  const std::int64_t* users = map.users.data_ptr<std::int64_t>();
  at::parallel_for(0, map.rows(), grain(channels), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t j = begin; j < end; ++j) {
      T* __restrict__ sum = x + j * channels;
      std::fill_n(sum, channels, T(0));
      for (std::int64_t u = starts[j]; u < starts[j + 1]; ++u) {
        const T* __restrict__ row = y + users[u] * channels;
        for (std::int64_t c = 0; c < channels; ++c) sum[c] += row[c];
      }
    }
  });
}

Tensor summed(const Tensor& y, const RowMap& map) {
  if (is_narrow(y)) return summed(wide(y), map).to(y.scalar_type());
  Tensor x = at::zeros({map.rows(), y.size(1)}, y.options());
  if (map.users.size(0) == 0) return x;
  if (!has_own_loop(y)) {
    const Tensor table = users_table(map);
    for (std::int64_t rank = 0; rank < map.most; ++rank) {
      const Tensor user = table.select(1, rank);
      x.add_(y.index_select(0, user.clamp_min(0)).masked_fill(user.lt(0).unsqueeze(1), 0));
    }
    return x;
  }
  const Tensor from = y.contiguous();
  AT_DISPATCH_FLOATING_TYPES(y.scalar_type(), "sum_rows", [&] {
    sum_users(from.data_ptr<scalar_t>(), map, y.size(1), x.data_ptr<scalar_t>());
  });
  return x;
}

/// y and where each of its numbers came from, [M, C] int64.
template <class T>
void most_of_users(const T* y, const RowMap& map, std::int64_t channels, T* x,
                   std::int64_t* winner) {
  const std::int64_t* starts = map.starts.data_ptr<std::int64_t>();
  const std::int64_t* users = map.users.data_ptr<std::int64_t>();
  at::parallel_for(0, map.rows(), grain(channels), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t j = begin; j < end; ++j) {
      const T* first = y + users[starts[j]] * channels;
      std::copy_n(first, channels, x + j * channels);
      std::fill_n(winner + j * channels, channels, users[starts[j]]);
      for (std::int64_t u = starts[j] + 1; u < starts[j + 1]; ++u) {
        const T* row = y + users[u] * channels;
        for (std::int64_t c = 0; c < channels; ++c) {
          if (!(row[c] > x[j * channels + c])) continue;
          x[j * channels + c] = row[c];
          winner[j * channels + c] = users[u];
        }
      }
    }
  });
}

using MapOfRows = Tensor(const Tensor&, const RowMap&);

/// A map of rows and its transpose, which carries the gradient back.
template <MapOfRows* forth, MapOfRows* back>
struct AlongRows : public torch::autograd::Function<AlongRows<forth, back>> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const RowMap& map) {
    context->save_for_backward({map.source, map.starts, map.users});
    context->saved_data["most"] = map.most;
    return forth(x, map);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const RowMap map{saved[0], saved[1], saved[2], context->saved_data["most"].toInt()};
    return {back(gradients[0], map), Tensor()};
  }
};
using TakeRows = AlongRows<taken, sum_rows>;
using SumRows = AlongRows<summed, take_rows>;

struct MaxRows : public torch::autograd::Function<MaxRows> {
  static Tensor forward(AutogradContext* context, const Tensor& y, const RowMap& map) {
    const std::int64_t channels = y.size(1);
    Tensor x, winner;
    if (has_own_loop(y)) {
      const Tensor from = y.contiguous();
      x = at::empty({map.rows(), channels}, y.options());
      winner = at::empty({map.rows(), channels}, at::kLong);
      AT_DISPATCH_FLOATING_TYPES(y.scalar_type(), "max_rows", [&] {
        most_of_users(from.data_ptr<scalar_t>(), map, channels, x.data_ptr<scalar_t>(),
                      winner.data_ptr<std::int64_t>());
      });
    } else {
      const Tensor table = users_table(map);
      const Tensor first = table.select(1, 0);
      x = y.index_select(0, first);
      winner = first.unsqueeze(1).expand_as(x).contiguous();
      for (std::int64_t rank = 1; rank < map.most; ++rank) {
        const Tensor user = table.select(1, rank).unsqueeze(1);
        const Tensor rows = y.index_select(0, table.select(1, rank).clamp_min(0));
        const Tensor more = rows.gt(x).logical_and(user.ge(0));
        x = at::where(more, rows, x);
        winner = at::where(more, user, winner);
      }
    }
    context->save_for_backward({winner});
    context->saved_data["rows"] = y.size(0);
    return x;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Tensor winner = context->get_saved_variables()[0];
    const Tensor& grad = gradients[0];
    // Each number has one winner, and a row wins for one cube alone: nothing is added up.
    Tensor result = at::zeros({context->saved_data["rows"].toInt(), grad.size(1)}, grad.options());
    return {result.scatter_(0, winner, grad), Tensor()};
  }
};

void check_rows(const Tensor& x, std::int64_t rows, const char* what) {
  if (x.dim() == 2 && x.size(0) == rows && x.is_floating_point()) return;
  throw ShapeError(
      fmt::format("{}: expected [{}, C] floating point, found {}", what, rows, describe(x)));
}

}  // namespace

RowMap RowMap::to(const at::Device& device) const {
  return {source.to(device), starts.to(device), users.to(device), most};
}

RowMap row_map(const Tensor& source, std::int64_t rows) {
  RowMap map{source, at::zeros({rows + 1}, at::kLong), Tensor(), 0};
  const std::int64_t* from = source.data_ptr<std::int64_t>();
  auto* starts = map.starts.data_ptr<std::int64_t>();
  const std::int64_t n = source.size(0);
  for (std::int64_t i = 0; i < n; ++i) {
    if (from[i] >= 0) ++starts[from[i] + 1];
  }
  for (std::int64_t j = 0; j < rows; ++j) {
    map.most = std::max(map.most, starts[j + 1]);
    starts[j + 1] += starts[j];
  }
  map.users = at::empty({starts[rows]}, at::kLong);
  auto* users = map.users.data_ptr<std::int64_t>();
  std::vector<std::int64_t> next(starts, starts + rows);
  for (std::int64_t i = 0; i < n; ++i) {
    if (from[i] >= 0) users[next[static_cast<std::size_t>(from[i])]++] = i;
  }
  return map;
}

Tensor take_rows(const Tensor& x, const RowMap& map) {
  check_rows(x, map.rows(), "take_rows");
  return TakeRows::apply(x, map);
}

Tensor sum_rows(const Tensor& y, const RowMap& map) {
  check_rows(y, map.source.size(0), "sum_rows");
  return SumRows::apply(y, map);
}

Tensor max_rows(const Tensor& y, const RowMap& map) {
  check_rows(y, map.source.size(0), "max_rows");
  return MaxRows::apply(y, map);
}

}  // namespace attnlab
