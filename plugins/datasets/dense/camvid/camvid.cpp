// CamVid: street scenes with 11 classes, in the form of SegNet's tutorial.
//
// Layout: framework/data/pictures/label_layouts.h. Fields:
// framework/data/segmentation/labelled_pictures.h. Source: Brostow et al.,
// Semantic object classes in video, 2009; Badrinarayanan et al., SegNet, 2017.
// Cost: all label maps are read once when it is opened, and the result is kept where that takes
// longer than a second; pictures are read when they are asked for.
#include "framework/data/pictures/label_layouts.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct CamvidOptions : LabelLayoutOptions, LabelledPictureOptions {
  constexpr CamvidOptions() {
    name = "CamVid";
    train_set = "train";
    validation_set = "val";
    test_set = "test";
  }

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    LabelLayoutOptions::describe(v);
    LabelledPictureOptions::describe(v);
  }
};

class Camvid final : public LabelledPictures {
 public:
  Camvid(const CamvidOptions& options, const DatasetSetup&)
      : LabelledPictures(read_camvid(options), options) {}
};

}  // namespace

ATTNLAB_PLUGIN(dataset, Camvid, CamvidOptions,
               {.id = "attnlab/camvid",
                .version = "1.0.0",
                .summary = "street scenes with 11 classes, CamVid in SegNet's form",
                .citation = "Brostow et al., Pattern Recognition Letters 2009",
                .licence = "that of your data",
                .gives = {"image", "shown", "label_map", "size"}})

}  // namespace attnlab
