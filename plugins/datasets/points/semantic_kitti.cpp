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

#include <algorithm>
#include <iterator>
#include <map>

#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/data/formats/files.h"
#include "framework/data/points/byte_reader.h"
#include "framework/data/points/scan_dataset.h"
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

/// Class of each number of the label files; those of kUncounted do not count.
const std::map<std::int64_t, std::int64_t> kNumbers = {
    {10, 0},  {11, 1},  {13, 4},  {15, 2},  {16, 4},  {18, 3},  {20, 4},  {30, 5},
    {31, 6},  {32, 7},  {40, 8},  {44, 9},  {48, 10}, {49, 11}, {50, 12}, {51, 13},
    {60, 8},  {70, 14}, {71, 15}, {72, 16}, {80, 17}, {81, 18}, {252, 0}, {253, 6},
    {254, 5}, {255, 7}, {256, 4}, {257, 4}, {258, 3}, {259, 4}};

/// Unlabelled, outliers, other structures and other objects.
constexpr std::int64_t kUncounted[] = {0, 1, 52, 99};

constexpr std::int64_t kColumns = 4;

class SemanticKitti final : public ScanDataset {
 public:
  SemanticKitti(const SemanticKittiOptions& options, const DatasetSetup& setup)
      : ScanDataset("semantic_kitti", options, setup, kColumns) {
    const std::string folder =
        find_data_folder({"semantic_kitti",
                          {"sequences"},
                          options.root,
                          "fetch velodyne and labels from http://www.semantic-kitti.org",
                          /*packed=*/false});
    for (const std::string& drive : options.train) {
      if (std::count(options.test.begin(), options.test.end(), drive) == 0) continue;
      throw OptionError("train", fmt::format("drive {} is one of `test`, too; take it out of one "
                                             "of them",
                                             drive));
    }
    const SemanticKittiOptions usual;
    std::vector<std::string> lost;
    train_ = scans_of(folder, options.train, options.train != usual.train ? "train" : "", lost);
    test_ = scans_of(folder, options.test, options.test != usual.test ? "test" : "", lost);
    if (train_.empty()) throw DataError(folder + ": has no scan of the drives to train on");
    describe_scans(folder, kClasses);
    if (!lost.empty()) info_.source += " without the drives " + join(lost, ", ");
    std::vector<std::string> files;
    for (const auto* scans : {&train_, &test_}) {
      for (const Scan& scan : *scans) {
        files.push_back(scan.points);
        files.push_back(scan.labels);
        check_sizes(scan);
      }
    }
    std::uint64_t fingerprint_of_all = files_fingerprint(files);
    // Where the usual drive is tested on, it shows where training ends.
    if (options.test != usual.test) {
      fingerprint_of_all = fingerprint(fmt::format("{} train", train_.size()), fingerprint_of_all);
    }
    set_fingerprint(fingerprint_of_all);
  }

 protected:
  PointCloud read(Split split, std::int64_t index) const override {
    const Scan& scan = scan_at(split, index);
    check_sizes(scan);
    const Tensor rows = read_scan(scan.points, kColumns);
    const std::string bytes = read_text(scan.labels);
    const Tensor labels = at::empty({rows.size(0)}, at::kLong);
    for (std::int64_t i = 0; i < rows.size(0); ++i) {
      const auto number = scalar_at(bytes.data() + 4 * i, {'u', 2}, false);
      const auto found = kNumbers.find(static_cast<std::int64_t>(number));
      if (found == kNumbers.end() &&
          std::count(std::begin(kUncounted), std::end(kUncounted), std::int64_t(number)) == 0) {
        throw DataError(
            fmt::format("{}: byte {}: {} is not a class; the file is damaged, or of "
                        "another set",
                        scan.labels, 4 * i, number));
      }
      labels.data_ptr<std::int64_t>()[i] = found == kNumbers.end() ? -1 : found->second;
    }
    return labelled_cloud(scan, rows, labels);
  }

 private:
  /// @param option  that names these drives; empty: they are the usual ones, of which a part may be
  ///                there
  /// @param lost    takes usual drives without a scan
  /// @throws OptionError for a named drive without a scan.
  static std::vector<Scan> scans_of(const std::string& folder,
                                    const std::vector<std::string>& drives,
                                    const std::string& option, std::vector<std::string>& lost) {
    std::vector<Scan> scans;
    for (const std::string& drive : drives) {
      if (std::count(drives.begin(), drives.end(), drive) > 1) {
        throw OptionError(option, fmt::format("names drive {} twice", drive));
      }
      const std::string below = fmt::format("{}/sequences/{}", folder, drive);
      const std::vector<std::string> names = names_in(below + "/velodyne", ".bin");
      if (names.empty() && !option.empty()) {
        throw OptionError(option, fmt::format("{}/velodyne: has no scans; fetch drive {}, or name "
                                              "the drives that are there",
                                              below, drive));
      }
      if (names.empty()) lost.push_back(drive);
      for (const std::string& name : names) {
        const std::string frame = name.substr(0, name.size() - 4);
        scans.push_back({fmt::format("{}/velodyne/{}", below, name),
                         fmt::format("{}/labels/{}.label", below, frame)});
      }
    }
    return scans;
  }

  /// A label has four bytes, as many as a column of a scan.
  void check_sizes(const Scan& scan) const { check_count(scan, rows_of_scan(scan.labels, 1)); }
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
