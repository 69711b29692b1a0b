// KITTI: lidar scans with 3D boxes as a class for each point.
//
//   training/velodyne/ID.bin    float32 x, y, z, reflectance
//   training/calib/ID.txt, label_2/ID.txt; ImageSets/train.txt, val.txt: one frame per line
//
// Points in the box of a Car, a Pedestrian or a Cyclist are of that class. Points in boxes of
// other kinds (Van, Truck, Person_sitting, ...) do not count, as in KITTI's own evaluation, nor do
// points in no box that the image shows in a DontCare region. All others are background; a point in
// several boxes belongs to the smallest. Boxes were drawn where the camera looks alone: points
// outside its image are left out, unless `view` says that they stay, without labels. Budgets of
// points count whole scans, those outside the image among them.
// Source: Geiger et al., Are we ready for autonomous driving?, CVPR 2012.
// Cost: scans are read when they are asked for.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "framework/base/files.h"
#include "framework/data/formats/files.h"
#include "framework/data/points/byte_reader.h"
#include "framework/data/points/scan_dataset.h"
#include "framework/plugin.h"
#include "plugins/datasets/points/kitti/boxes.h"

namespace attnlab {
namespace {

struct KittiOptions : PointOptions {
  std::string root;
  std::string archive = "kitti";
  std::vector<std::string> train_frames, test_frames;
  std::string view = "camera";

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("root", root, "folder with training/velodyne (empty: search the usual places)");
    v("archive", archive, "name of the folder to search for");
    v("train_frames", train_frames,
      "training frames; empty: ImageSets/train.txt; without that file the frames not in "
      "test_frames, or every second frame from the first");
    v("test_frames", test_frames,
      "test frames; empty: ImageSets/val.txt; without that file the frames not in train_frames");
    v("view", view, one_of("camera", "all"),
      "points in the camera's image, or all points; those outside have no labels");
    PointOptions::describe(v);
  }
};

constexpr std::int64_t kColumns = 4;

constexpr const char* kClasses[] = {"background", "car", "pedestrian", "cyclist"};

/// The class of a box's points; -1: they do not count.
std::int64_t class_of(const std::string& type) {
  return type == "Car" ? 1 : type == "Pedestrian" ? 2 : type == "Cyclist" ? 3 : -1;
}

/// Width and height of a PNG; KITTI's usual ones where there is no image.
std::pair<double, double> image_size(const std::string& path) {
  if (!std::filesystem::exists(path)) return {1242, 375};
  const std::string bytes = read_text(path);
  if (bytes.size() < 24 || bytes.substr(1, 3) != "PNG")
    throw DataError(path + ": is not a PNG image");
  return {scalar_at(bytes.data() + 16, {'u', 4}, true),
          scalar_at(bytes.data() + 20, {'u', 4}, true)};
}

/// Names of the frames, a line each; none where there is no such file.
std::vector<std::string> listed(const std::string& file) {
  return std::filesystem::exists(file) ? listed_names(file) : std::vector<std::string>();
}

class Kitti final : public ScanDataset {
 public:
  Kitti(const KittiOptions& options, const DatasetSetup& setup)
      : ScanDataset("kitti", options, setup, kColumns), crops_(options.view == "camera") {
    folder_ = find_data_folder(
        {options.archive,
         {"training/velodyne", "training/calib", "training/label_2"},
         options.root,
         "fetch velodyne, calib and label_2 of the object benchmark from https://www.cvlibs.net",
         /*packed=*/false});
    choose_frames(options);
    describe_scans(folder_, kClasses);
    check_files(options);
  }

 protected:
  PointCloud read(Split split, std::int64_t index) const override {
    const Scan& scan = scan_at(split, index);
    Tensor rows = read_scan(scan.points, kColumns);
    const Calibration calibration = read_calibration(path("calib", scan.name, ".txt"));
    Tensor camera = in_camera(rows, calibration);
    const auto [width, height] = image_size(path("image_2", scan.name, ".png"));
    const Tensor seen = in_image(camera, calibration, {0, 0, width, height});
    Tensor labels = seen.to(at::kLong) - 1;  // 0 within the image, -1 outside
    if (crops_) {
      const Tensor kept = seen.nonzero().squeeze(1);
      rows = rows.index_select(0, kept);
      camera = camera.index_select(0, kept);
      labels = at::zeros({kept.size(0)}, at::kLong);
    }
    const Tensor inside = labels.ge(0);  // what a van has taken may be a person's again
    std::vector<Box> boxes = read_boxes(scan.labels);
    // The last one wins: regions before boxes, and the smallest box of all.
    std::stable_sort(boxes.begin(), boxes.end(), [](const Box& a, const Box& b) {
      if (a.in_space() != b.in_space()) return b.in_space();
      return a.height * a.width * a.length > b.height * b.width * b.length;
    });
    for (const Box& box : boxes) {
      const Tensor taken =
          box.in_space() ? in_box(camera, box) : in_image(camera, calibration, box.image);
      labels.masked_fill_(taken.logical_and(inside), class_of(box.type));
    }
    return labelled_cloud(scan, rows, labels);
  }

 private:
  std::string path(const char* kind, const std::string& frame, const char* ending) const {
    return fmt::format("{}/training/{}/{}{}", folder_, kind, frame, ending);
  }

  Scan scan_of(const std::string& frame) const {
    return {path("velodyne", frame, ".bin"), path("label_2", frame, ".txt"), frame};
  }

  /// The frames that have a scan, but for these.
  std::vector<std::string> frames_but(const std::vector<std::string>& taken) const {
    std::vector<std::string> frames;
    for (std::string name : names_in(folder_ + "/training/velodyne", ".bin")) {
      name.resize(name.size() - 4);
      if (std::find(taken.begin(), taken.end(), name) == taken.end()) frames.push_back(name);
    }
    return frames;
  }

  void choose_frames(const KittiOptions& options) {
    std::vector<std::string> train = options.train_frames, test = options.test_frames;
    if (train.empty()) train = listed(folder_ + "/ImageSets/train.txt");
    if (test.empty()) test = listed(folder_ + "/ImageSets/val.txt");
    divided_ = !train.empty() || !test.empty();
    if (train.empty() && test.empty()) {
      const std::vector<std::string> all = frames_but({});
      for (std::size_t i = 0; i < all.size(); ++i) (i % 2 == 0 ? train : test).push_back(all[i]);
    } else if (train.empty()) {
      train = frames_but(test);
    } else if (test.empty()) {
      test = frames_but(train);
    }
    const char* train_list = options.train_frames.empty() ? "ImageSets/train.txt" : "train_frames";
    const char* test_list = options.test_frames.empty() ? "ImageSets/val.txt" : "test_frames";
    for (const std::string& frame : train) {
      if (std::find(test.begin(), test.end(), frame) != test.end()) {
        throw DataError(
            fmt::format("{}: frame {} is one of {} and of {}; take it out of one of them", folder_,
                        frame, train_list, test_list));
      }
    }
    add_scans(train, train_list, train_);
    add_scans(test, test_list, test_);
  }

  /// @throws DataError where one stands there twice, which would count twice.
  void add_scans(const std::vector<std::string>& frames, const char* list,
                 std::vector<Scan>& scans) const {
    std::set<std::string> before;
    for (const std::string& frame : frames) {
      if (!before.insert(frame).second) {
        throw DataError(fmt::format("{}: frame {} stands twice in {}; remove it there once",
                                    folder_, frame, list));
      }
      scans.push_back(scan_of(frame));
    }
  }

  void check_files(const KittiOptions& options) {
    std::vector<std::string> files;
    for (const auto* scans : {&train_, &test_}) {
      for (const Scan& scan : *scans) {
        files.push_back(scan.points);
        rows_of_scan(scan.points, kColumns);
        files.push_back(path("calib", scan.name, ".txt"));
        files.push_back(scan.labels);
        const std::string image = path("image_2", scan.name, ".png");
        if (std::filesystem::exists(image)) files.push_back(image);
      }
    }
    if (train_.empty()) throw DataError(folder_ + ": has no frame to train on");
    std::string words = options.view + ", the smallest box";
    // Files come in the order of the lists; where training ends does not show in them.
    if (divided_) words += fmt::format(", {} to train on", train_.size());
    set_fingerprint(content_fingerprint(words, files_fingerprint(files)));
  }

  std::string folder_;
  bool crops_;
  bool divided_ = false;  ///< by lists of frames, not by the rule
};

}  // namespace

ATTNLAB_PLUGIN(dataset, Kitti, KittiOptions,
               {.id = "attnlab/kitti",
                .version = "1.1.0",
                .summary = "KITTI's lidar scans, a class for each point from the boxes",
                .citation = "Geiger et al. 2012, CVPR",
                .licence = "CC-BY-NC-SA-3.0",
                .gives = {"coord@point", "label@point", "inverse@point>voxel", "grid@voxel",
                          "feature@voxel", "label@voxel", "view?"}})

}  // namespace attnlab
