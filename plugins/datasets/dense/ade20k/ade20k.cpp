// ADE20K: scenes with 150 classes, in the layout of the SceneParsing benchmark.
//
// Layout: framework/data/pictures/label_layouts.h. Fields:
// framework/data/segmentation/labelled_pictures.h. Source: Zhou et al.,
// Scene parsing through ADE20K, CVPR 2017.
// Cost: all label maps are read once when it is opened, and the result is kept where that takes
// longer than a second; pictures are read when they are asked for.
#include "framework/data/pictures/label_layouts.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct Ade20kOptions : LabelLayoutOptions, LabelledPictureOptions {
  constexpr Ade20kOptions() {
    name = "ADEChallengeData2016";
    train_set = "training";
    test_set = "validation";
  }

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    LabelLayoutOptions::describe(v);
    LabelledPictureOptions::describe(v);
  }
};

class Ade20k final : public LabelledPictures {
 public:
  Ade20k(const Ade20kOptions& options, const DatasetSetup&)
      : LabelledPictures(read_ade20k(options), options) {}
};

}  // namespace

ATTNLAB_PLUGIN(dataset, Ade20k, Ade20kOptions,
               {.id = "attnlab/ade20k",
                .version = "1.0.0",
                .summary = "scenes with 150 classes, in the layout of ADE20K's SceneParsing",
                .citation = "Zhou et al., CVPR 2017; IJCV 2019, arXiv:1608.05442",
                .licence = "that of your data",
                .gives = {"image", "shown", "label_map", "size"}})

}  // namespace attnlab
