// Named random streams on splitmix64 (Steele, Lea, Flood 2014; constants of Vigna's version).
#include "framework/base/random.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <numeric>
#include <string>
#include <utility>

#include "framework/base/error.h"
#include "framework/base/files.h"

namespace attnlab {
namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;  // 2^64 / golden ratio

/// splitmix64's finaliser, a bijection in which every input bit reaches every output bit.
std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

Random::result_type Random::operator()() { return mix(state_ += kGolden); }

double Random::uniform() { return static_cast<double>((*this)() >> 11) * 0x1p-53; }

std::int64_t Random::below(std::int64_t n) {
  if (n < 1) throw Error(fmt::format("Random::below: n must be at least 1, got {}", n));
  const auto count = static_cast<std::uint64_t>(n);
  // The 2^64 mod n smallest draws are refused; what is left divides evenly among n values.
  const std::uint64_t refused = (0 - count) % count;
  std::uint64_t draw = (*this)();
  while (draw < refused) draw = (*this)();
  return static_cast<std::int64_t>(draw % count);
}

double Random::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

std::uint64_t RandomStreams::key(std::string_view name, std::uint64_t a, std::uint64_t b) const {
  // Mixing after each part keeps (a, b) apart from (b, a), and neighbouring keys unrelated.
  std::uint64_t key = mix(seed_ + kGolden);
  for (const std::uint64_t part : {fingerprint(name), a, b}) key = mix((key ^ part) + kGolden);
  return key;
}

std::vector<std::int64_t> permutation(std::int64_t n, Random random) {
  if (n < 0) throw Error(fmt::format("permutation: n must not be negative, got {}", n));
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); i > 1; --i) {  // Fisher-Yates
    std::swap(order[i - 1], order[static_cast<std::size_t>(random.below(std::int64_t(i)))]);
  }
  return order;
}

}  // namespace attnlab
