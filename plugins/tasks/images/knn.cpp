// kNN: how well the nearest training images, by a finished model's features, say a class.
//
//   accuracy   of the class with most votes of the first k in the list
//   top5       of the same k: the right class is among the five with most votes
//   k/20       accuracy by 20 neighbours, one for each of the list
//
// Every training image votes for its class with exp(cosine / temperature); ties of votes count in
// order of the class, ties of images in order of the data. Nothing is augmented and nothing fitted.
// Source: Wu et al., CVPR 2018; Caron et al., DINO, ICCV 2021, and Zhou et al., iBOT, ICLR 2022 (k
// 10 and 20, temperature 0.07, features of length 1). Cost: a forward pass over the training split,
// and N products of features a tested image.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "framework/eval/classification.h"
#include "framework/eval/neighbours.h"
#include "framework/eval/probe_task.h"
#include "framework/nn/kernels/unit.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

constexpr const char* kBank = "knn.bank";
constexpr double kEps = 1e-12;

struct KnnOptions : ProbeOptions {
  std::vector<std::int64_t> k = {20, 10};
  double temperature = 0.07;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    ProbeOptions::describe(v);
    v("k", k, range(1, 1 << 20),
      "numbers of neighbours that vote; the run is judged by the first number");
    v("temperature", temperature, range(0.01, 100),
      "votes are weighted by exp(cosine / temperature)");
  }
};

std::string name_of_k(std::int64_t k) { return fmt::format("k/{}", k); }

class Knn final : public ProbeTask {
 public:
  Knn(const KnnOptions& options, const TaskSetup& setup)
      : ProbeTask(options, setup), options_(options) {
    if (options.k.empty()) throw OptionError("k", "is empty; give some numbers, as [20, 10]");
    const std::set<std::int64_t> distinct(options.k.begin(), options.k.end());
    if (distinct.size() < options.k.size()) throw OptionError("k", "a number stands twice");
  }

  std::vector<MetricInfo> metrics() const override {
    std::vector<MetricInfo> all = {{"accuracy", Better::higher, "share"}};
    if (has_top5()) all.push_back({"top5", Better::higher, "share"});
    for (const std::int64_t k : options_.k) {
      all.push_back({name_of_k(k), Better::higher, "share"});
    }
    return all;
  }

  Metrics evaluate(Evaluation& evaluation) const override {
    const FeatureTable table = training_features(evaluation, reader());
    const std::int64_t most = *std::max_element(options_.k.begin(), options_.k.end());
    if (most > table.size()) {
      throw OptionError("k", fmt::format("{} neighbours cannot vote, as '{}' has {} training "
                                         "images; ask for fewer",
                                         most, evaluation.data.name, table.size()));
    }
    Tensor bank;
    std::vector<ClassificationMeter> meters(options_.k.size());
    evaluation.batches(evaluation.split, [&](const Batch& batch) {
      const Tensor queries = unit(reader().read(evaluation.model, batch).to(at::kFloat), kEps);
      if (!bank.defined()) bank = bank_of(evaluation, table, queries.device());
      const Neighbours found = nearest(queries, bank, most);
      for (std::size_t i = 0; i < meters.size(); ++i) {
        const Tensor votes =
            votes_of(found, table.classes, options_.k[i], options_.temperature, classes());
        meters[i].add({{"logits", votes}}, batch);
      }
    });
    Metrics metrics;
    for (std::size_t i = 0; i < meters.size(); ++i) {
      const Metrics of_k = meters[i].result();
      metrics[name_of_k(options_.k[i])] = of_k.at("accuracy");
      if (i > 0) continue;
      metrics["accuracy"] = of_k.at("accuracy");
      if (has_top5()) metrics["top5"] = of_k.at("top5");
    }
    return metrics;
  }

 private:
  /// [N, C] on the model's device, of length 1; kept there for queries that are asked one by one.
  static Tensor bank_of(const Evaluation& evaluation, const FeatureTable& table,
                        const at::Device& device) {
    NamedTensors* const kept = evaluation.fitted == nullptr ? nullptr : &evaluation.fitted->kept;
    if (kept != nullptr && kept->find(kBank) != nullptr) return kept->at(kBank);
    const Tensor bank = unit(table.features, kEps).to(device);
    if (kept != nullptr) kept->set(kBank, bank);
    return bank;
  }

  KnnOptions options_;
};

}  // namespace

ATTNLAB_PLUGIN(task, Knn, KnnOptions,
               {.id = "attnlab/knn",
                .version = "1.0.0",
                .summary = "nearest neighbours among a finished model's features vote for a class",
                .citation = "Wu et al., CVPR 2018; Caron et al., DINO, ICCV 2021",
                .licence = "Apache-2.0",
                .takes = {"layer_features", "class"}})

}  // namespace attnlab
