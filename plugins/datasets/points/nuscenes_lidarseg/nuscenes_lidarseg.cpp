// nuScenes-lidarseg: lidar scans of city drives, one of 16 classes for each point.
//
//   samples/LIDAR_TOP/*.pcd.bin   float32 x, y, z, intensity, ring
//   lidarseg/VERSION/*_lidarseg.bin   uint8, one of 32 classes
//   VERSION/scene.json, sample.json, sample_data.json, lidarseg.json
//
// The 32 classes become 16 as in the challenge; noise, animals and what is rare do not count.
// Intensities are divided by 255. Training scenes and validation scenes are the official ones.
// Source: Fong et al., Panoptic nuScenes, RA-L 2022 (arXiv:2109.03805); nuscenes-devkit.
// Cost: scans are read when they are asked for; damage is found then, sizes when it is opened.
#include <fmt/format.h>

#include "framework/base/files.h"
#include "framework/data/formats/files.h"
#include "framework/data/points/point_dataset.h"
#include "framework/data/points/scan_files.h"
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
    v("version", version, "folder of the tables: v1.0-trainval or v1.0-mini");
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

class NuscenesLidarseg final : public PointDataset {
 public:
  NuscenesLidarseg(const NuscenesOptions& options, const DatasetSetup& setup)
      : PointDataset("nuscenes_lidarseg", options, setup) {
    folder_ = find_data_folder(
        {"nuscenes_lidarseg",
         {options.version + "/lidarseg.json", options.version + "/sample_data.json",
          options.version + "/sample.json", options.version + "/scene.json"},
         options.root,
         "fetch nuScenes and nuScenes-lidarseg from https://www.nuscenes.org"});
    std::vector<std::string> files;
    for (const LabelledScan& scan : labelled_scans(folder_, options.version)) {
      (is_validation_scene(scan.scene) ? test_ : train_).push_back(scan);
      files.push_back(folder_ + "/" + scan.scan);
      files.push_back(folder_ + "/" + scan.labels);
      check_sizes(scan);
    }
    if (train_.empty()) throw DataError(folder_ + ": the tables name no scan to train on");
    for (const char* table : {"lidarseg", "sample_data", "sample", "scene"}) {
      files.push_back(folder_ + "/" + options.version + "/" + table + ".json");
    }
    info_.source = folder_;
    info_.classes = std::size(kClasses);
    info_.class_names.assign(std::begin(kClasses), std::end(kClasses));
    describe_fields(1, /*each_point=*/true);
    set_fingerprint(files_fingerprint(files));
  }

 protected:
  std::int64_t clouds(Split split) const override {
    return split == Split::validation ? 0 : static_cast<std::int64_t>(scans(split).size());
  }

  std::int64_t points(Split split, std::int64_t index) const override {
    return rows_of_scan(folder_ + "/" + scan_at(split, index).scan, kColumns);
  }

  PointCloud read(Split split, std::int64_t index) const override {
    const LabelledScan& files = scan_at(split, index);
    check_sizes(files);
    const Tensor scan = read_scan(folder_ + "/" + files.scan, kColumns);
    const std::string path = folder_ + "/" + files.labels, bytes = read_text(path);
    const Tensor labels = at::empty({scan.size(0)}, at::kLong);
    for (std::int64_t i = 0; i < scan.size(0); ++i) {
      const auto number = static_cast<unsigned char>(bytes[static_cast<std::size_t>(i)]);
      if (number >= std::size(kNumbers)) {
        throw DataError(fmt::format("{}: byte {} is {}, labels are 0 to 31; the file is damaged",
                                    path, i, number));
      }
      labels.data_ptr<std::int64_t>()[i] = kNumbers[number];
    }
    return {.coordinates = scan.narrow(1, 0, 3).contiguous(),
            .features = scan.narrow(1, 3, 1) / 255,
            .normals = {},
            .labels = labels,
            .place = folder_ + "/" + files.scan};
  }

 private:
  const std::vector<LabelledScan>& scans(Split split) const {
    return split == Split::train ? train_ : test_;
  }
  const LabelledScan& scan_at(Split split, std::int64_t index) const {
    return scans(split).at(static_cast<std::size_t>(index));
  }

  /// A label is a byte, so a file of labels is as long as its scan has points.
  void check_sizes(const LabelledScan& files) const {
    const std::int64_t points = rows_of_scan(folder_ + "/" + files.scan, kColumns);
    const std::int64_t labels = size_of_file(folder_ + "/" + files.labels);
    if (points == labels) return;
    throw DataError(fmt::format("{}/{}: has {} labels, its scan {} points; fetch both again",
                                folder_, files.labels, labels, points));
  }

  std::string folder_;
  std::vector<LabelledScan> train_, test_;
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
