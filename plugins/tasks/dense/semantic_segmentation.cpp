// Semantic segmentation: a class for every pixel of a picture.
//
// Loss, sliding windows and scales: framework/eval/segmentation/segmentation_task.h. Metrics: miou,
// macc (the mean over classes of the share of their pixels that is right), accuracy (the share of
// all pixels), iou_CLASS; pixels without a label count nowhere.
// Source: Long et al., Fully convolutional networks, CVPR 2015 (the metrics); Berman et al., The
// Lovász-softmax loss, CVPR 2018; Strudel et al., Segmenter, ICCV 2021 (windows, scales).
#include "framework/eval/segmentation/segmentation_task.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

class SemanticSegmentation final : public SegmentationTask {
 public:
  SemanticSegmentation(const SegmentationTaskOptions& options, const TaskSetup& setup)
      : SegmentationTask(options, setup, "semantic_segmentation") {}
};

}  // namespace

ATTNLAB_PLUGIN(
    task, SemanticSegmentation, SegmentationTaskOptions,
    {.id = "attnlab/semantic_segmentation",
     .version = "1.0.0",
     .summary = "one class per pixel: cross entropy, Lovász, Dice; mIoU by sliding windows",
     .citation = "Long et al. 2015, arXiv:1411.4038; Berman et al. 2018, "
                 "arXiv:1705.08790; Strudel et al. 2021, arXiv:2105.05633",
     .licence = "Apache-2.0",
     .takes = {"mask_logits", "image", "shown", "label_map", "size"}})

}  // namespace attnlab
