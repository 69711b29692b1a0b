#include "framework/data/points/scan_dataset.h"

#include <fmt/format.h>

#include "framework/base/error.h"

namespace attnlab {

std::int64_t ScanDataset::clouds(Split split) const {
  return split == Split::validation ? 0 : static_cast<std::int64_t>(scans(split).size());
}

std::int64_t ScanDataset::points(Split split, std::int64_t cloud) const {
  return rows_of_scan(scan_at(split, cloud).points, columns_);
}

const ScanDataset::Scan& ScanDataset::scan_at(Split split, std::int64_t index) const {
  return scans(split).at(static_cast<std::size_t>(index));
}

void ScanDataset::describe_scans(const std::string& folder, std::span<const char* const> classes) {
  info_.source = folder;
  info_.classes = static_cast<std::int64_t>(classes.size());
  info_.class_names.assign(classes.begin(), classes.end());
  describe_fields(1, /*each_point=*/true);
}

void ScanDataset::check_count(const Scan& scan, std::int64_t labels) const {
  const std::int64_t points = rows_of_scan(scan.points, columns_);
  if (points == labels) return;
  throw DataError(fmt::format("{}: has {} labels, its scan {} points; fetch both again",
                              scan.labels, labels, points));
}

PointCloud ScanDataset::labelled_cloud(const Scan& scan, const Tensor& rows, const Tensor& labels) {
  return {.coordinates = rows.narrow(1, 0, 3).contiguous(),
          .features = rows.narrow(1, 3, 1).contiguous(),
          .normals = {},
          .labels = labels,
          .place = scan.points};
}

}  // namespace attnlab
