// Datasets of lidar scans: files of points (scan_files.h), each with a file of labels beside it.
#pragma once

#include <span>

#include "framework/data/points/point_dataset.h"
#include "framework/data/points/scan_files.h"

namespace attnlab {

class ScanDataset : public PointDataset {
 protected:
  struct Scan {
    std::string points, labels;  ///< paths of its files
    std::string name{};          ///< by which the dataset knows it, where it needs one
  };

  /// @param columns  numbers of a point in its file: x, y, z, what came back, ...
  ScanDataset(const std::string& name, const PointOptions& options, const DatasetSetup& setup,
              std::int64_t columns)
      : PointDataset(name, options, setup), columns_(columns) {}

  std::int64_t clouds(Split split) const final;
  std::int64_t points(Split split, std::int64_t cloud) const final;

  const Scan& scan_at(Split split, std::int64_t index) const;

  /// Writes `info_`, but for the fingerprint. @param folder  of the data
  void describe_scans(const std::string& folder, std::span<const char* const> classes);

  /// @param labels  how many the scan's file of labels has
  /// @throws DataError where the scan has another number of points.
  void check_count(const Scan& scan, std::int64_t labels) const;

  /// @param rows    [N, columns] float32, as `read_scan` gives them
  /// @param labels  [N] int64
  /// @returns coordinates, and what came back as the one feature.
  static PointCloud labelled_cloud(const Scan& scan, const Tensor& rows, const Tensor& labels);

  std::vector<Scan> train_, test_;

 private:
  const std::vector<Scan>& scans(Split split) const {
    return split == Split::train ? train_ : test_;
  }

  std::int64_t columns_;
};

}  // namespace attnlab
