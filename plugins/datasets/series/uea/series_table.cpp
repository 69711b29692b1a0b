// Series as a table of rows: see the header.
#include "plugins/datasets/series/uea/series_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/base/error.h"

namespace attnlab {
namespace {

/// Fills gaps between values in a straight line, those at the ends with the nearest value. A series
/// without values stays as it is.
void interpolate(float* x, std::int64_t length, std::int64_t stride) {
  std::int64_t last = -1;
  for (std::int64_t t = 0; t < length; ++t) {
    if (std::isnan(x[t * stride])) continue;
    const double to = x[t * stride], from = last < 0 ? to : double(x[last * stride]);
    for (std::int64_t gap = last + 1; gap < t; ++gap) {
      const double share = last < 0 ? 1 : double(gap - last) / double(t - last);
      x[gap * stride] = float(from + (to - from) * share);
    }
    last = t;
  }
  for (std::int64_t t = last + 1; last >= 0 && t < length; ++t) x[t * stride] = x[last * stride];
}

/// @param rows  [N, C] float32 contiguous.
void add_rows(const float* rows, std::int64_t count, std::int64_t channels,
              const std::vector<double>& mean, std::vector<double>& sums,
              std::vector<double>& counts, int power) {
  for (std::int64_t r = 0; r < count; ++r) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const auto k = static_cast<std::size_t>(c);
      const double value = rows[r * channels + c];
      if (std::isnan(value)) continue;
      sums[k] += power == 1 ? value : (value - mean[k]) * (value - mean[k]);
      ++counts[k];
    }
  }
}

}  // namespace

SeriesTable table_of(TsFile&& file, const std::string& path) {
  SeriesTable table;
  table.offsets.push_back(0);
  for (std::int64_t i = 0; i < file.cases(); ++i) {
    table.offsets.push_back(table.offsets.back() + file.length(i));
  }
  // Channels of one case may be of any length, so a table may need the square of what the file has.
  constexpr std::int64_t kAlways = 1 << 26, kMostPerValue = 100;
  const std::int64_t most =
      std::max(kAlways, kMostPerValue * static_cast<std::int64_t>(file.values.size()));
  if (table.offsets.back() > most / std::max<std::int64_t>(file.channels, 1)) {
    throw DataError(
        fmt::format("{}: has {} values, but {} steps of {} channels: most channels are "
                    "far shorter than the longest of their case; repair the file",
                    path, file.values.size(), table.offsets.back(), file.channels));
  }
  table.values = at::full({table.offsets.back(), file.channels}, NAN);
  float* const out = table.values.data_ptr<float>();
  for (std::int64_t i = 0; i < file.cases(); ++i) {
    for (std::int64_t c = 0; c < file.channels; ++c) {
      const float* in = file.values.data() + file.offsets[std::size_t(i * file.channels + c)];
      float* to = out + table.offsets[std::size_t(i)] * file.channels + c;
      for (std::int64_t t = 0; t < file.length(i, c); ++t) to[t * file.channels] = in[t];
    }
  }
  table.labels = std::move(file.labels);
  table.targets = std::move(file.targets);
  return table;
}

void fill_gaps(SeriesTable& table) {
  const std::int64_t channels = table.values.size(1);
  float* const x = table.values.data_ptr<float>();
  for (std::int64_t i = 0; i < table.cases(); ++i) {
    for (std::int64_t c = 0; c < channels; ++c) {
      interpolate(x + table.offsets[std::size_t(i)] * channels + c, table.length(i), channels);
    }
  }
}

ChannelScale scale_of(const SeriesTable& table, const std::vector<std::int64_t>& cases) {
  const std::int64_t channels = table.values.size(1);
  const auto width = static_cast<std::size_t>(channels);
  ChannelScale scale{std::vector<double>(width), std::vector<double>(width, 1)};
  const float* const x = table.values.data_ptr<float>();
  for (const int power : {1, 2}) {
    std::vector<double> sums(width), counts(width);
    for (const std::int64_t i : cases) {
      add_rows(x + table.offsets[std::size_t(i)] * channels, table.length(i), channels, scale.mean,
               sums, counts, power);
    }
    for (std::size_t c = 0; c < width; ++c) {
      if (power == 1 && counts[c] > 0) scale.mean[c] = sums[c] / counts[c];
      if (power == 2 && counts[c] > 1) scale.deviation[c] = std::sqrt(sums[c] / (counts[c] - 1));
    }
  }
  for (std::size_t c = 0; c < width; ++c) {  // a constant channel: rounding is not a deviation
    if (scale.deviation[c] <= 1e-12 * std::abs(scale.mean[c])) scale.deviation[c] = 1;
  }
  return scale;
}

void apply(const ChannelScale& scale, bool normalise, SeriesTable& table) {
  const std::int64_t channels = table.values.size(1), rows = table.values.size(0);
  float* x = table.values.data_ptr<float>();
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < channels; ++c, ++x) {
      const double mean = scale.mean[std::size_t(c)];
      const double value = std::isnan(*x) ? mean : double(*x);
      *x = float(normalise ? (value - mean) / (scale.deviation[std::size_t(c)] + 2.2e-16) : value);
    }
  }
}

void normalise_instances(SeriesTable& table) {
  for (std::int64_t i = 0; i < table.cases(); ++i) {
    Tensor series = table.values.narrow(0, table.offsets[std::size_t(i)], table.length(i));
    series.sub_(series.mean(0, true));
    series.div_(series.var(1, /*unbiased=*/false, /*keepdim=*/true).add_(1e-5).sqrt_());
  }
}

}  // namespace attnlab
