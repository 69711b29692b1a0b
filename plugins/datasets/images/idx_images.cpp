// IDX images: MNIST, Fashion-MNIST and whatever else comes in the same four files
// (framework/data/image/idx_files.h).
#include "framework/data/image/idx_files.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct IdxImagesOptions : ImageSetOptions {
  std::string name = "fashion-mnist";
  std::int64_t classes = 10;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("name", name, "folder of the dataset: mnist, fashion-mnist or one of the same layout");
    v("classes", classes, range(1, 256), "number of classes");
    ImageSetOptions::describe(v);
  }
};

class IdxImages final : public ImageDataset {
 public:
  IdxImages(const IdxImagesOptions& options, const DatasetSetup& setup)
      : ImageDataset(read_idx_images(options.name, options.classes, options.root), options, setup) {
  }
};

}  // namespace

ATTNLAB_PLUGIN(dataset, IdxImages, IdxImagesOptions,
               {.id = "attnlab/idx_images",
                .version = "1.0.0",
                .summary = "MNIST, Fashion-MNIST and other images in IDX files",
                .citation = "LeCun et al. 1998 (MNIST); Xiao, Rasul, Vollgraf 2017, "
                            "arXiv:1708.07747 (Fashion-MNIST)",
                .licence = "MIT (Fashion-MNIST), CC-BY-SA-3.0 (MNIST)",
                .gives = {"image", "class", "crop@global?", "crop@local?", "masked@global?"}})

}  // namespace attnlab
