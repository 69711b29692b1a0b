// Cityscapes: street scenes with 19 classes, in the layout of its archives.
//
// Layout: framework/data/pictures/label_layouts.h. Fields:
// framework/data/segmentation/labelled_pictures.h. Source: Cordts et al., The Cityscapes
// Dataset, CVPR 2016.
// Cost: all label maps are read once when it is opened, and the result is kept where that takes
// longer than a second; pictures are read when they are asked for.
#include "framework/data/pictures/label_layouts.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct CityscapesOptions : LabelLayoutOptions, LabelledPictureOptions {
  constexpr CityscapesOptions() {
    name = "cityscapes";
    train_set = "train";
    test_set = "val";
  }

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    LabelLayoutOptions::describe(v);
    LabelledPictureOptions::describe(v);
  }
};

class Cityscapes final : public LabelledPictures {
 public:
  Cityscapes(const CityscapesOptions& options, const DatasetSetup&)
      : LabelledPictures(read_cityscapes(options), options) {}
};

}  // namespace

ATTNLAB_PLUGIN(dataset, Cityscapes, CityscapesOptions,
               {.id = "attnlab/cityscapes",
                .version = "1.0.0",
                .summary = "street scenes with 19 classes, in the layout of Cityscapes",
                .citation = "Cordts et al., CVPR 2016, arXiv:1604.01685",
                .licence = "that of your data",
                .gives = {"image", "shown", "label_map", "size"}})

}  // namespace attnlab
