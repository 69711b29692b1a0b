// One long table of series, a row a time step: read from a CSV file, or made up by rule.
#pragma once

#include <cstdint>
#include <string>

#include "framework/config/options.h"
#include "framework/tensor/tensor.h"

namespace attnlab {

struct MadeSeriesOptions {
  std::int64_t channels = 7;
  std::int64_t steps = 2400;
  double noise = 0.3;
  std::int64_t seed = 0;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("channels", channels, range(1, 4096), "channels");
    v("steps", steps, range(10, 1e7), "time steps, hours");
    v("noise", noise, range(0, 100), "standard deviation of the noise");
    v("seed", seed, range(0, 9e15), "seed of the series, independent of the run's seed");
  }
};

struct SeriesRows {
  Tensor values;           ///< [rows, C] float64, finite
  Tensor calendar;         ///< [rows, 4] float32; undefined where it was not asked for
  std::uint64_t hash = 0;  ///< of the file's bytes; 0 for what is made up
};

/// Reads a file with a column `date` and one for each channel, whose names are in the first row.
/// @param target    the only channel that is read; empty: all
/// @param calendar  read `date`, too: 2016-07-01 13:00:00, or with slashes, or the day alone
/// @throws DataError naming file, line and column; OptionError for a target that is not there.
SeriesRows read_series_rows(const std::string& path, const std::string& target, bool calendar);

/// Hours from 2016-07-01 on, t = 0, 1, ...:
///
///   x[t, c] = a_c sin(2 pi t / 24 + p_c) + b_c sin(2 pi t / 168 + q_c) + s_c t / steps + noise n
///
/// a, b uniform in [0.5, 1], p, q in [0, 2 pi], s in [-1, 1], n normal. Channels are called "0",
/// "1" and so on.
SeriesRows made_series_rows(const MadeSeriesOptions& options, const std::string& target,
                            bool calendar);

}  // namespace attnlab
