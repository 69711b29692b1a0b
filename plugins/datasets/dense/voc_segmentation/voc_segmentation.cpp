// VOC segmentation: objects of 20 classes and the background, in the layout of PASCAL VOC.
//
// Layout: framework/data/pictures/label_layouts.h. Fields:
// framework/data/segmentation/labelled_pictures.h. Source: Everingham et al.,
// The Pascal Visual Object Classes Challenge, IJCV 2010.
// Cost: all label maps are read once when it is opened, and the result is kept where that takes
// longer than a second; pictures are read when they are asked for.
#include "framework/data/pictures/label_layouts.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct VocSegmentationOptions : LabelLayoutOptions, LabelledPictureOptions {
  std::string labels = "SegmentationClass";

  constexpr VocSegmentationOptions() {
    name = "VOCdevkit";
    train_set = "VOC2012/train";
    test_set = "VOC2012/val";
  }

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    LabelLayoutOptions::describe(v);
    v("labels", labels, "folder of the label maps; SegmentationClassAug where they are extended");
    LabelledPictureOptions::describe(v);
  }
};

class VocSegmentation final : public LabelledPictures {
 public:
  VocSegmentation(const VocSegmentationOptions& options, const DatasetSetup&)
      : LabelledPictures(read_voc_labels(options, options.labels), options) {}
};

}  // namespace

ATTNLAB_PLUGIN(dataset, VocSegmentation, VocSegmentationOptions,
               {.id = "attnlab/voc_segmentation",
                .version = "1.0.0",
                .summary = "objects of 20 classes and the background, in the layout of VOC",
                .citation = "Everingham et al., IJCV 2010",
                .licence = "that of your data",
                .gives = {"image", "shown", "label_map", "size"}})

}  // namespace attnlab
