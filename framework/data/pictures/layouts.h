// The published layouts of detection datasets.
//
//   voc    [FOLDER/]ImageSets/Main/SET.txt, Annotations/NAME.xml, JPEGImages/NAME.jpg
//   coco   annotations/instances_SET.json, SET/FILE
//
// Where there is no NAME.jpg, the picture is what <filename> names in JPEGImages, or NAME with
// another ending. A size of 0 x 0, or none, is the picture's own.
//
// VOC's boxes count pixels from 1 and name the last pixel within; here edges lie between pixels, so
// they become xmin - 1, ymin - 1, xmax, ymax.
// Source: Everingham et al., The Pascal Visual Object Classes Challenge, IJCV 2010; Lin et al.,
// Microsoft COCO, ECCV 2014.
#pragma once

#include "framework/config/options.h"
#include "framework/data/detection/pictures.h"

namespace attnlab {

struct VocOptions {
  std::string root, name = "VOCdevkit";
  std::vector<std::string> train_sets = {"VOC2007/trainval", "VOC2012/trainval"};
  std::vector<std::string> validation_sets;
  std::vector<std::string> test_sets = {"VOC2007/test"};
  std::vector<std::string> classes;
  std::string difficult = "ignore";

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("root", root, "folder of the dataset (empty: search the usual places)");
    v("name", name, "name of the folder to search for");
    v("train_sets", train_sets, "sets to train on: SET, or FOLDER/SET");
    v("validation_sets", validation_sets, "validation sets");
    v("test_sets", test_sets, "sets to test on");
    v("classes", classes,
      "classes to find; boxes of others are left out; empty: all that are in the files, sorted");
    v("difficult", difficult, one_of("ignore", "drop", "count"),
      "boxes marked difficult: neither right nor wrong, left out, or like any other");
  }
};

struct CocoOptions {
  std::string root, name = "coco";
  std::string train_set = "train2017", validation_set, test_set = "val2017";

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("root", root, "folder of the dataset (empty: search the usual places)");
    v("name", name, "name of the folder to search for");
    v("train_set", train_set, "set to train on");
    v("validation_set", validation_set, "validation set; empty: none");
    v("test_set", test_set, "set to test on");
  }
};

/// @throws DataMissingError, DataError with file and place, OptionError.
PictureSplits read_voc(const VocOptions& options);
PictureSplits read_coco_sets(const CocoOptions& options);

}  // namespace attnlab
