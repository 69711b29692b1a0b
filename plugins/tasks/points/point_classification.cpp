// Point classification: one class a cloud.
//
//   loss = cross entropy of the logits with label smoothing (Szegedy et al. 2016)
//
// Metrics: accuracy (top-1), top5 and nll, without smoothing.
#include "framework/eval/classification.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

class PointClassification final : public ClassificationTask {
 public:
  PointClassification(const ClassificationOptions& options, const TaskSetup& setup)
      : ClassificationTask(options, setup) {}
};

}  // namespace

ATTNLAB_PLUGIN(task, PointClassification, ClassificationOptions,
               {.id = "attnlab/point_classification",
                .version = "1.0.0",
                .summary = "one class per point cloud: cross entropy, top-1, top-5, NLL",
                .citation = "label smoothing: Szegedy et al. 2016, arXiv:1512.00567",
                .licence = "Apache-2.0",
                .takes = {"logits", "class"},
                .ensemble = true})

}  // namespace attnlab
