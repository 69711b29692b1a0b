// Named random streams: one seed, many independent sequences.
//
// A stream is a pure function of (seed, name, a, b): data order of epoch 7, augmentation of
// example 12 in epoch 7, dropout of step 400. So nothing needs saving to resume a run, threads
// cannot disturb each other, and two attentions under comparison see the same data in the same
// order. The names in use: initialisation, attention, order, augmentation, dropout, split,
// synthetic (made-up data), task (a task's own parameters), swap (words of a text).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace attnlab {

/// A small fast generator (splitmix64); a standard UniformRandomBitGenerator.
/// Reproducible across machines and standard libraries, as std's distributions are not.
class Random {
 public:
  using result_type = std::uint64_t;
  explicit Random(std::uint64_t state) : state_(state) {}

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return ~std::uint64_t{0}; }
  result_type operator()();

  /// Uniform in [0, 1), 53 bits.
  double uniform();
  /// In [low, high).
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// Uniform in {0, ..., n-1}, without bias. @param n at least 1.
  std::int64_t below(std::int64_t n);
  /// Standard normal (Box-Muller; uses two draws).
  double normal();

 private:
  std::uint64_t state_;
};

/// The streams of one run.
class RandomStreams {
 public:
  explicit RandomStreams(std::uint64_t seed) : seed_(seed) {}

  std::uint64_t seed() const { return seed_; }
  /// A 64-bit seed for foreign generators (LibTorch's).
  std::uint64_t key(std::string_view name, std::uint64_t a = 0, std::uint64_t b = 0) const;
  Random stream(std::string_view name, std::uint64_t a = 0, std::uint64_t b = 0) const {
    return Random(key(name, a, b));
  }

 private:
  std::uint64_t seed_;
};

/// A uniformly random order of 0, ..., n-1.
std::vector<std::int64_t> permutation(std::int64_t n, Random random);

}  // namespace attnlab
