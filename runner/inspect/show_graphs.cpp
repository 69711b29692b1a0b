#include "runner/inspect/show_graphs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "framework/base/json.h"
#include "framework/base/text.h"
#include "runner/inspect/class_name.h"

namespace attnlab {
namespace {

using nlohmann::json;

constexpr const char* kEdges = "edges@edge>node";
constexpr std::int64_t kMostNodes = 150;

/// Both directions of each edge between different nodes, once.
using Neighbours = std::vector<std::set<std::int64_t>>;

Neighbours neighbours_of(const Tensor& edges, std::int64_t nodes) {
  const Tensor ends = edges.to(at::kCPU).contiguous();
  Neighbours all(static_cast<std::size_t>(nodes));
  for (std::int64_t k = 0; k < ends.size(0); ++k) {
    const std::int64_t a = ends.data_ptr<std::int64_t>()[2 * k];
    const std::int64_t b = ends.data_ptr<std::int64_t>()[2 * k + 1];
    if (a == b) continue;
    all[static_cast<std::size_t>(a)].insert(b);
    all[static_cast<std::size_t>(b)].insert(a);
  }
  return all;
}

std::int64_t chosen_node(const Neighbours& neighbours, std::int64_t wanted, std::int64_t graph) {
  const auto nodes = static_cast<std::int64_t>(neighbours.size());
  if (wanted >= nodes) {
    throw ConfigError(fmt::format("--node: test graph {} has nodes 0 to {}", graph, nodes - 1));
  }
  if (wanted >= 0) return wanted;
  const auto most =
      std::max_element(neighbours.begin(), neighbours.end(),
                       [](const auto& a, const auto& b) { return a.size() < b.size(); });
  return most - neighbours.begin();
}

/// The nodes that are drawn, rising: all, or of a large graph those nearest to one.
std::vector<std::int64_t> shown_nodes(const Neighbours& neighbours, std::int64_t chosen) {
  std::vector<std::int64_t> nodes(neighbours.size());
  std::iota(nodes.begin(), nodes.end(), 0);
  if (std::int64_t(nodes.size()) <= kMostNodes) return nodes;
  std::vector<std::int64_t> reached = {chosen};
  std::set<std::int64_t> known = {chosen};
  for (std::size_t at = 0; at < reached.size() && std::int64_t(reached.size()) < kMostNodes; ++at) {
    for (const std::int64_t next : neighbours[static_cast<std::size_t>(reached[at])]) {
      if (known.insert(next).second) reached.push_back(next);
    }
  }
  reached.resize(std::min<std::size_t>(reached.size(), kMostNodes));
  std::sort(reached.begin(), reached.end());
  return reached;
}

std::string class_answer(const DatasetInfo& info, const Tensor& logits, std::int64_t truth) {
  const auto said = logits.argmax().item<std::int64_t>();
  return fmt::format("says {} ({:.0f} %), is {}", class_name(info, said),
                     100 * logits.softmax(0)[said].item<double>(), class_name(info, truth));
}

/// Of several yes-or-no questions: how sure the model is of yes. @param logits, labels  [T]
std::string yes_or_no_answer(const Tensor& logits, const Tensor& labels,
                             const std::vector<std::string>& names) {
  const Tensor sure = logits.sigmoid();
  std::vector<std::string> parts;
  for (std::int64_t t = 0; t < sure.size(0); ++t) {
    const double truth = labels[t].item<double>();
    parts.push_back(fmt::format("{} {:.0f} % ({})", names[std::size_t(t)],
                                100 * sure[t].item<double>(),
                                std::isnan(truth) ? "not known"
                                : truth == 1      ? "is yes"
                                                  : "is no"));
  }
  return join(parts, ", ");
}

/// Numbers in their own units. @param outputs, labels  [T], as the dataset scales them
std::string numbers_answer(const Tensor& outputs, const Tensor& labels,
                           const std::vector<std::string>& names, const FieldInfo& field) {
  std::vector<std::string> parts;
  for (std::size_t t = 0; t < names.size(); ++t) {
    const double scale = t < field.deviation.size() ? field.deviation[t] : 1;
    const double mean = t < field.mean.size() ? field.mean[t] : 0;
    const auto raw = [&](const Tensor& scaled) {
      return scaled[std::int64_t(t)].item<double>() * scale + mean;
    };
    const double truth = raw(labels);
    parts.push_back(fmt::format("{} {:.4g} ({})", names[t], raw(outputs),
                                std::isnan(truth) ? "not known" : fmt::format("is {:.4g}", truth)));
  }
  return join(parts, ", ");
}

/// What the model says of a whole graph, and what is true.
std::string graph_answer(const BuiltRun& run, const Tensor& all_logits, const Batch& batch) {
  const DatasetInfo& info = run.dataset->info();
  const Tensor logits = all_logits[0].to(at::kCPU, at::kDouble);
  if (const Tensor* truth = batch.fields.find("class")) {
    return class_answer(info, logits, truth->item<std::int64_t>());
  }
  const Tensor* all_labels = batch.fields.find("labels");
  if (all_labels == nullptr) return "";
  const FieldInfo& field = info.field("labels");
  const Tensor labels = (*all_labels)[0].to(at::kCPU, at::kDouble);
  std::vector<std::string> names = field.values;  // of a target without a name: its number
  for (std::int64_t t = std::int64_t(names.size()); t < logits.size(0); ++t) {
    names.push_back(fmt::format("target {}", t));
  }
  // Both kinds of tasks read the same fields; only the task says what an output means.
  const bool yes_or_no = run.experiment.task.name.ends_with("multilabel");
  return "says " + (yes_or_no ? yes_or_no_answer(logits, labels, names)
                              : numbers_answer(logits, labels, names, field));
}

/// What the model says of the nodes that are shown.
void add_node_answers(const DatasetInfo& info, const Tensor& logits, const Tensor& truth,
                      const std::vector<std::int64_t>& shown, json& graph) {
  const Tensor said = logits.argmax(1);
  std::int64_t right = 0, known = 0;
  for (const std::int64_t node : shown) {
    const auto says = said[node].item<std::int64_t>(), is = truth[node].item<std::int64_t>();
    const bool wrong = is >= 0 && says != is;
    known += is >= 0 ? 1 : 0;
    right += is >= 0 && !wrong ? 1 : 0;
    graph["wrong"].push_back(wrong);
    graph["words"].push_back(fmt::format("says {}, is {}", class_name(info, says),
                                         is < 0 ? "not counted" : class_name(info, is)));
  }
  graph["answer"] = fmt::format("{} of {} nodes right", right, known);
}

/// The chosen node's attention in the last layer; undefined where there was none.
struct LastLayer {
  AttentionTrace trace;
  Tensor row;  ///< [n], mean over heads

  explicit LastLayer(std::int64_t chosen) {
    trace.weights = true;
    trace.on_layer = [this, chosen](const LayerTrace& layer) {
      if (!layer.weights.defined()) return;
      row = layer.weights.select(0, 0).select(1, chosen).to(at::kCPU, at::kDouble).mean(0);
    };
  }
};

}  // namespace

json picture_of_graph(const BuiltRun& run, std::int64_t index, std::int64_t node) {
  const NamedTensors example = run.dataset->example(Split::test, index, nullptr);
  const Batch batch = to_device(run.dataset->collate({example}), run.device);
  const std::int64_t nodes = rows_of(batch, "node");
  const Neighbours neighbours = neighbours_of(batch.fields.at(kEdges), nodes);
  const std::int64_t chosen = chosen_node(neighbours, node, index);
  const std::vector<std::int64_t> shown = shown_nodes(neighbours, chosen);
  LastLayer last(chosen);
  ForwardPass pass;
  pass.trace = &last.trace;
  const NamedTensors outputs = run.model->forward(batch, pass);

  const auto place = [&](std::int64_t one) {
    return std::lower_bound(shown.begin(), shown.end(), one) - shown.begin();
  };
  json graph = {{"index", index},          {"nodes", nodes},
                {"shown", shown.size()},   {"numbers", shown},
                {"chosen", place(chosen)}, {"answer", ""},
                {"edges", json::array()},  {"words", json::array()},
                {"wrong", json::array()},  {"attention", json::array()}};
  for (const std::int64_t one : shown) {
    for (const std::int64_t other : neighbours[static_cast<std::size_t>(one)]) {
      if (one < other && std::binary_search(shown.begin(), shown.end(), other)) {
        graph["edges"].push_back({place(one), place(other)});
      }
    }
    if (last.row.defined()) {
      graph["attention"].push_back(finite_or_null(last.row[one].item<double>()));
    }
  }
  const DatasetInfo& info = run.dataset->info();
  if (const Tensor* logits = outputs.find("logits")) {
    graph["answer"] = graph_answer(run, *logits, batch);
  } else if (outputs.find("logits@node") != nullptr && batch.fields.find("class@node") != nullptr) {
    add_node_answers(info, outputs.at("logits@node"), batch.fields.at("class@node"), shown, graph);
  }
  return graph;
}

}  // namespace attnlab
