// Accuracy of a classifier that does not see all of an image: a share of its patches is blanked.
//
//   order: random          which patches is drawn for each image, the same for every model
//          salient         those that the model's own explanation names first
//          least_salient   those that it names last
//   accuracy     over all shares, the mean     at/0.5    with half of the patches blanked
//
// Blanked is 0: the mean, where images are normalised. A grid of `grid` x `grid` patches lies over
// the image; of a share of n patches floor(share * n) are blanked.
// Source: Naseer et al., Intriguing properties of vision transformers, NeurIPS 2021 (random and
// salient PatchDrop, 14 x 14 patches); salience there is DINO's attention, here the model's own
// explanation. Cost: a forward pass a share, and an explanation where the order needs one.
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "framework/base/text.h"
#include "framework/eval/classification.h"
#include "framework/eval/example_keys.h"
#include "framework/eval/explanation.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct ImageOcclusionOptions : ClassificationOptions {
  std::string order = "random";
  std::string method = "ag_cam";
  std::int64_t grid = 8;
  std::vector<double> shares = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9};

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    ClassificationOptions::describe(v);
    v("order", order, one_of("random", "salient", "least_salient"),
      "which patches are blanked first");
    v("method", method, one_of("ag_cam", "rollout"), "the explanation that says what is salient");
    v("grid", grid, range(1, 4096), "patches along height and width; divides both");
    v("shares", shares, range(0, 1), "shares of patches that are blanked");
  }
};

class ImageOcclusion final : public ClassificationTask {
 public:
  ImageOcclusion(const ImageOcclusionOptions& options, const TaskSetup& setup)
      : ClassificationTask(options, setup), options_(options) {
    const std::vector<std::int64_t> shape = setup.data.field("image").shape;
    if (shape.size() != 3 || shape[1] % options.grid != 0 || shape[2] % options.grid != 0) {
      throw OptionError("grid", fmt::format("{} does not divide the images; take a common divisor "
                                            "of height and width",
                                            options.grid));
    }
    if (options.shares.empty()) throw OptionError("shares", "is empty");
  }

  std::vector<MetricInfo> metrics() const override {
    std::vector<MetricInfo> all = {{"accuracy", Better::higher, "share"},
                                   {"clean_accuracy", Better::higher, "share"}};
    for (const double share : options_.shares) {
      all.push_back({name_of_share(share), Better::higher, "share"});
    }
    return all;
  }

  Metrics evaluate(Evaluation& evaluation) const override {
    std::vector<double> right(options_.shares.size(), 0);
    double images = 0, clean = 0;
    evaluation.batches(evaluation.split, [&](const Batch& batch) {
      const Tensor order = order_of(evaluation.model, batch);
      images += static_cast<double>(batch.size);
      clean += correct(evaluation.model, batch, batch.fields.at("image"));
      for (std::size_t i = 0; i < right.size(); ++i) {
        right[i] += correct(evaluation.model, batch, blanked(batch, order, options_.shares[i]));
      }
    });
    if (images == 0) throw Error("evaluation: there were no images; is the split empty?");
    Metrics metrics = {{"clean_accuracy", clean / images}};
    double sum = 0;
    for (std::size_t i = 0; i < right.size(); ++i) {
      metrics[name_of_share(options_.shares[i])] = right[i] / images;
      sum += right[i];
    }
    metrics["accuracy"] = sum / (images * static_cast<double>(right.size()));
    return metrics;
  }

 private:
  static std::string name_of_share(double share) { return "at/" + shortest(share); }

  double correct(Model& model, const Batch& batch, const Tensor& images) const {
    Batch seen;
    seen.size = batch.size;
    seen.fields.set("image", images);
    ForwardPass pass;
    const NamedTensors outputs = model.forward(seen, pass);
    loss(outputs, batch);  // refuses classes that are none
    return right_of(outputs.at("logits"), batch.fields.at("class")).sum().item<double>();
  }

  /// [B, patches]: the place of each patch in the order in which they go.
  Tensor order_of(Model& model, const Batch& batch) const {
    const std::int64_t patches = options_.grid * options_.grid;
    const Tensor& image = batch.fields.at("image");
    if (options_.order == "random") {
      std::vector<Tensor> rows;
      for (const std::uint64_t key : keys_of(image)) {
        rows.push_back(
            at::tensor(permutation(patches, RandomStreams(0).stream("occlusion", key)), at::kLong));
      }
      return at::stack(rows).to(image.device());
    }
    const Explanation explanation = explain(model, batch, options_.method);
    const Tensor heat = heat_of(explanation.map, image.size(2), image.size(3));
    const Tensor mean = at::adaptive_avg_pool2d(heat.unsqueeze(1), {options_.grid, options_.grid});
    const Tensor first =
        std::get<1>(mean.flatten(1).sort(/*stable=*/true, 1, options_.order == "salient"));
    return at::zeros_like(first).scatter(1, first,
                                         at::arange(patches, first.options()).expand_as(first));
  }

  Tensor blanked(const Batch& batch, const Tensor& order, double share) const {
    const Tensor& image = batch.fields.at("image");
    const std::int64_t grid = options_.grid;
    const auto gone = static_cast<std::int64_t>(share * static_cast<double>(grid * grid) + 1e-9);
    const Tensor kept = order.ge(gone)
                            .view({batch.size, 1, grid, grid})
                            .repeat_interleave(image.size(2) / grid, 2)
                            .repeat_interleave(image.size(3) / grid, 3);
    return image * kept;
  }

  ImageOcclusionOptions options_;
};

}  // namespace

ATTNLAB_PLUGIN(task, ImageOcclusion, ImageOcclusionOptions,
               {.id = "attnlab/image_occlusion",
                .version = "1.0.1",
                .summary = "accuracy when a share of an image's patches is blanked",
                .citation = "Naseer et al., NeurIPS 2021",
                .licence = "Apache-2.0",
                .takes = {"logits", "image", "class"}})

}  // namespace attnlab
