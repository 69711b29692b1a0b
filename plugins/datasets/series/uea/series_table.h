// The series of one .ts file as a table of rows, and what is done to them before training: gaps
// filled, channels scaled.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/data/formats/ts_file.h"
#include "framework/tensor/tensor.h"

namespace attnlab {

/// One file's series, [sum of lengths, C], case after case.
struct SeriesTable {
  Tensor values;
  std::vector<std::int64_t> offsets;  ///< rows; one more than there are cases
  std::vector<std::int64_t> labels;
  std::vector<double> targets;

  std::int64_t cases() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
  std::int64_t length(std::int64_t i) const {
    return offsets[static_cast<std::size_t>(i) + 1] - offsets[static_cast<std::size_t>(i)];
  }
};

/// Channels last; what a shorter channel lacks at its end is missing (NaN).
/// @param path  for messages. @throws DataError where most of the table would be missing values.
SeriesTable table_of(TsFile&& file, const std::string& path);

/// Fills gaps between values of a channel in a straight line along time, those at the ends with the
/// nearest value. A channel of a case without values stays as it is.
void fill_gaps(SeriesTable& table);

/// Mean and deviation of each channel, over the values that are there.
struct ChannelScale {
  std::vector<double> mean, deviation;
};

/// Over all time steps of some cases; the deviation with n - 1, and 1 where there is none.
ChannelScale scale_of(const SeriesTable& table, const std::vector<std::int64_t>& cases);

/// Scales all rows in place, x <- (x - mean) / (deviation + 2.2e-16); what is still missing becomes
/// the mean. @param normalise  false: only that.
void apply(const ChannelScale& scale, bool normalise, SeriesTable& table);

/// Each series by itself, [L, C]: less its mean over time, over the deviation across channels of
/// each time step (with 1e-5 added to the variance).
void normalise_instances(SeriesTable& table);

}  // namespace attnlab
