// ModelNet: furniture and other things as points, one of 10 or 40 classes a cloud.
//
//   resampled  modelnet40_train.txt, ..._test.txt (NAME_0001 a line), modelnet40_shape_names.txt,
//              NAME/NAME_0001.txt: x,y,z,nx,ny,nz a line
//   meshes     NAME/train/*.off, NAME/test/*.off: points are sampled on the faces
//   arrays     points1024.npz: points [B, N, 3], label [B], is_test [B]
//
// Which of them it is, is seen from the files. Each cloud is moved to its middle and scaled into
// the unit sphere, as usual. A mesh is sampled by a random stream of its own, the same in every
// run, whatever its seed. Arrays have no normals, and their classes numbers for names.
// Source: Wu et al., 3D ShapeNets, CVPR 2015 (arXiv:1406.5670); the resampled set: Qi et al.,
// PointNet++, NeurIPS 2017 (arXiv:1706.02413).
// Cost: files are read when they are asked for; arrays are held in memory.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/data/formats/files.h"
#include "framework/data/formats/npy.h"
#include "framework/data/points/mesh.h"
#include "framework/data/points/point_dataset.h"
#include "framework/data/points/point_files.h"
#include "framework/data/points/scan_files.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

/// Of ModelNet10, which ModelNet40 holds, too.
constexpr std::string_view kTen[] = {"bathtub", "bed",         "chair", "desk",  "dresser",
                                     "monitor", "night_stand", "sofa",  "table", "toilet"};

struct ModelnetOptions : PointOptions {
  std::string root;
  std::string archive = "modelnet";
  std::int64_t classes = 40, points = 1024;
  bool normals = true;

  constexpr ModelnetOptions() { grid = 0.02; }

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("root", root, "folder with the files (empty: search the usual places)");
    v("archive", archive, "name of the folder to search for");
    v("classes", classes, range(2, 64),
      "10: only the classes of ModelNet10 (in the resampled set: its own list); not used with "
      "arrays");
    v("points", points, range(1, 1e6),
      "points of a cloud: the first of a file, or this many sampled from a mesh");
    v("normals", normals, "use normals as features, if the files have them");
    PointOptions::describe(v);
  }
};

struct Shape {
  std::string file;       ///< or of arrays:
  std::int64_t row = -1;  ///< of the array
  std::int64_t label = 0;
};

class Modelnet final : public PointDataset {
 public:
  Modelnet(const ModelnetOptions& options, const DatasetSetup& setup)
      : PointDataset("modelnet", options, setup), options_(options) {
    folder_ = find_data_folder({options.archive,
                                {},
                                options.root,
                                "fetch ModelNet from https://modelnet.cs.princeton.edu"});
    std::uint64_t hash = 0;
    const std::string prefix = fmt::format("{}/modelnet{}", folder_, options.classes);
    if (fs::exists(prefix + "_train.txt")) {
      open_resampled(prefix);
      hash = content_fingerprint(labels_text(), files_fingerprint(files()));
    } else if (fs::exists(folder_ + "/points1024.npz")) {
      hash = open_arrays(folder_ + "/points1024.npz");
    } else {
      open_meshes();
      hash = content_fingerprint("sampled by no seed;" + labels_text(), files_fingerprint(files()));
    }
    if (train_.empty()) {
      throw DataMissingError(fmt::format(
          "{}: has neither modelnet{}_train.txt, nor points1024.npz, nor CLASS/train/*.off",
          folder_, options.classes));
    }
    info_.source = folder_;
    if (!left_out_.empty()) info_.source += " without " + join(left_out_, ", ");
    info_.classes = static_cast<std::int64_t>(info_.class_names.size());
    describe_fields(has_normals_ && options.normals ? 3 : 0, /*each_point=*/false);
    set_fingerprint(
        content_fingerprint(fmt::format("{}{}", options.points, options.normals ? "n" : ""), hash));
  }

 protected:
  std::int64_t clouds(Split split) const override {
    return split == Split::validation ? 0 : static_cast<std::int64_t>(shapes(split).size());
  }
  std::int64_t points(Split, std::int64_t) const override { return options_.points; }

  PointCloud read(Split split, std::int64_t index) const override {
    const Shape& shape = shapes(split).at(static_cast<std::size_t>(index));
    PointCloud cloud = shape.row >= 0              ? of_array(shape)
                       : shape.file.ends_with("f") ? of_mesh(shape, split, index)
                                                   : of_text(shape);
    cloud.label = shape.label;
    if (!options_.normals) cloud.normals = Tensor();
    cloud = without_lost_points(std::move(cloud));  // one would make the middle no number
    const Tensor middle = cloud.coordinates.mean(0, true);
    cloud.coordinates = cloud.coordinates - middle;
    const auto radius = cloud.coordinates.norm(2, 1).max().item<double>();
    // Of points in one place rounding may leave a radius, which is none to divide by.
    if (radius > 1e-6 * middle.norm().item<double>()) {
      cloud.coordinates = cloud.coordinates / radius;
    }
    return cloud;
  }

 private:
  const std::vector<Shape>& shapes(Split split) const {
    return split == Split::train ? train_ : test_;
  }

  std::vector<std::string> files() const {
    std::vector<std::string> all;
    for (const auto* shapes : {&train_, &test_}) {
      for (const Shape& shape : *shapes) all.push_back(shape.file);
    }
    return all;
  }

  /// The classes, and those of all shapes in order: what `files` do not say.
  std::string labels_text() const {
    std::string text = join(info_.class_names, "\n");
    for (const auto* shapes : {&train_, &test_}) {
      text += "\n;";
      for (const Shape& shape : *shapes) text += fmt::format("{},", shape.label);
    }
    return text;
  }

  void open_resampled(const std::string& prefix) {
    info_.class_names = listed_names(prefix + "_shape_names.txt");
    std::map<std::string, std::string> before;  // shapes, and the list that each stands in
    for (const bool training : {true, false}) {
      const std::string list = prefix + (training ? "_train.txt" : "_test.txt");
      for (const std::string& shape : listed_names(list)) {
        if (const auto [same, added] = before.emplace(shape, list); !added) {
          throw DataError(fmt::format("{}: {} stands in {} already; remove it in one place", list,
                                      excerpt(shape), same->second));
        }
        const std::string name = shape.substr(0, shape.rfind('_'));
        const auto& names = info_.class_names;
        const auto label = std::find(names.begin(), names.end(), name);
        if (label == names.end()) {
          throw DataError(
              fmt::format("{}: {} is of no class of {}_shape_names.txt; correct it there", list,
                          excerpt(shape), prefix));
        }
        const std::string file = fmt::format("{}/{}/{}.txt", folder_, name, shape);
        (training ? train_ : test_).push_back({file, -1, label - names.begin()});
      }
    }
    has_normals_ = true;
  }

  void open_meshes() {
    for (const std::string& name : names_in(folder_, "")) {
      const std::string folder = fmt::format("{}/{}", folder_, name);
      if (options_.classes == 10 && std::count(std::begin(kTen), std::end(kTen), name) == 0)
        continue;
      if (!fs::is_directory(folder + "/train") && !fs::is_directory(folder + "/test")) {
        if (fs::is_directory(folder)) left_out_.push_back(name);
        continue;
      }
      const auto label = static_cast<std::int64_t>(info_.class_names.size());
      info_.class_names.push_back(name);
      for (const bool training : {true, false}) {
        const std::string below = folder + (training ? "/train" : "/test");
        const std::vector<std::string> files = names_in(below, ".off");
        if (files.empty()) {
          throw DataError(below +
                          ": has no .off files; fetch the class again, or remove its folder");
        }
        for (const std::string& file : files) {
          (training ? train_ : test_).push_back({below + "/" + file, -1, label});
        }
        const std::size_t others = names_in(below, "").size() - files.size();
        if (others == 0) continue;
        left_out_.push_back(
            fmt::format("{} of {}/{} (not .off)", others, name, training ? "train" : "test"));
      }
    }
    has_normals_ = true;
  }

  std::uint64_t open_arrays(const std::string& path) {
    expect_readable_whole(path);
    const std::string bytes = read_data_file(path);
    const NamedTensors arrays = read_npz(bytes, path);
    for (const char* name : {"points", "label", "is_test"}) {
      if (arrays.find(name) != nullptr) continue;
      throw DataError(fmt::format("{}: has no array '{}'", path, name));
    }
    for (const char* name : {"label", "is_test"}) {
      if (at::isIntegralType(arrays.at(name).scalar_type(), /*includeBool=*/true)) continue;
      throw DataError(fmt::format("{}: '{}' holds no whole numbers but {}", path, name,
                                  describe(arrays.at(name))));
    }
    array_ = arrays.at("points").to(at::kFloat);
    // One number a cloud, however they lie: [B], [B, 1] and [1, B] are the same.
    const Tensor labels = arrays.at("label").to(at::kLong).reshape({-1}),
                 test = arrays.at("is_test").to(at::kLong).reshape({-1});
    const std::int64_t count = array_.dim() == 3 ? array_.size(0) : -1;
    if (count < 1 || array_.size(1) < 1 || array_.size(2) != 3 || labels.numel() != count ||
        test.numel() != count || labels.min().item<std::int64_t>() < 0) {
      throw DataError(fmt::format(
          "{}: expected points [B, N, 3], label [B] and is_test [B], found {}, {} and {}", path,
          describe(array_), describe(labels), describe(test)));
    }
    constexpr std::int64_t kMostClasses = 10'000;
    const auto last = labels.max().item<std::int64_t>();
    if (last >= kMostClasses || test.min().item<std::int64_t>() < 0 ||
        test.max().item<std::int64_t>() > 1) {
      throw DataError(
          fmt::format("{}: expected labels below {} and 0 or 1 as is_test, found a label "
                      "of {} and is_test from {} to {}",
                      path, kMostClasses, last, test.min().item<std::int64_t>(),
                      test.max().item<std::int64_t>()));
    }
    for (std::int64_t k = 0; k <= last; ++k) {
      info_.class_names.push_back(std::to_string(k));
    }
    for (std::int64_t i = 0; i < count; ++i) {
      (test[i].item<std::int64_t>() == 0 ? train_ : test_)
          .push_back({path, i, labels[i].item<std::int64_t>()});
    }
    return content_fingerprint(bytes);
  }

  PointCloud of_array(const Shape& shape) const {
    const Tensor points = array_[shape.row];
    PointCloud cloud;
    cloud.coordinates = points.narrow(0, 0, std::min(options_.points, points.size(0)));
    cloud.place = fmt::format("{}: cloud {}", shape.file, shape.row);
    return cloud;
  }

  static constexpr std::uint64_t kMeshSeed = 0;

  PointCloud of_mesh(const Shape& shape, Split split, std::int64_t index) const {
    // The data's own stream: seeds and attentions are compared on the same points.
    Random random = RandomStreams(kMeshSeed).stream("sampling", static_cast<std::uint64_t>(split),
                                                    static_cast<std::uint64_t>(index));
    expect_readable_whole(shape.file);
    const Mesh mesh = parse_off(read_data_file(shape.file), shape.file);
    const SampledPoints points = sampled(mesh, options_.points, random, shape.file);
    PointCloud cloud;
    cloud.coordinates = points.coordinates;
    cloud.normals = points.normals;
    cloud.place = shape.file;
    return cloud;
  }

  PointCloud of_text(const Shape& shape) const {
    const Tensor values = read_points(shape.file).values.to(at::kFloat);
    if (values.size(1) != 6) {
      throw DataError(shape.file + ": expected six numbers per line (x,y,z,nx,ny,nz)");
    }
    const Tensor first = values.narrow(0, 0, std::min(options_.points, values.size(0)));
    PointCloud cloud;
    cloud.coordinates = first.narrow(1, 0, 3).contiguous();
    cloud.normals = first.narrow(1, 3, 3).contiguous();
    cloud.place = shape.file;
    return cloud;
  }

  ModelnetOptions options_;
  std::string folder_;
  bool has_normals_ = false;
  std::vector<std::string> left_out_;  ///< for `info().source`
  std::vector<Shape> train_, test_;
  Tensor array_;  ///< [B, N, 3]
};

}  // namespace

ATTNLAB_PLUGIN(dataset, Modelnet, ModelnetOptions,
               {.id = "attnlab/modelnet",
                .version = "1.0.0",
                .summary = "objects as points with normals, one of 10 or 40 classes per cloud",
                .citation = "Wu et al. 2015, arXiv:1406.5670; Qi et al. 2017, arXiv:1706.02413",
                .licence = "academic use",
                .gives = {"coord@point", "inverse@point>voxel", "grid@voxel", "feature@voxel",
                          "class", "view?"}})

}  // namespace attnlab
