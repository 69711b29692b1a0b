#include "framework/nn/points/curves.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace attnlab {
namespace {

constexpr int kBits = 16;  // of an axis

/// Moves bit i of 16 to bit 3 i.
inline std::uint64_t spread(std::uint64_t x) {
  x = (x | x << 16) & 0x0000ff0000ff;
  x = (x | x << 8) & 0x00f00f00f00f;
  x = (x | x << 4) & 0x0c30c30c30c3;
  return (x | x << 2) & 0x249249249249;
}

inline std::uint64_t interleaved(std::uint64_t x, std::uint64_t y, std::uint64_t z) {
  return spread(x) << 2 | spread(y) << 1 | spread(z);
}

/// How a cube lies in the curve, in Skilling's terms: what his loop has done to the bits below.
struct Pose {
  std::array<int, 3> axis = {0, 1, 2};  ///< place i holds the bits of this axis,
  std::array<int, 3> flip = {0, 0, 0};  ///< inverted or not
  int parity = 0;                       ///< whether Gray's code has inverted the digits below

  bool operator<(const Pose& other) const {
    return std::tie(axis, flip, parity) < std::tie(other.axis, other.flip, other.parity);
  }
};

/// One level of Skilling's algorithm. @param octant  the bits x, y, z. @returns the digit.
int step(Pose& pose, int octant) {
  std::array<int, 3> bit{};
  for (std::size_t i = 0; i < 3; ++i) bit[i] = (octant >> (2 - pose.axis[i]) & 1) ^ pose.flip[i];
  const int before = pose.parity;
  for (std::size_t i = 0; i < 3; ++i) {
    if (bit[i] != 0) {
      pose.flip[0] ^= 1;
    } else {
      std::swap(pose.axis[0], pose.axis[i]);
      std::swap(pose.flip[0], pose.flip[i]);
    }
  }
  bit[1] ^= bit[0];
  bit[2] ^= bit[1];
  pose.parity ^= bit[2];
  return (bit[0] << 2 | bit[1] << 1 | bit[2]) ^ (before != 0 ? 7 : 0);
}

/// Two levels at once: entry [pose][six bits of z's code] is six bits of Hilbert's code, and the
/// next pose above them.
using HilbertTable = std::vector<std::array<std::uint16_t, 64>>;

HilbertTable hilbert_table() {
  std::vector<Pose> poses = {Pose{}};
  std::map<Pose, std::size_t> number = {{poses[0], 0}};
  HilbertTable table;
  for (std::size_t i = 0; i < poses.size(); ++i) {
    table.emplace_back();
    for (int bits = 0; bits < 64; ++bits) {
      Pose pose = poses[i];
      const int first = step(pose, bits >> 3), second = step(pose, bits & 7);
      const auto [found, is_new] = number.emplace(pose, poses.size());
      if (is_new) poses.push_back(pose);
      table[i][static_cast<std::size_t>(bits)] = static_cast<std::uint16_t>(
          found->second << 6 | static_cast<unsigned>(first << 3 | second));
    }
  }
  return table;
}

/// @param code  z's
inline std::uint64_t hilbert(const HilbertTable& table, std::uint64_t code) {
  std::uint64_t result = 0;
  std::size_t pose = 0;
  for (int shift = 3 * kBits - 6; shift >= 0; shift -= 6) {
    const std::uint16_t entry = table[pose][code >> shift & 63];
    result = result << 6 | (entry & 63);
    pose = entry >> 6;
  }
  return result;
}

inline std::uint64_t code_of(const HilbertTable& table, Curve curve, std::uint64_t x,
                             std::uint64_t y, std::uint64_t z) {
  if (curve == Curve::z_transposed || curve == Curve::hilbert_transposed) std::swap(x, y);
  const std::uint64_t code = interleaved(x, y, z);
  return curve == Curve::z || curve == Curve::z_transposed ? code : hilbert(table, code);
}

const HilbertTable& table() {
  static const HilbertTable made = hilbert_table();
  return made;
}

/// A number with its place, as they are moved in a sort.
struct Placed {
  std::uint64_t number;
  std::int64_t place;
};

}  // namespace

std::uint64_t curve_code(Curve curve, std::uint32_t x, std::uint32_t y, std::uint32_t z) {
  return code_of(table(), curve, x, y, z);
}

Tensor curve_codes(const Tensor& keys, Curve curve, std::int64_t halvings) {
  // Any of the smaller voxels will do, as all that differs between them is shifted out again.
  const std::int64_t lost = std::min<std::int64_t>(halvings, kBits);
  Tensor codes = at::empty_like(keys);
  const std::int64_t* key = keys.data_ptr<std::int64_t>();
  auto* code = codes.data_ptr<std::int64_t>();
  const HilbertTable& steps = table();
  at::parallel_for(0, keys.numel(), 4096, [&](std::int64_t begin, std::int64_t end) {
    constexpr std::uint64_t kAxis = 0xffff;
    for (std::int64_t i = begin; i < end; ++i) {
      const auto k = static_cast<std::uint64_t>(key[i]);
      const std::uint64_t on_curve = code_of(steps, curve, (k >> 32 & kAxis) << lost,
                                             (k >> 16 & kAxis) << lost, (k & kAxis) << lost);
      code[i] = static_cast<std::int64_t>(k >> 48 << 48 | on_curve >> 3 * lost);
    }
  });
  return codes;
}

Tensor sorting_order(const Tensor& numbers) {
  constexpr int kDigit = 11;  // bits: counters of a digit stay in the first level of cache
  constexpr std::size_t kValues = std::size_t{1} << kDigit;
  const auto n = static_cast<std::size_t>(numbers.numel());
  Tensor order = at::empty({numbers.numel()}, at::kLong);
  const std::int64_t* number = numbers.data_ptr<std::int64_t>();
  auto* out = order.data_ptr<std::int64_t>();
  std::vector<Placed> items(n), other(n);
  std::uint64_t differing = 0;
  bool sorted = true;
  for (std::size_t i = 0; i < n; ++i) {
    items[i] = {static_cast<std::uint64_t>(number[i]), static_cast<std::int64_t>(i)};
    differing |= items[i].number ^ items[0].number;
    sorted = sorted && (i == 0 || number[i - 1] <= number[i]);
  }
  for (int shift = 0; !sorted && shift < 64; shift += kDigit) {
    if ((differing >> shift & (kValues - 1)) == 0) continue;
    std::array<std::size_t, kValues> starts{};
    for (const Placed& item : items) ++starts[item.number >> shift & (kValues - 1)];
    std::size_t sum = 0;
    for (std::size_t& start : starts) sum += std::exchange(start, sum);
    for (const Placed& item : items) other[starts[item.number >> shift & (kValues - 1)]++] = item;
    items.swap(other);
  }
  for (std::size_t i = 0; i < n; ++i) out[i] = items[i].place;
  return order;
}

}  // namespace attnlab
