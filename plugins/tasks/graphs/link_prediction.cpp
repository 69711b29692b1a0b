// Links between the nodes of a graph: a pair's score is the dot product of its nodes' features.
//
//   loss          = mean over pairs of the binary cross entropy of <f_a, f_b>
//   mrr           = mean over links (a, b) of 1 / rank of b among the graph's other nodes, a too
//   mrr_filtered  = the same among nodes that no known link joins with a, in either direction:
//                   neither a pair of this split nor one of `links@link>node`, where a dataset
//                   gives all links of a graph, those of other splits too
//   mrr_extended  = mrr_filtered without a itself, which no link joins with itself
//   hits1, hits3, hits10: share of links whose rank is at most that
//
// Means are taken over the links of each graph, then over graphs that have links. `mrr` is the raw
// one, which LRGB's PCQM-Contact is reported by; equal scores count half (a model that says nothing
// ranks in the middle). Source: Dwivedi et al. 2022 (LRGB); the filter, by the links of every
// split: Bordes et al. 2013. (Toenshoff et al. 2023, arXiv:2309.00367, filter by the split's own
// pairs, in the direction that they are stored in; there a graph is of one split alone, and both
// directions are stored. `mrr_extended` is their extended filter.) Cost of an
// evaluation: O(links * nodes) of each graph.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "framework/eval/ranking.h"
#include "framework/nn/graph/segments.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct LinkPredictionOptions {
  std::string headline = "mrr";

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("headline", headline, one_of("mrr", "mrr_filtered", "mrr_extended"),
      "the metric that runs are judged by");
  }
};

/// What both loss and metrics read, checked.
struct Pairs {
  const Tensor &features, &ends, &links;  ///< [N, D], [P, 2], [P]
};

Pairs pairs_of(const NamedTensors& outputs, const Batch& batch) {
  const Pairs pairs = {outputs.at("features@node"), batch.fields.at("pairs@pair>node"),
                       batch.fields.at("link@pair")};
  if (pairs.features.dim() != 2 || pairs.ends.dim() != 2 || pairs.ends.size(1) != 2 ||
      pairs.links.dim() != 1 || pairs.links.size(0) != pairs.ends.size(0)) {
    throw ShapeError(fmt::format(
        "link_prediction: features@node must be [N, D], pairs@pair>node [P, 2] and link@pair [P], "
        "found {}, {} and {}",
        describe(pairs.features), describe(pairs.ends), describe(pairs.links)));
  }
  const bool readable = pairs.links.device().is_cpu() && pairs.links.numel() > 0;
  if (readable && pairs.links.ne(0).logical_and(pairs.links.ne(1)).any().item<bool>()) {
    throw DataError("link@pair: the batch has a value that is neither 0 nor 1");
  }
  return pairs;
}

/// The links of one graph, as rows of its nodes.
struct GraphLinks {
  Tensor features;  ///< [n, D] float64
  std::set<std::pair<std::int64_t, std::int64_t>> asked;
  std::set<std::pair<std::int64_t, std::int64_t>> known;  ///< in both directions

  void know(std::int64_t a, std::int64_t b) { known.insert({{a, b}, {b, a}}); }
};

/// All links that the dataset knows of, whichever split they are of.
void add_known(std::vector<GraphLinks>& graphs, const Batch& batch) {
  const Tensor* const links = batch.fields.find("links@link>node");
  if (links == nullptr) return;
  const Tensor ends = links->to(at::kCPU).contiguous();
  const auto* end = ends.data_ptr<std::int64_t>();
  const auto* node = batch.offsets.at("node").data_ptr<std::int64_t>();
  const auto* link = batch.offsets.at("link").data_ptr<std::int64_t>();
  for (std::size_t g = 0; g < graphs.size(); ++g) {
    for (std::int64_t l = link[g]; l < link[g + 1]; ++l) {
      graphs[g].know(end[2 * l] - node[g], end[2 * l + 1] - node[g]);
    }
  }
}

std::vector<GraphLinks> graphs_of(const Pairs& pairs, const Batch& batch) {
  const Tensor features = pairs.features.detach().to(at::kCPU, at::kDouble);
  const Tensor ends = pairs.ends.to(at::kCPU).contiguous(),
               links = pairs.links.to(at::kCPU).contiguous();
  const auto* node = batch.offsets.at("node").data_ptr<std::int64_t>();
  const auto* pair = batch.offsets.at("pair").data_ptr<std::int64_t>();
  const auto *end = ends.data_ptr<std::int64_t>(), *is_link = links.data_ptr<std::int64_t>();
  std::vector<GraphLinks> graphs;
  for (std::int64_t g = 0; g < batch.size; ++g) {
    GraphLinks graph = {features.slice(0, node[g], node[g + 1]), {}, {}};
    for (std::int64_t p = pair[g]; p < pair[g + 1]; ++p) {
      if (is_link[p] != 1) continue;
      const std::int64_t head = end[2 * p] - node[g], tail = end[2 * p + 1] - node[g];
      graph.asked.insert({head, tail});
      graph.know(head, tail);
    }
    graphs.push_back(std::move(graph));
  }
  add_known(graphs, batch);
  return graphs;
}

/// Sums over links, then over graphs.
struct Ranks {
  double raw = 0, filtered = 0, extended = 0, hits1 = 0, hits3 = 0, hits10 = 0, count = 0;

  void add(const Ranks& more, double share) {
    raw += more.raw * share;
    filtered += more.filtered * share;
    extended += more.extended * share;
    hits1 += more.hits1 * share;
    hits3 += more.hits3 * share;
    hits10 += more.hits10 * share;
    count += 1;
  }
};

Ranks ranks_of(const GraphLinks& graph) {
  Ranks sums;
  for (const auto& [head, tail] : graph.asked) {
    const Tensor scores = at::mv(graph.features, graph.features[head]).contiguous();
    const double* const score = scores.data_ptr<double>();
    std::vector<double> all, unlinked, others;
    for (std::int64_t other = 0; other < scores.numel(); ++other) {
      if (other == tail) continue;
      all.push_back(score[other]);
      if (graph.known.count({head, other}) > 0) continue;
      unlinked.push_back(score[other]);
      if (other != head) others.push_back(score[other]);
    }
    const double rank = rank_among(score[tail], all);
    sums.add({1 / rank, 1 / rank_among(score[tail], unlinked), 1 / rank_among(score[tail], others),
              double(rank <= 1), double(rank <= 3), double(rank <= 10)},
             1);
  }
  return sums;
}

class LinkMeter final : public Meter {
 public:
  void add(const NamedTensors& outputs, const Batch& batch) override {
    for (const GraphLinks& graph : graphs_of(pairs_of(outputs, batch), batch)) {
      const Ranks ranks = ranks_of(graph);
      if (ranks.count > 0) graphs_.add(ranks, 1 / ranks.count);
    }
  }

  Metrics result() const override {
    if (graphs_.count == 0) {
      throw UndefinedMetrics("link_prediction: this split has no links", {});
    }
    return {{"mrr", graphs_.raw / graphs_.count},
            {"mrr_filtered", graphs_.filtered / graphs_.count},
            {"mrr_extended", graphs_.extended / graphs_.count},
            {"hits1", graphs_.hits1 / graphs_.count},
            {"hits3", graphs_.hits3 / graphs_.count},
            {"hits10", graphs_.hits10 / graphs_.count}};
  }

 private:
  Ranks graphs_;
};

class LinkPrediction final : public Task {
 public:
  LinkPrediction(const LinkPredictionOptions& options, const TaskSetup&)
      : headline_(options.headline) {}

  Tensor loss(const NamedTensors& outputs, const Batch& batch) const override {
    const Pairs pairs = pairs_of(outputs, batch);
    if (pairs.links.numel() == 0) return pairs.features.sum() * 0;
    const auto ends = [&](std::int64_t column, const char* what) {
      const Tensor rows = pairs.ends.select(1, column);
      return gather_rows(pairs.features, segments_by(rows, pairs.features.size(0), what));
    };
    const Tensor heads = ends(0, "the first node of pair"),
                 tails = ends(1, "the second node of pair");
    const Tensor scores = (heads * tails).sum(1);
    return at::binary_cross_entropy_with_logits(scores, pairs.links.to(scores.scalar_type()));
  }

  double weight(const Batch& batch) const override {
    return static_cast<double>(batch.fields.at("link@pair").size(0));
  }

  std::unique_ptr<Meter> meter() const override { return std::make_unique<LinkMeter>(); }

  std::vector<MetricInfo> metrics() const override {
    std::vector<std::string> names = {"mrr",   "mrr_filtered", "mrr_extended",
                                      "hits1", "hits3",        "hits10"};
    std::iter_swap(names.begin(), std::find(names.begin(), names.end(), headline_));
    std::vector<MetricInfo> metrics;
    for (const std::string& name : names) metrics.push_back({name, Better::higher, "share"});
    return metrics;
  }

 private:
  std::string headline_;
};

}  // namespace

ATTNLAB_PLUGIN(task, LinkPrediction, LinkPredictionOptions,
               {.id = "attnlab/link_prediction",
                .version = "1.0.0",
                .summary = "links between nodes by dot products: mean reciprocal ranks, hits",
                .citation = "Dwivedi et al., Long range graph benchmark, NeurIPS 2022, "
                            "arXiv:2206.08164",
                .licence = "Apache-2.0",
                .takes = {"features@node", "pairs@pair>node", "link@pair", "links@link>node?"}})

}  // namespace attnlab
