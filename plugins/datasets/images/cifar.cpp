// CIFAR-10 and CIFAR-100: 32 x 32 colour images, from the official binary records
// (framework/data/image/cifar_files.h).
#include "framework/data/image/cifar_files.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct CifarOptions : CifarFiles, ImageSetOptions {
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    CifarFiles::describe(v);
    ImageSetOptions::describe(v);
  }
};

class Cifar final : public ImageDataset {
 public:
  Cifar(const CifarOptions& options, const DatasetSetup& setup)
      : ImageDataset(read_cifar(options, options.root), options, setup) {}
};

}  // namespace

ATTNLAB_PLUGIN(
    dataset, Cifar, CifarOptions,
    {.id = "attnlab/cifar",
     .version = "1.1.0",
     .summary = "CIFAR-10 and CIFAR-100 from their binary records",
     .citation = "Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images",
     .licence = "none stated; research use",
     .gives = {"image", "class", "crop@global?", "crop@local?", "masked@global?"}})

}  // namespace attnlab
