// Point files: clouds in the files that tools write, with a label for each point or each cloud.
//
//   train/, test/ and perhaps validation/, with files of any kind of
//   framework/data/points/point_files.h; or with a folder for each class (train/chair/a.ply)
//
// With the option `label` a column of each file holds the points' classes, 0 to the number of
// `classes` - 1; `ignored` values do not count. Without it folders are the classes of whole clouds.
// Coordinates beyond 10 000 (of maps) are counted from a corner near the cloud, in whole units, as
// float32 could not tell points apart there.
// Cost: files are read when they are asked for, and once when they are opened, to find damage.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "framework/base/text.h"
#include "framework/data/formats/files.h"
#include "framework/data/points/point_dataset.h"
#include "framework/data/points/point_files.h"
#include "framework/data/points/scan_files.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

struct PointFilesOptions : PointOptions {
  std::string root;
  std::string label;
  std::vector<std::string> classes, features;
  std::vector<std::int64_t> ignored;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("root", root, "folder with train/ and test/ (empty: search for point_files)");
    v("label", label, "column with the class of each point; empty: folders are classes of clouds");
    v("classes", classes, "names of the points' classes: 0, 1, 2, ...");
    v("features", features, "columns beside x, y and z that are features");
    v("ignored", ignored, "values of `label` that do not count");
    PointOptions::describe(v);
  }
};

struct CloudFile {
  std::string path;
  std::int64_t label = 0, points = 0;
};

class PointFiles final : public PointDataset {
 public:
  PointFiles(const PointFilesOptions& options, const DatasetSetup& setup)
      : PointDataset("point_files", options, setup), options_(options) {
    const std::string folder = find_data_folder({"point_files",
                                                 {"train"},
                                                 options.root,
                                                 "put clouds into train/ and test/",
                                                 /*packed=*/false});
    if (!options.label.empty() && options.classes.empty()) {
      throw OptionError(
          "classes", fmt::format("is empty; name the classes 0, 1, 2, ... of '{}'", options.label));
    }
    if (fs::exists(folder + "/val")) {
      throw DataError(folder + "/val: would be passed over; rename it to validation");
    }
    info_.class_names = options.classes;
    std::vector<std::string> all;
    for (const Split split : {Split::train, Split::validation, Split::test}) {
      files_.push_back(files_of(split, fmt::format("{}/{}", folder, name_of(split))));
      for (const CloudFile& file : files_.back()) all.push_back(file.path);
    }
    info_.source = folder;
    const std::vector<std::string> others = other_folders(folder);
    if (!others.empty()) info_.source += " without " + join(others, ", ");
    info_.classes = static_cast<std::int64_t>(info_.class_names.size());
    if (files_[0].empty()) throw DataError(folder + "/train: has no files of points");
    describe_fields(static_cast<std::int64_t>(options.features.size()), by_point());
    for (auto& files : files_) {
      for (CloudFile& file : files) file.points = without_lost_points(read_file(file)).size();
    }
    // Files are hashed by their names alone: folders of splits and classes do not show in them.
    std::string words = fmt::format("{};{};{}", join(info_.class_names, ","),
                                    join(options.features, ","), options.label);
    for (const std::int64_t value : options.ignored) {
      words += ';';
      words += std::to_string(value);
    }
    for (const auto& files : files_) {
      words += "\n";
      for (const CloudFile& file : files) words += fmt::format("{},", file.label);
    }
    set_fingerprint(content_fingerprint(words, files_fingerprint(all)));
  }

 protected:
  std::int64_t clouds(Split split) const override {
    return static_cast<std::int64_t>(files(split).size());
  }
  std::int64_t points(Split split, std::int64_t index) const override {
    return files(split).at(static_cast<std::size_t>(index)).points;
  }
  PointCloud read(Split split, std::int64_t index) const override {
    return read_file(files(split).at(static_cast<std::size_t>(index)));
  }

 private:
  bool by_point() const { return !options_.label.empty(); }
  const std::vector<CloudFile>& files(Split split) const {
    return files_.at(static_cast<std::size_t>(split));
  }

  /// Folders beside those of the splits: nothing in them is read.
  static std::vector<std::string> other_folders(const std::string& folder) {
    std::vector<std::string> others;
    for (const std::string& name : names_in(folder, "")) {
      const bool split = name == "train" || name == "validation" || name == "test";
      if (!split && fs::is_directory(folder + "/" + name)) others.push_back(name);
    }
    return others;
  }

  /// @throws DataError where files and folders are mixed, since one kind would be passed over.
  std::vector<CloudFile> files_of(Split split, const std::string& folder) {
    std::vector<CloudFile> files;
    for (const std::string& name : names_in(folder, "")) {
      const std::string path = folder + "/" + name;
      const bool is_folder = fs::is_directory(path);
      if (by_point() && !is_folder) {
        files.push_back({path});
      } else if (!by_point() && is_folder) {
        add_class(split, folder, name, files);
      } else {
        throw DataError(
            path + (by_point() ? ": is a folder, and with the option `label` clouds are files "
                                 "of the split's folder itself; move its files there"
                               : ": is not a folder, and folders are the classes; move it into "
                                 "the folder of its class, or set the option `label`"));
      }
    }
    return files;
  }

  /// Training folders name the classes. @param name  of the class's folder in that of the split
  void add_class(Split split, const std::string& folder, const std::string& name,
                 std::vector<CloudFile>& files) {
    const std::string path = folder + "/" + name;
    auto& names = info_.class_names;
    const auto known = std::find(names.begin(), names.end(), name);
    const std::int64_t label = known - names.begin();
    if (known == names.end()) {
      if (split != Split::train) {
        throw DataError(
            fmt::format("{}: is not a class of the training folder{}; remove or rename it", path,
                        suggestion(name, names)));
      }
      names.push_back(name);
    }
    const std::vector<std::string> clouds = names_in(path, "");
    if (clouds.empty()) throw DataError(path + ": holds no files of points; remove it");
    for (const std::string& file : clouds) {
      files.push_back({path + "/" + file, label});
      if (!fs::is_directory(files.back().path)) continue;
      throw DataError(files.back().path +
                      ": is a folder in that of a class; move its files up, or remove it");
    }
  }

  /// [N, names] of the named columns.
  static Tensor columns(const PointTable& table, const std::vector<std::string>& names,
                        const std::string& path) {
    std::vector<std::int64_t> rows;
    for (const std::string& name : names) rows.push_back(table.column(name, path));
    return table.values.index_select(1, at::tensor(rows, at::kLong));
  }

  PointCloud read_file(const CloudFile& file) const {
    const PointTable table = read_points(file.path);
    PointCloud cloud;
    cloud.place = file.path;
    cloud.label = file.label;
    Tensor places = columns(table, {"x", "y", "z"}, file.path);
    const Tensor finite = places.masked_fill(places.isfinite().logical_not(), 0);
    if (finite.numel() > 0 && finite.abs().max().item<double>() > 1e4) {
      places = places - std::get<0>(finite.median(0)).floor();
    }
    cloud.coordinates = places.to(at::kFloat);
    if (!options_.features.empty()) {
      cloud.features = columns(table, options_.features, file.path).to(at::kFloat);
    }
    if (by_point()) cloud.labels = labels_of(table, file.path);
    return cloud;
  }

  Tensor labels_of(const PointTable& table, const std::string& path) const {
    const Tensor values = columns(table, {options_.label}, path).select(1, 0).contiguous();
    const Tensor labels = at::empty({values.size(0)}, at::kLong);
    for (std::int64_t i = 0; i < values.size(0); ++i) {
      const double value = values.data_ptr<double>()[i];
      const bool is_whole = std::abs(value) < 0x1p53 && value == std::floor(value);
      const std::int64_t whole = is_whole ? static_cast<std::int64_t>(value) : 0;
      const bool ignored = is_whole && std::find(options_.ignored.begin(), options_.ignored.end(),
                                                 whole) != options_.ignored.end();
      const bool fits = is_whole && whole >= 0 && whole < std::int64_t(options_.classes.size());
      if (!ignored && !fits) {
        throw DataError(
            fmt::format("{}: the label of point {} is {}, `classes` names 0 to {}; name more, or "
                        "list it in `ignored`",
                        path, i, shortest(value), options_.classes.size() - 1));
      }
      labels.data_ptr<std::int64_t>()[i] = ignored ? -1 : whole;
    }
    return labels;
  }

  PointFilesOptions options_;
  std::vector<std::vector<CloudFile>> files_;  ///< by split
};

}  // namespace

ATTNLAB_PLUGIN(dataset, PointFiles, PointFilesOptions,
               {.id = "attnlab/point_files",
                .version = "1.0.0",
                .summary = "clouds from PLY, PCD, LAS, NPY, NPZ, OFF and text files",
                .citation = "none",
                .licence = "that of your data",
                .gives = {"coord@point", "label@point?", "inverse@point>voxel", "grid@voxel",
                          "feature@voxel", "label@voxel?", "class?", "view?"}})

}  // namespace attnlab
