// Image classification: one class an image.
//
//   loss = cross entropy of the logits with label smoothing (Szegedy et al. 2016)
//
// Metrics: accuracy (top-1), top5 and nll, without smoothing.
#include "framework/eval/classification.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

class ImageClassification final : public ClassificationTask {
 public:
  ImageClassification(const ClassificationOptions& options, const TaskSetup& setup)
      : ClassificationTask(options, setup) {}
};

}  // namespace

ATTNLAB_PLUGIN(task, ImageClassification, ClassificationOptions,
               {.id = "attnlab/image_classification",
                .version = "1.0.0",
                .summary = "one class an image: cross entropy, top-1, top-5, NLL",
                .citation = "label smoothing: Szegedy et al. 2016, arXiv:1512.00567",
                .licence = "Apache-2.0",
                .takes = {"logits", "class"},
                .ensemble = true})

}  // namespace attnlab
