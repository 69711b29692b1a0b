// Every installed dataset keeps the contract. Those that read files get small ones.
#include <set>

#include "framework/conformance/check_plugin.h"
#include "framework/conformance/memory.h"
#include "framework/data/image/png.h"
#include "tests/plugins/points/made_sets.h"
#include "tests/support/data_files.h"
#include "tests/support/graph_sets.h"
#include "tests/support/pickles.h"
#include "tests/support/planetoid_files.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"

namespace attnlab::datasets_test {
namespace {

using conformance::CheckResult;
using conformance::Outcome;
using testing::idx_file;
using testing::TempFolder;

struct Configured {
  std::string name;  ///< of the test
  std::string id;
  std::string options = "{}";  ///< `ROOT` stands for the folder of files
};

void PrintTo(const Configured& dataset, std::ostream* out) {
  *out << dataset.id << " " << dataset.options;
}

std::string bytes(std::size_t count, std::size_t classes) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += static_cast<char>(classes > 0 ? i % classes : testing::test_pixel(i / 16, i));
  }
  return text;
}

/// Graphs: molecules, citations, two collections, one of LRGB's lists.
void write_graphs(const TempFolder& folder) {
  folder.write("molecules/molecules.csv",
               "smiles,y\nCC(N)C(=O)O,1\nc1ccccc1,2\n[Na+],3\nC/C=C/C,4\nCCO,5\nOCC,6\n");
  testing::PlanetoidFiles().write(folder, "planetoid/");
  folder.write("tu/MINI_A.txt", "1, 2\n2, 1\n5, 4\n4, 5\n");
  folder.write("tu/MINI_graph_indicator.txt", "1\n1\n2\n3\n3\n4\n");
  folder.write("tu/MINI_graph_labels.txt", "0\n1\n1\n0\n");
  folder.write("tu/MINI_node_labels.txt", "0\n1\n1\n0\n2\n1\n");
  folder.write("dgcnn/MINI.txt", "4\n2 1\n0 1 1\n1 1 0\n1 0\n2 0\n1 1\n0 0\n1 0\n0 0\n");
  using namespace testing::pickles;
  for (const std::string part : {"train", "val", "test"}) {
    const std::vector<float> x = {1, 2, 3, 4, 5, 6}, e = {0.5f, 0.25f};
    const std::vector<std::int64_t> ends = {0, 1, 1, 2}, labels = {0, 20, 3};
    const std::string graph = tuple({array("f4", {3, 2}, x), array("f4", {2, 1}, e),
                                     array("i8", {2, 2}, ends), array("i8", {3}, labels)});
    folder.write("voc/" + part + ".pickle", file(list({graph, graph})));
  }
}

/// Small files of every dataset that reads some.
const TempFolder& files() {
  static const TempFolder folder;
  static const bool written = [] {
    for (const auto& [prefix, count] : {std::pair{"train", 20u}, std::pair{"t10k", 12u}}) {
      const std::string start = "idx/" + std::string(prefix);
      folder.write(start + "-images-idx3-ubyte", idx_file({count, 4, 4}, bytes(16 * count, 0)));
      folder.write(start + "-labels-idx1-ubyte",
                   testing::gzipped(idx_file({count}, bytes(count, 10))));
    }
    for (const std::string file : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                                   "data_batch_5", "test_batch"}) {
      std::string records;
      for (std::size_t i = 0; i < 3; ++i) {
        records += static_cast<char>((i + file.size()) % 10) + bytes(3072, 0);
      }
      folder.write("cifar/" + file + ".bin", records);
    }
    const std::string header = "@dimensions 2\n@classLabel true a b\n@data\n";
    folder.write("uea/Set/Set_TRAIN.ts",
                 header + "1,2,3:10,20,60:a\n4,8:30,40:b\n0,1,2,3:5,5,5,9:a\n1,4:1,2:b\n");
    folder.write("uea/Set/Set_TEST.ts", header + "7:70:b\n1,2,6:3,2,1:a\n");
    folder.write("table/rows.csv", "a,b,kind\n1,2,x\n3,4,y\n5,6,x\n7,8,y\n9,1,x\n2,2,y\n");
    folder.write("table/series.csv",
                 "id,t,v,kind\n1,1,5,x\n1,2,6,x\n2,1,7,y\n3,1,1,x\n3,2,2,x\n3,3,1,x\n4,1,8,y\n");
    std::string steps = "date,load,OT\n";
    for (int t = 0; t < 40; ++t) {
      steps += "2016-07-01 0" + std::to_string(t % 10) + ":00:00," + std::to_string(t * t % 13) +
               "," + std::to_string(t) + ".5\n";
    }
    folder.write("steps/mine.csv", steps);
    for (const char* split : {"train", "valid", "test"}) {
      folder.write("text/" + std::string(split) + ".txt",
                   "one two three\nfour five\nsix two one\n");
    }
    testing::write_kitti(folder, "kitti");
    testing::write_semantic(folder);
    testing::write_nuscenes(folder);
    testing::write_modelnet(folder);
    testing::write_points(folder);
    for (const std::string place : {"train/a/1", "train/a/2", "train/b/1", "val/a/1", "val/b/1"}) {
      Pixels image(9, 12, 3);
      for (std::uint8_t& byte : image.bytes) {
        byte = testing::test_pixel(place.size(), std::size_t(&byte - image.bytes.data()));
      }
      folder.write("images/" + place + ".png", png_of(image));
    }
    write_graphs(folder);
    return true;
  }();
  EXPECT_TRUE(written);
  return folder;
}

Part part_of_test(const Configured& dataset) {
  std::string options = dataset.options;
  const std::size_t at = options.find("ROOT");
  if (at != std::string::npos) options.replace(at, 4, files().path());
  return testing::make_part(Kind::dataset, dataset.id, options);
}

class EveryDataset : public ::testing::TestWithParam<Configured> {};

TEST_P(EveryDataset, KeepsTheContract) {
  if (!testing::is_installed(Kind::dataset, GetParam().id)) {
    GTEST_SKIP() << GetParam().id << " was left out of this build; its library is not here";
  }
  const Part part = part_of_test(GetParam());
  for (const conformance::CheckInfo& check : conformance::checks_of(Kind::dataset)) {
    const CheckResult result =
        conformance::check_plugin(testing::registry(), part, check.name, {.options_given = true});
    EXPECT_NE(result.outcome, Outcome::failed) << result.check << ": " << result.message;
    const Node* const root = part.options.find("root");
    const bool reads_files = root != nullptr && !root->text().empty();
    if (check.name == "damage") {
      EXPECT_EQ(result.outcome, reads_files ? Outcome::passed : Outcome::not_applicable);
    } else if (check.name != "resident") {
      // Under a sanitizer the C library does not count memory.
      const bool uncounted = check.name == "memory" && !conformance::counts_memory();
      EXPECT_EQ(result.outcome, uncounted ? Outcome::skipped : Outcome::passed)
          << result.check << ": " << result.message;
    }
  }
}

const Configured kConfigured[] = {
    {"idx_images", "idx_images", "{root: ROOT/idx, name: toy}"},
    {"idx_images_with_moves", "idx_images",
     "{root: ROOT/idx, name: toy, validation: 5, augmentation: {crop_padding: 2, flip: true}}"},
    {"cifar", "cifar",
     "{root: ROOT/cifar, partial: true, augmentation: {crop_padding: 4, flip: true}}"},
    {"idx_images_augmented", "idx_images",
     "{root: ROOT/idx, name: toy, augmentation: {resized_crop: true, policy: rand, erase: 0.5}}"},
    {"cifar_augmented", "cifar",
     "{root: ROOT/cifar, partial: true, augmentation: {crop_padding: 4, policy: auto_cifar10}}"},
    {"cifar_in_crops", "cifar",
     "{root: ROOT/cifar, partial: true, multi_crop: {global_crops: 2, local_crops: 3, "
     "local_size: 16, patch_size: 8}}"},
    {"uea", "uea", "{root: ROOT/uea, name: Set, validation: 0.3}"},
    {"table", "table", "{file: ROOT/table/rows.csv, label: kind, validation: 0.3}"},
    {"table_of_series", "table",
     "{file: ROOT/table/series.csv, label: kind, group: id, time: t, test: 0.3}"},
    {"forecasting", "forecasting",
     "{root: ROOT/steps, name: mine, lookback: 4, horizon: 2, calendar: true}"},
    {"forecasting_made_up", "forecasting",
     "{name: made_up, lookback: 24, horizon: 12, target: '1', made: {channels: 2, steps: 300}}"},
    {"uea_padded_to_the_longest", "uea", "{root: ROOT/uea, name: Set, padding: maximum}"},
    {"molecules", "molecules",
     "{root: ROOT/molecules, name: table, file: molecules.csv, targets: [y], validation: 0.2, "
     "rwse: 3, laplacian: 2}"},
    {"text_by_word", "text_stream", "{root: ROOT/text, window: 3}"},
    {"text_by_character", "text_stream",
     "{root: ROOT/text, unit: character, window: 4, order: random, min_count: 2}"},
    {"text_by_line", "text_stream", "{root: ROOT/text, window: 4, lines: true, word_swap: 0.5}"},
    {"planetoid", "planetoid", "{root: ROOT/planetoid, name: cora, rwse: 2}"},
    {"planetoid_links", "planetoid", "{root: ROOT/planetoid, name: cora, links: 0.2}"},
    {"tudataset", "tudataset", "{root: ROOT/tu, name: MINI, folds: 4, laplacian: 2}"},
    {"dgcnn", "tudataset", "{root: ROOT/dgcnn, layout: dgcnn, name: MINI, folds: 4}"},
    {"benchmark_graphs", "benchmark_graphs", "{root: ROOT/voc, name: pascalvoc-sp, rwse: 2}"},
    {"superpixels", "superpixels", "{root: ROOT/idx, name: mnist, validation: 4, laplacian: 2}"},
    {"sbm_pattern", "sbm", "{name: pattern, train: 6, validation: 3, test: 3, patterns: 2}"},
    {"sbm_cluster", "sbm", "{name: cluster, train: 6, validation: 3, test: 3, rwse: 4}"},
    {"synthetic_images", "synthetic_images", "{train: 40, test: 20, size: 8}"},
    {"kitti", "kitti", "{root: ROOT/kitti, augmentation: {rotate: 180, flip: true, drop: 0.2}}"},
    {"semantic_kitti", "semantic_kitti",
     "{root: ROOT/semantic, voxel: sample, augmentation: {jitter: 0.1}}"},
    {"nuscenes_lidarseg", "nuscenes_lidarseg", "{root: ROOT/nuscenes, views: 10}"},
    {"modelnet_meshes", "modelnet", "{root: ROOT/meshes, points: 20}"},
    {"modelnet_texts", "modelnet", "{root: ROOT/texts, classes: 10, points: 3}"},
    {"point_files", "point_files", "{root: ROOT/folders, corruption: {scale: 0.1}}"},
    {"point_files_with_labels", "point_files",
     "{root: ROOT/points, label: label, classes: [ground, tree], ignored: [9], grid: 100}"},
    {"synthetic_scenes", "synthetic_scenes", "{train: 6, test: 4, rays: 300, grid: 0.2}"},
    {"painted_scenes", "painted_scenes", "{train: 12, test: 8, size: 16}"},
    {"painted_scenes_in_crops", "painted_scenes",
     "{train: 12, test: 8, size: 16, crop: 12, ratio: [0.8, 1.5], flip: true, photometric: true, "
     "corruption: contrast}"},
    {"synthetic_sets", "synthetic_sets"},
    {"synthetic_sets_of_one_point", "synthetic_sets", "{least: 1, most: 2}"},
};

/// A dataset that is left out where its libraries are absent.
std::vector<Configured> optional() {
  std::vector<Configured> all;
  for (const std::string& id : testing::registry().catalogue().names(Kind::dataset)) {
    if (id == "image_folder") all.push_back({id, id, "{root: ROOT/images, size: 8}"});
  }
  return all;
}

/// Those that need no files and are not among the above.
std::vector<Configured> others() {
  // Files with boxes are in tests/plugins/detection/, those with label maps in
  // tests/plugins/dense/, queries and their database in tests/plugins/images/.
  std::set<std::string> named = {
      "coco",   "fashion_scenes", "one_shot_pairs",   "pictures", "voc",         "ade20k",
      "camvid", "cityscapes",     "voc_segmentation", "davis",    "oxford_paris"};
  for (const Configured& dataset : kConfigured) named.insert(dataset.id);
  for (const Configured& dataset : optional()) named.insert(dataset.id);
  std::vector<Configured> all;
  for (const std::string& id : testing::registry().catalogue().names(Kind::dataset)) {
    if (named.count(id) == 0) all.push_back({id, id});
  }
  return all;
}

std::string name_of(const ::testing::TestParamInfo<Configured>& dataset) {
  return dataset.param.name;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EveryDataset);
INSTANTIATE_TEST_SUITE_P(Files, EveryDataset, ::testing::ValuesIn(kConfigured), name_of);
INSTANTIATE_TEST_SUITE_P(Optional, EveryDataset, ::testing::ValuesIn(optional()), name_of);
INSTANTIATE_TEST_SUITE_P(Installed, EveryDataset, ::testing::ValuesIn(others()), name_of);

}  // namespace
}  // namespace attnlab::datasets_test
