// SemanticKITTI: lidar scans of whole drives, a class for each point.
//
//   sequences/NN/velodyne/ID.bin   float32 x, y, z, remission
//   sequences/NN/labels/ID.label   uint32; the class in the lower 16 bits, the object above
//
// 19 classes, as in the benchmark of single scans: moving and standing objects are one class, and
// what belongs to none (unlabelled, outliers, other structures and objects) does not count.
// Source: Behley et al., ICCV 2019 (arXiv:1904.01416); its semantic-kitti.yaml.
// Cost: scans are read when they are asked for; damage is found then, sizes when it is opened.
#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "framework/base/files.h"
#include "framework/data/formats/files.h"
#include "framework/data/points/byte_reader.h"
#include "framework/data/points/point_dataset.h"
#include "framework/data/points/scan_files.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct SemanticKittiOptions : PointOptions {
  std::string root;
  std::vector<std::string> train = {"00", "01", "02", "03", "04", "05", "06", "07", "09", "10"};
  std::vector<std::string> test = {"08"};

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("root", root, "folder with sequences/ (empty: search the usual places)");
    v("train", train, "drives to train on");
    v("test", test,
      "drives to test on; as usual the validation drive, since 11 to 21 have no labels");
    PointOptions::describe(v);
  }
};

constexpr const char* kClasses[] = {
    "car",          "bicycle", "motorcycle", "truck",    "other vehicle", "person",   "bicyclist",
    "motorcyclist", "road",    "parking",    "sidewalk", "other ground",  "building", "fence",
    "vegetation",   "trunk",   "terrain",    "pole",     "traffic sign"};

/// Class of each number of the label files; those that are not here do not count.
const std::map<std::int64_t, std::int64_t> kNumbers = {
    {10, 0},  {11, 1},  {13, 4},  {15, 2},  {16, 4},  {18, 3},  {20, 4},  {30, 5},
    {31, 6},  {32, 7},  {40, 8},  {44, 9},  {48, 10}, {49, 11}, {50, 12}, {51, 13},
    {60, 8},  {70, 14}, {71, 15}, {72, 16}, {80, 17}, {81, 18}, {252, 0}, {253, 6},
    {254, 5}, {255, 7}, {256, 4}, {257, 4}, {258, 3}, {259, 4}};

class SemanticKitti final : public PointDataset {
 public:
  SemanticKitti(const SemanticKittiOptions& options, const DatasetSetup& setup)
      : PointDataset("semantic_kitti", options, setup) {
    folder_ = find_data_folder({"semantic_kitti",
                                {"sequences"},
                                options.root,
                                "fetch velodyne and labels from http://www.semantic-kitti.org"});
    train_ = scans_of(options.train);
    test_ = scans_of(options.test);
    if (train_.empty()) throw DataError(folder_ + ": has no scan of the drives to train on");
    info_.source = folder_;
    info_.classes = std::size(kClasses);
    info_.class_names.assign(std::begin(kClasses), std::end(kClasses));
    describe_fields(1, /*each_point=*/true);
    std::vector<std::string> files;
    for (const auto* scans : {&train_, &test_}) {
      for (const std::string& scan : *scans) {
        files.push_back(scan);
        files.push_back(labels_of(scan));
        check_sizes(scan);
      }
    }
    set_fingerprint(files_fingerprint(files));
  }

 protected:
  std::int64_t clouds(Split split) const override {
    return split == Split::validation ? 0 : static_cast<std::int64_t>(scans(split).size());
  }

  std::int64_t points(Split split, std::int64_t index) const override {
    return rows_of_scan(scans(split).at(static_cast<std::size_t>(index)), 4);
  }

  PointCloud read(Split split, std::int64_t index) const override {
    const std::string& file = scans(split).at(static_cast<std::size_t>(index));
    check_sizes(file);
    const Tensor scan = read_scan(file, 4);
    const std::string bytes = read_text(labels_of(file));
    const Tensor labels = at::empty({scan.size(0)}, at::kLong);
    for (std::int64_t i = 0; i < scan.size(0); ++i) {
      const auto number = scalar_at(bytes.data() + 4 * i, {'u', 2}, false);
      const auto found = kNumbers.find(static_cast<std::int64_t>(number));
      labels.data_ptr<std::int64_t>()[i] = found == kNumbers.end() ? -1 : found->second;
    }
    return {.coordinates = scan.narrow(1, 0, 3).contiguous(),
            .features = scan.narrow(1, 3, 1).contiguous(),
            .normals = {},
            .labels = labels,
            .place = file};
  }

 private:
  const std::vector<std::string>& scans(Split split) const {
    return split == Split::train ? train_ : test_;
  }

  std::vector<std::string> scans_of(const std::vector<std::string>& drives) const {
    std::vector<std::string> scans;
    for (const std::string& drive : drives) {
      const std::string folder = fmt::format("{}/sequences/{}/velodyne", folder_, drive);
      for (const std::string& name : names_in(folder, ".bin")) scans.push_back(folder + "/" + name);
    }
    return scans;
  }

  static std::string labels_of(const std::string& scan) {
    const std::filesystem::path path(scan);
    return (path.parent_path().parent_path() / "labels" / path.stem()).string() + ".label";
  }

  static void check_sizes(const std::string& scan) {
    const std::int64_t points = rows_of_scan(scan, 4), labels = rows_of_scan(labels_of(scan), 1);
    if (points == labels) return;
    throw DataError(fmt::format("{}: has {} labels, its scan {} points; fetch both again",
                                labels_of(scan), labels, points));
  }

  std::string folder_;
  std::vector<std::string> train_, test_;
};

}  // namespace

ATTNLAB_PLUGIN(dataset, SemanticKitti, SemanticKittiOptions,
               {.id = "attnlab/semantic_kitti",
                .version = "1.0.0",
                .summary = "lidar scans of whole drives, one of 19 classes for each point",
                .citation = "Behley et al. 2019, arXiv:1904.01416",
                .licence = "CC-BY-NC-SA-4.0",
                .gives = {"coord@point", "label@point", "inverse@point>voxel", "grid@voxel",
                          "feature@voxel", "label@voxel", "view?"}})

}  // namespace attnlab
