#include "framework/nn/boxes/matching.h"

#include <limits>

namespace attnlab {
namespace {

constexpr double kFar = std::numeric_limits<double>::infinity();

/// Rows and columns count from 1 here; column 0 stands for the row that is being placed.
class Assignment {
 public:
  Assignment(const double* cost, std::size_t rows, std::size_t columns)
      : cost_(cost),
        columns_(columns),
        row_price_(rows + 1, 0.0),
        column_price_(columns + 1, 0.0),
        row_of_(columns + 1, 0),
        before_(columns + 1, 0) {}

  /// Gives one more row a column, by moving rows that have one along the cheapest path.
  void place(std::size_t row) {
    row_of_[0] = row;
    std::vector<double> distance(columns_ + 1, kFar);
    std::vector<char> seen(columns_ + 1, 0);
    std::size_t column = 0;
    while (row_of_[column] != 0) column = step(column, distance, seen);
    while (column != 0) {
      const std::size_t from = before_[column];
      row_of_[column] = row_of_[from];
      column = from;
    }
  }

  std::size_t row_of(std::size_t column) const { return row_of_[column]; }

 private:
  /// Looks from the row of a column at all columns, and goes on to the nearest that was not seen.
  std::size_t step(std::size_t column, std::vector<double>& distance, std::vector<char>& seen) {
    seen[column] = 1;
    const std::size_t row = row_of_[column];
    const double* costs = cost_ + (row - 1) * columns_;
    std::size_t nearest = 0;
    double least = kFar;
    for (std::size_t j = 1; j <= columns_; ++j) {
      if (seen[j] != 0) continue;
      const double reduced = costs[j - 1] - row_price_[row] - column_price_[j];
      if (reduced < distance[j]) {
        distance[j] = reduced;
        before_[j] = column;
      }
      if (distance[j] < least) {
        least = distance[j];
        nearest = j;
      }
    }
    for (std::size_t j = 0; j <= columns_; ++j) {
      if (seen[j] != 0) {
        row_price_[row_of_[j]] += least;
        column_price_[j] -= least;
      } else {
        distance[j] -= least;
      }
    }
    return nearest;
  }

  const double* cost_;
  std::size_t columns_;
  std::vector<double> row_price_, column_price_;
  std::vector<std::size_t> row_of_;  ///< by column; 0: free
  std::vector<std::size_t> before_;  ///< the column that a path came from
};

}  // namespace

std::vector<std::int64_t> cheapest_assignment(const Tensor& given) {
  if (given.dim() != 2) {
    throw ShapeError("cheapest_assignment: costs are [rows, columns], found " + describe(given));
  }
  const bool turned = given.size(0) > given.size(1);
  const Tensor cost = (turned ? given.t() : given).detach().to(at::kCPU, at::kDouble).contiguous();
  if (!cost.isfinite().all().item<bool>()) {
    throw ShapeError("cheapest_assignment: a cost is not a finite number");
  }
  const auto rows = static_cast<std::size_t>(cost.size(0));
  const auto columns = static_cast<std::size_t>(cost.size(1));
  Assignment assignment(cost.data_ptr<double>(), rows, columns);
  for (std::size_t row = 1; row <= rows; ++row) assignment.place(row);
  std::vector<std::int64_t> found(static_cast<std::size_t>(given.size(0)), -1);
  for (std::size_t column = 1; column <= columns; ++column) {
    const std::size_t row = assignment.row_of(column);
    if (row == 0) continue;
    found[turned ? column - 1 : row - 1] = static_cast<std::int64_t>(turned ? row : column) - 1;
  }
  return found;
}

}  // namespace attnlab
