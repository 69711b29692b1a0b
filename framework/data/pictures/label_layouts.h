// The published layouts of datasets whose pictures have label maps.
//
//   ade20k       images/SET/NAME.jpg, annotations/SET/NAME.png: 0 unlabelled, 1 to 150 the
//                classes, whose names are in objectInfo150.txt (or .csv), if it is there
//   camvid       SET.txt with lines PICTURE LABELS, of whose paths the last two parts count
//                (train/NAME.png trainannot/NAME.png): 0 to 10 the classes, 11 unlabelled
//   voc          [FOLDER/]ImageSets/Segmentation/SET.txt, JPEGImages/NAME.jpg,
//                SegmentationClass/NAME.png: 0 the background, 1 to 20 the objects, 255 unlabelled
//   cityscapes   leftImg8bit/SET/CITY/NAME_leftImg8bit.png, gtFine/SET/CITY/
//                NAME_gtFine_labelIds.png: 34 numbers, of which 19 are classes
//
// Source: Zhou et al., ADE20K, CVPR 2017 (SceneParsing, 150 classes); Brostow et al., CamVid, 2009,
// in the form of Badrinarayanan et al., SegNet, 2017; Everingham et al., The Pascal VOC Challenge,
// IJCV 2010; Cordts et al., Cityscapes, CVPR 2016.
#pragma once

#include "framework/config/options.h"
#include "framework/data/segmentation/labelled_pictures.h"

namespace attnlab {

struct LabelLayoutOptions {
  std::string root, name;
  std::string train_set, validation_set, test_set;
  std::string absent = "refuse";

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("root", root, "folder of the dataset (empty: search the usual places)");
    v("name", name, "name of the folder to search for");
    v("train_set", train_set, "set to train on");
    v("validation_set", validation_set, "validation set; empty: none");
    v("test_set", test_set, "set to test on");
    v("absent", absent, one_of("refuse", "keep"),
      "what to do if a class is in no training picture");
  }
};

/// @throws DataMissingError, DataError with file and place, OptionError.
LabelledSplits read_ade20k(const LabelLayoutOptions& options);
LabelledSplits read_camvid(const LabelLayoutOptions& options);
/// @param labels  the folder of label maps; SegmentationClassAug has those of Hariharan et al. 2011
LabelledSplits read_voc_labels(const LabelLayoutOptions& options, const std::string& labels);
LabelledSplits read_cityscapes(const LabelLayoutOptions& options);

}  // namespace attnlab
