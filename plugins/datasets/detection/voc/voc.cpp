// VOC: pictures with boxes in the layout of PASCAL VOC, its own or any in that layout.
//
// Layout and boxes: framework/data/pictures/layouts.h. Fields:
// framework/data/detection/boxed_images.h. Source: Everingham et al., The Pascal Visual Object
// Classes Challenge, IJCV 2010. Cost: annotations are read when it is opened, pictures when they
// are asked for.
#include "framework/data/detection/boxed_images.h"
#include "framework/data/pictures/layouts.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct VocDetectionOptions : VocOptions, BoxedImageOptions {
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    VocOptions::describe(v);
    BoxedImageOptions::describe(v);
  }
};

class Voc final : public BoxedImages {
 public:
  Voc(const VocDetectionOptions& options, const DatasetSetup&)
      : BoxedImages(read_voc(options), options) {}
};

}  // namespace

ATTNLAB_PLUGIN(dataset, Voc, VocDetectionOptions,
               {.id = "attnlab/voc",
                .version = "1.1.0",
                .summary = "pictures with boxes in the layout of PASCAL VOC",
                .citation = "Everingham et al., IJCV 2010",
                .licence = "that of your data",
                .gives = {"image", "image_valid", "size", "image_id", "box@box", "label@box",
                          "area@box", "ignored@box"}})

}  // namespace attnlab
