// One-shot detection: all objects of the class that a prompt shows, each once, with its box.
//
// Loss: framework/eval/detection/detection_loss.h; proposals, where a model makes them, are asked
// for objects of any class. Metrics: COCO's, over base and novel classes apart, and the published
// AP50 of each image and class by itself (framework/eval/detection/detection_meter.h).
// Source: Bahaduri et al., Indirect Attention, section 6.2, and its public code.
#include "framework/eval/detection/detection_task.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

class OneShotDetection final : public DetectionTask {
 public:
  OneShotDetection(const DetectionTaskOptions& options, const TaskSetup& setup)
      : DetectionTask(options, setup, /*one_shot=*/true) {}
};

}  // namespace

ATTNLAB_PLUGIN(task, OneShotDetection, DetectionTaskOptions,
               {.id = "attnlab/one_shot_detection",
                .version = "1.1.0",
                .summary = "objects of the class that a prompt shows: matched queries, COCO's "
                           "average precision by base and novel classes",
                .citation = "Bahaduri et al., Indirect Attention: Turning Context Misalignment "
                            "into a Feature",
                .licence = "Apache-2.0",
                .takes = {"logits", "boxes", "layer_prompt_logits", "layer_boxes", "box@box",
                          "label@box", "area@box", "ignored@box", "size", "prompt_class",
                          "prompt_number", "image_id"}})

}  // namespace attnlab
