// Retrieval by frozen features: for each query the pictures of a database, the most similar first.
//
//   f = sum over `scales` of the features of a picture of that size, divided by its length
//   similarity = f_query . f_picture
//
// The training split is the database, the split that is measured holds the queries. Metrics and
// what is left out of a ranking: revisited.h. Pictures are seen at their own size, without padding,
// times each scale, made by a bilinear filter without antialias; what a multiple of `multiple`
// pixels leaves on the right and below is cut off, as a patch embedding does.
// Source: Radenović et al., CVPR 2018; the features as in Caron et al., DINO, ICCV 2021, and Zhou
// et al., iBOT, ICLR 2022, and their code. Cost: a forward pass for each scale of the database,
// which is kept for queries that are asked one by one, and of the queries; Q N products of
// features.
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <map>

#include "framework/eval/probe_task.h"
#include "framework/nn/kernels/unit.h"
#include "framework/plugin.h"
#include "framework/tensor/narrow.h"
#include "plugins/tasks/images/image_retrieval/revisited.h"

namespace attnlab {
namespace {

struct RetrievalOptions : ProbeOptions {
  std::vector<double> scales = {1};
  std::int64_t multiple = 1;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    ProbeOptions::describe(v);
    v("scales", scales, range(0.01, 100),
      "factors of a picture's size; features are summed over them");
    v("multiple", multiple, range(1, 1024),
      "sides are cut to multiples of this at each scale, in pixels: the model's patch size");
  }
};

/// The numbers of one axis of a batch that belong to an example.
std::vector<std::int64_t> list_of(const Batch& batch, const std::string& name,
                                  std::int64_t example) {
  const Tensor all = batch.fields.at(name + "@" + name).to(at::kCPU).contiguous();
  const auto* ends = batch.offsets.at(name).data_ptr<std::int64_t>();
  const auto* numbers = all.data_ptr<std::int64_t>();
  return {numbers + ends[example], numbers + ends[example + 1]};
}

class ImageRetrieval final : public MeasuringTask {
 public:
  ImageRetrieval(const RetrievalOptions& options, const TaskSetup&)
      : options_(options), reader_(options.features) {
    if (options.scales.empty()) throw OptionError("scales", "is empty; give some, as [1]");
  }

  std::vector<MetricInfo> metrics() const override { return revisited_metric_infos(); }

  Metrics evaluate(Evaluation& evaluation) const override {
    const c10::NoGradGuard no_gradients;
    const Tensor database = database_of(evaluation);
    std::vector<Tensor> queries;
    std::vector<Relevant> relevant;
    evaluation.batches(evaluation.split, [&](const Batch& batch) {
      queries.push_back(features_of(evaluation, evaluation.split, batch));
      for (std::int64_t i = 0; i < batch.size; ++i) {
        relevant.push_back(
            {list_of(batch, "easy", i), list_of(batch, "hard", i), list_of(batch, "junk", i)});
      }
    });
    if (queries.empty()) throw Error("retrieval: there were no queries; is the split empty?");
    return revisited_metrics(at::cat(queries).matmul(database.t()), relevant);
  }

 private:
  /// [N, C], of length 1.
  Tensor database_of(Evaluation& evaluation) const {
    constexpr const char* kKey = "database";
    if (evaluation.fitted != nullptr) {
      if (const Tensor* kept = evaluation.fitted->kept.find(kKey)) return *kept;
    }
    std::vector<Tensor> rows;
    evaluation.batches(Split::train, [&](const Batch& batch) {
      rows.push_back(features_of(evaluation, Split::train, batch));
    });
    if (rows.empty()) {
      throw DataError("dataset '" + evaluation.data.name +
                      "' has no training split, which is what queries search through");
    }
    const Tensor database = at::cat(rows);
    if (evaluation.fitted != nullptr) evaluation.fitted->kept.set(kKey, database);
    return database;
  }

  /// Pictures [B, 3, h, w] at another size, and whole multiples of it.
  Tensor at_scale(const Tensor& pictures, double scale) const {
    const auto scaled = [&](std::int64_t side) {
      return static_cast<std::int64_t>(static_cast<double>(side) * scale);
    };
    const std::int64_t height = scaled(pictures.size(2)), width = scaled(pictures.size(3));
    const std::int64_t rows = height - height % options_.multiple,
                       columns = width - width % options_.multiple;
    if (rows < 1 || columns < 1) {
      throw DataError(fmt::format(
          "a picture of {} x {} pixels has {} x {} at scale {}, fewer than task.multiple ({}); "
          "make that smaller, or task.scales or dataset.size larger",
          pictures.size(2), pictures.size(3), height, width, scale, options_.multiple));
    }
    const Tensor whole =
        scale == 1 ? pictures
                   : at::upsample_bilinear2d(pictures, {height, width}, /*align_corners=*/false,
                                             /*scales_h=*/scale, /*scales_w=*/scale);
    return whole.narrow(2, 0, rows).narrow(3, 0, columns).contiguous();
  }

  /// [B, C] on the model's device, of length 1; one pass for all pictures of a size and scale.
  Tensor features_of(const Evaluation& evaluation, Split split, const Batch& batch) const {
    const Tensor& images = batch.fields.at("image");
    const Tensor shown = batch.fields.at("shown").to(at::kCPU).contiguous();
    const auto* sizes = shown.data_ptr<std::int64_t>();
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::int64_t>> by_size;
    for (std::int64_t i = 0; i < batch.size; ++i) {
      by_size[{sizes[2 * i], sizes[2 * i + 1]}].push_back(i);
    }
    std::vector<Tensor> rows(static_cast<std::size_t>(batch.size));
    for (const auto& [size, pictures] : by_size) {
      const Tensor members = at::tensor(pictures, at::kLong).to(images.device());
      Batch seen;
      seen.size = std::ssize(pictures);
      const Tensor whole =
          images.index_select(0, members).narrow(2, 0, size.first).narrow(3, 0, size.second);
      std::vector<Tensor> scaled;
      for (const double scale : options_.scales) {
        seen.fields.set("image", at_scale(whole, scale));
        scaled.push_back(wide(reader_.read(evaluation.model, seen)));
      }
      const Tensor sum = at::stack(scaled).sum(0);
      check_finite(sum, evaluation.data, split);
      const Tensor features = unit(sum, 1e-12);
      for (std::size_t i = 0; i < pictures.size(); ++i) {
        rows[static_cast<std::size_t>(pictures[i])] = features[static_cast<std::int64_t>(i)];
      }
    }
    return at::stack(rows);
  }

  RetrievalOptions options_;
  FeatureReader reader_;
};

}  // namespace

ATTNLAB_PLUGIN(task, ImageRetrieval, RetrievalOptions,
               {.id = "attnlab/image_retrieval",
                .version = "1.0.0",
                .summary = "retrieval by features: mAP and precision of the revisited Oxford and "
                           "Paris, easy, medium, hard",
                .citation = "Radenović et al., CVPR 2018, arXiv:1803.11285",
                .licence = "Apache-2.0",
                .takes = {"layer_features", "image", "shown", "easy@easy", "hard@hard",
                          "junk@junk"}})

}  // namespace attnlab
