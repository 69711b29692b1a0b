// nuScenes-lidarseg: lidar scans of city drives, one of 16 classes for each point.
//
//   samples/LIDAR_TOP/*.pcd.bin   float32 x, y, z, intensity, ring
//   lidarseg/VERSION/*_lidarseg.bin   uint8, one of 32 classes
//   VERSION/scene.json, sample.json, sample_data.json, lidarseg.json
//
// The 32 classes become 16 as in the challenge; noise, animals and what is rare do not count.
// Intensities are divided by 255. Training scenes and validation scenes are the official ones
// of the version: of v1.0-mini 0103 and 0916 are for validation.
// Source: Fong et al., Panoptic nuScenes, RA-L 2022 (arXiv:2109.03805); nuscenes-devkit.
// Cost: scans are read when they are asked for; damage is found then, sizes when it is opened.
#include <fmt/format.h>

#include "framework/base/files.h"
#include "framework/data/formats/files.h"
#include "framework/data/points/scan_dataset.h"
#include "framework/plugin.h"
#include "plugins/datasets/points/nuscenes_lidarseg/tables.h"

namespace attnlab {
namespace {

struct NuscenesOptions : PointOptions {
  std::string root;
  std::string version = "v1.0-trainval";

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("root", root,
      "folder with samples, lidarseg and the tables (empty: search the usual places)");
    v("version", version, one_of("v1.0-trainval", "v1.0-mini"), "folder of the tables");
    PointOptions::describe(v);
  }
};

constexpr const char* kClasses[] = {
    "barrier",    "bicycle",      "bus",     "car",       "construction vehicle", "motorcycle",
    "pedestrian", "traffic cone", "trailer", "truck",     "driveable surface",    "other flat",
    "sidewalk",   "terrain",      "manmade", "vegetation"};

/// Class of each of the 32; -1: does not count.
constexpr std::int64_t kNumbers[] = {-1, -1, 6, 6,  6,  -1, 6, -1, -1, 0,  -1, -1, 7,  -1, 1,  2,
                                     2,  3,  4, -1, -1, 5,  8, 9,  10, 11, 12, 13, 14, -1, 15, -1};

constexpr std::int64_t kColumns = 5;

class NuscenesLidarseg final : public ScanDataset {
 public:
  NuscenesLidarseg(const NuscenesOptions& options, const DatasetSetup& setup)
      : ScanDataset("nuscenes_lidarseg", options, setup, kColumns) {
    const auto table = [&](const char* name) {
      return fmt::format("{}/{}.json", options.version, name);
    };
    const std::string folder = find_data_folder(
        {"nuscenes_lidarseg",
         {table("lidarseg"), table("sample_data"), table("sample"), table("scene")},
         options.root,
         "fetch nuScenes and nuScenes-lidarseg from https://www.nuscenes.org",
         /*packed=*/false});
    std::vector<std::string> files;
    for (const LabelledScan& listed : labelled_scans(folder, options.version)) {
      const Scan scan{fmt::format("{}/{}", folder, listed.scan),
                      fmt::format("{}/{}", folder, listed.labels)};
      (is_validation_scene(listed.scene, options.version) ? test_ : train_).push_back(scan);
      files.push_back(scan.points);
      files.push_back(scan.labels);
      check_sizes(scan);
    }
    if (train_.empty()) throw DataError(folder + ": the tables name no scan to train on");
    for (const char* name : {"lidarseg", "sample_data", "sample", "scene"}) {
      files.push_back(fmt::format("{}/{}", folder, table(name)));
    }
    describe_scans(folder, kClasses);
    set_fingerprint(content_fingerprint(options.version, files_fingerprint(files)));
  }

 protected:
  PointCloud read(Split split, std::int64_t index) const override {
    const Scan& scan = scan_at(split, index);
    check_sizes(scan);
    const Tensor rows = read_scan(scan.points, kColumns);
    const std::string bytes = read_text(scan.labels);
    const Tensor labels = at::empty({rows.size(0)}, at::kLong);
    for (std::int64_t i = 0; i < rows.size(0); ++i) {
      const auto number = static_cast<unsigned char>(bytes[static_cast<std::size_t>(i)]);
      if (number >= std::size(kNumbers)) {
        throw DataError(fmt::format("{}: byte {} is {}, labels are 0 to 31; the file is damaged",
                                    scan.labels, i, number));
      }
      labels.data_ptr<std::int64_t>()[i] = kNumbers[number];
    }
    PointCloud cloud = labelled_cloud(scan, rows, labels);
    cloud.features = cloud.features / 255;
    return cloud;
  }

 private:
  /// A label is a byte.
  void check_sizes(const Scan& scan) const { check_count(scan, size_of_file(scan.labels)); }
};

}  // namespace

ATTNLAB_PLUGIN(dataset, NuscenesLidarseg, NuscenesOptions,
               {.id = "attnlab/nuscenes_lidarseg",
                .version = "1.0.0",
                .summary = "lidar scans of city drives, one of 16 classes for each point",
                .citation = "Fong et al. 2022, Panoptic nuScenes, arXiv:2109.03805",
                .licence = "CC-BY-NC-SA-4.0",
                .gives = {"coord@point", "label@point", "inverse@point>voxel", "grid@voxel",
                          "feature@voxel", "label@voxel", "view?"}})

}  // namespace attnlab
