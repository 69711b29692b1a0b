#include "runner/inspect/cloud_view.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <unordered_map>

#include "framework/nn/points/curves.h"

namespace attnlab {
namespace {

constexpr double kSteps = 65535, kShades = 254;
constexpr std::uint8_t kNone = 255;

}  // namespace

std::vector<std::int64_t> thinned(const Tensor& grid, const Tensor& labels, std::int64_t most,
                                  std::int64_t always) {
  const std::int64_t n = grid.size(0);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(n));
  std::iota(rows.begin(), rows.end(), 0);
  if (n <= most) return rows;
  const Tensor places = grid.contiguous();
  const Tensor classes = labels.defined() ? labels.contiguous() : at::zeros({n}, at::kLong);
  std::vector<std::tuple<std::int64_t, std::uint64_t, std::int64_t>> order;
  order.reserve(rows.size());
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t* at = places.data_ptr<std::int64_t>() + 3 * i;
    const auto axis = [&](int k) { return static_cast<std::uint32_t>(at[k]); };
    order.emplace_back(classes.data_ptr<std::int64_t>()[i],
                       curve_code(Curve::hilbert, axis(0), axis(1), axis(2)), i);
  }
  std::sort(order.begin(), order.end());
  rows.resize(static_cast<std::size_t>(most));
  for (std::int64_t j = 0; j < most; ++j) {
    rows[static_cast<std::size_t>(j)] =
        std::get<2>(order[static_cast<std::size_t>((2 * j + 1) * n / (2 * most))]);
  }
  if (std::find(rows.begin(), rows.end(), always) == rows.end()) {
    const auto found = std::find_if(order.begin(), order.end(),
                                    [&](const auto& one) { return std::get<2>(one) == always; });
    rows[static_cast<std::size_t>((found - order.begin()) * most / n)] = always;  // the nearest
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

VoxelAttention attention_of_voxel(const Tensor& weights, const Tensor& slots, const Tensor& token,
                                  std::int64_t voxel) {
  if (!weights.defined() || weights.dim() != 3 || weights.size(1) != weights.size(2) ||
      slots.sizes() != weights.sizes().slice(0, 2)) {
    return {};
  }
  const Tensor flat = slots.to(at::kCPU).reshape({-1}).contiguous();
  const Tensor held = token.to(at::kCPU).contiguous();
  const std::int64_t* slot = flat.data_ptr<std::int64_t>();
  const std::int64_t* of = held.data_ptr<std::int64_t>();
  const std::int64_t own = std::find(slot, slot + flat.size(0), of[voxel]) - slot;
  if (own == flat.size(0)) return {};
  const std::int64_t size = slots.size(1), patch = own / size;
  const Tensor row = weights[patch][own % size].to(at::kCPU, at::kDouble).contiguous();
  std::unordered_map<std::int64_t, double> by_token;
  for (std::int64_t k = 0; k < size; ++k) {
    const std::int64_t one = slot[patch * size + k];
    if (one >= 0) by_token[one] += row.data_ptr<double>()[k];
  }
  VoxelAttention out{at::full({held.size(0)}, -1.0, at::kDouble),
                     static_cast<std::int64_t>(by_token.size())};
  for (std::int64_t m = 0; m < held.size(0); ++m) {
    const auto found = by_token.find(of[m]);
    if (found != by_token.end()) out.weight.data_ptr<double>()[m] = found->second;
  }
  return out;
}

PackedPlaces packed_places(const Tensor& coordinates) {
  PackedPlaces packed;
  const Tensor x = coordinates.to(at::kDouble).contiguous();
  if (x.size(0) == 0) return packed;
  const Tensor low = x.amin(0), extent = x.amax(0) - low;
  for (int axis = 0; axis < 3; ++axis) packed.low[axis] = low[axis].item<double>();
  packed.side = std::max(extent.max().item<double>(), 1e-12);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double share = (x.data_ptr<double>()[i] - packed.low[i % 3]) / packed.side;
    const auto step = static_cast<std::uint16_t>(std::lround(kSteps * share));
    packed.bytes += static_cast<char>(step & 255U);
    packed.bytes += static_cast<char>(step >> 8U);
  }
  return packed;
}

std::string packed_classes(const Tensor& classes) {
  std::string bytes;
  const Tensor all = classes.to(at::kCPU, at::kLong).contiguous();
  for (std::int64_t i = 0; i < all.size(0); ++i) {
    const std::int64_t one = all.data_ptr<std::int64_t>()[i];
    bytes += static_cast<char>(one < 0 ? kNone : static_cast<std::uint8_t>(one));
  }
  return bytes;
}

std::string packed_weights(const Tensor& weights, double most) {
  std::string bytes;
  const Tensor all = weights.contiguous();
  for (std::int64_t i = 0; i < all.size(0); ++i) {
    const double one = all.data_ptr<double>()[i];
    const double shade = most > 0 ? std::round(kShades * std::clamp(one / most, 0.0, 1.0)) : 0;
    bytes += static_cast<char>(one < 0 ? kNone : static_cast<std::uint8_t>(shade));
  }
  return bytes;
}

}  // namespace attnlab
