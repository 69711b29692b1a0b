// One-shot pairs: pictures in the layout of VOC or COCO, asked for what a prompt shows.
//
// Prompts, classes and fields: framework/data/detection/one_shot.h. Layouts:
// framework/data/pictures/layouts.h. Difficult boxes are dropped and crowds are ignored, as
// published; info().source says how many. The published novel classes of VOC are cow, sheep, cat
// and aeroplane; of COCO's split k every fourth class from the k-th on. Source: Hsieh et al.,
// NeurIPS 2019; Michaelis et al., One-Shot Instance Segmentation, 2018; Bahaduri et al., Indirect
// Attention.
#include "framework/data/detection/one_shot.h"
#include "framework/data/pictures/layouts.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct OneShotPairsOptions : OneShotOptions {
  std::string layout = "voc";
  VocOptions voc;
  CocoOptions coco;
  std::int64_t coco_split = 0;

  constexpr OneShotPairsOptions() { voc.difficult = "drop"; }

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("layout", layout, one_of("voc", "coco"), "layout of the files; only its options are read");
    v("voc", voc, "options of layout voc");
    v("coco", coco, "options of layout coco");
    v("coco_split", coco_split, range(0, 4),
      "for layout coco: 1 to 4: the published sets of novel classes");
    OneShotOptions::describe(v);
  }
};

PictureSplits read(const OneShotPairsOptions& options) {
  return options.layout == "voc" ? read_voc(options.voc) : read_coco_sets(options.coco);
}

OneShotOptions with_novel(const OneShotPairsOptions& options, const PictureSplits& splits) {
  OneShotOptions settled = options;
  if (options.coco_split == 0) return settled;
  if (!options.novel.empty() || options.layout != "coco") {
    throw OptionError("coco_split", "is for layout coco, where `novel` is not given");
  }
  for (std::size_t k = std::size_t(options.coco_split) - 1; k < splits.class_names.size(); k += 4) {
    settled.novel.push_back(splits.class_names[k]);
  }
  return settled;
}

class Pairs final : public OneShotPairs {
 public:
  Pairs(const OneShotPairsOptions& options, const DatasetSetup&) : Pairs(options, read(options)) {}

 private:
  Pairs(const OneShotPairsOptions& options, const PictureSplits& splits)
      : OneShotPairs(splits, with_novel(options, splits)) {}
};

}  // namespace

ATTNLAB_PLUGIN(dataset, Pairs, OneShotPairsOptions,
               {.id = "attnlab/one_shot_pairs",
                .version = "1.1.0",
                .summary = "pictures in the layout of VOC or COCO, to find what a prompt shows",
                .citation = "Hsieh et al., NeurIPS 2019; Bahaduri et al., Indirect Attention",
                .licence = "that of your data",
                .gives = {"image", "image_valid", "size", "image_id", "box@box", "label@box",
                          "area@box", "ignored@box", "prompt", "prompt_class", "prompt_number"}})

}  // namespace attnlab
