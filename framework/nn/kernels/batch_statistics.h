// Which batches have statistics of their own: one rule for all batch norms.
#pragma once

#include <cstdint>

namespace attnlab {

/// Whether a batch norm can take a batch's own mean and variance in training. One row has no
/// variance (0 / 0 with n - 1; PyTorch refuses such a batch): were it taken for 0, the row would
/// become the bias whatever it is, and the running variance would go to 0 and make nonsense of
/// evaluation. Such a batch, and one without rows, is normed as in evaluation, by the running
/// statistics, which stay as they are.
/// @param rows  numbers of each channel
constexpr bool has_statistics(std::int64_t rows) { return rows > 1; }

}  // namespace attnlab
