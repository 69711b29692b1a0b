// Object detection: all objects of known classes, each once, with its box.
//
// Loss: framework/eval/detection/detection_loss.h. Metrics: COCO's, judged by AP50
// (framework/eval/detection/detection_meter.h).
// Source: Carion et al., DETR, ECCV 2020, arXiv:2005.12872.
#include "framework/eval/detection/detection_task.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

class ObjectDetection final : public DetectionTask {
 public:
  ObjectDetection(const DetectionTaskOptions& options, const TaskSetup& setup)
      : DetectionTask(options, setup, /*one_shot=*/false) {}
};

}  // namespace

ATTNLAB_PLUGIN(task, ObjectDetection, DetectionTaskOptions,
               {.id = "attnlab/object_detection",
                .version = "1.1.0",
                .summary = "objects of known classes: matched queries, COCO's average precision",
                .citation = "Carion et al., DETR, ECCV 2020, arXiv:2005.12872",
                .licence = "Apache-2.0",
                .takes = {"logits", "boxes", "layer_logits", "layer_boxes", "box@box", "label@box",
                          "area@box", "ignored@box", "size"}})

}  // namespace attnlab
