// COCO: pictures with boxes in the layout of COCO, its own or any in that layout.
//
// Layout and boxes: framework/data/pictures/layouts.h. Fields:
// framework/data/detection/boxed_images.h. Source: Lin et al., Microsoft COCO: Common Objects in
// Context, ECCV 2014. Cost: annotations are read when it is opened, pictures when they are asked
// for.
#include "framework/data/detection/boxed_images.h"
#include "framework/data/pictures/layouts.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct CocoDetectionOptions : CocoOptions, BoxedImageOptions {
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    CocoOptions::describe(v);
    BoxedImageOptions::describe(v);
  }
};

class Coco final : public BoxedImages {
 public:
  Coco(const CocoDetectionOptions& options, const DatasetSetup&)
      : BoxedImages(read_coco_sets(options), options) {}
};

}  // namespace

ATTNLAB_PLUGIN(dataset, Coco, CocoDetectionOptions,
               {.id = "attnlab/coco",
                .version = "1.0.0",
                .summary = "pictures with boxes in the layout of COCO",
                .citation = "Lin et al., ECCV 2014",
                .licence = "that of your data",
                .gives = {"image", "image_valid", "size", "image_id", "box@box", "label@box",
                          "area@box", "ignored@box"}})

}  // namespace attnlab
