// The layout of DGCNN's data: one text, a block of lines for each graph.
#include <fmt/format.h>

#include <cfloat>
#include <cmath>

#include "framework/data/formats/files.h"
#include "framework/data/formats/lines.h"
#include "framework/data/graph/graph_table.h"
#include "plugins/datasets/graphs/tudataset/graph_files.h"

namespace attnlab {
namespace {

/// Reads lines one after the other.
class Blocks {
 public:
  explicit Blocks(const TextLines& lines) : lines_(lines) {}

  bool done() const { return at_ == lines_.lines.size(); }
  std::string place() const { return lines_.place(at_ - 1); }  ///< of the line that was read last
  /// The next line: at least `least` numbers.
  std::vector<double> next(std::size_t least, const char* what) {
    if (done()) throw DataError(fmt::format("{}: ends where {} should stand", lines_.path, what));
    std::vector<double> numbers = lines_.numbers(at_++);
    if (numbers.size() >= least) return numbers;
    throw DataError(fmt::format("{}: holds {} numbers, {} are at least {}", place(), numbers.size(),
                                what, least));
  }
  /// A whole number from `low` to `high`.
  std::int64_t whole(double number, double low, double high, const char* what) const {
    if (number >= low && number <= high && number == std::floor(number)) {
      return static_cast<std::int64_t>(number);
    }
    throw DataError(fmt::format("{}: {} is {}, expected a whole number from {} to {}", place(),
                                what, number, low, high));
  }

 private:
  const TextLines& lines_;
  std::size_t at_ = 0;
};

constexpr double kMost = 1e9;

/// Everything of one file, before categories are known.
struct Collected {
  std::vector<std::int64_t> classes, labels;
  std::vector<std::vector<Edge>> edges;
  std::vector<std::int64_t> nodes;
  std::vector<double> attributes;
  std::size_t width = 0;
};

void read_graph(Blocks& blocks, Collected& all) {
  const std::vector<double> head = blocks.next(2, "nodes and class of a graph");
  const std::int64_t nodes = blocks.whole(head[0], 1, kMost, "the number of nodes");
  all.classes.push_back(blocks.whole(head[1], -kMost, kMost, "the class"));
  all.nodes.push_back(nodes);
  std::vector<Edge>& edges = all.edges.emplace_back();
  for (std::int64_t node = 0; node < nodes; ++node) {
    const std::vector<double> line = blocks.next(2, "label and neighbours of a node");
    all.labels.push_back(blocks.whole(line[0], -kMost, kMost, "the label"));
    const auto count = static_cast<std::size_t>(
        blocks.whole(line[1], 0, double(line.size()) - 2, "the number of neighbours"));
    for (std::size_t k = 2; k < 2 + count; ++k) {
      edges.emplace_back(blocks.whole(line[k], 0, double(nodes) - 1, "a neighbour"), node);
    }
    const std::size_t width = line.size() - 2 - count;
    if (all.labels.size() == 1) all.width = width;
    if (width != all.width) {
      throw DataError(fmt::format("{}: has {} attributes where the first node has {}",
                                  blocks.place(), width, all.width));
    }
    for (std::size_t k = line.size() - width; k < line.size(); ++k) {
      if (!std::isfinite(line[k]) || std::abs(line[k]) <= FLT_MAX) continue;
      throw DataError(fmt::format("{}: {} is not a number of float32", blocks.place(), line[k]));
    }
    all.attributes.insert(all.attributes.end(), line.end() - std::ptrdiff_t(width), line.end());
  }
}

}  // namespace

GraphFiles read_dgcnn_file(const std::string& folder, const std::string& name) {
  const TextLines lines = read_lines(with_or_without_gz(fmt::format("{}/{}.txt", folder, name)));
  Blocks blocks(lines);
  const double promised = blocks.next(1, "the number of graphs")[0];
  const std::int64_t count = blocks.whole(promised, 1, kMost, "the number of graphs");
  Collected all;
  for (std::int64_t g = 0; g < count; ++g) read_graph(blocks, all);
  if (!blocks.done()) throw DataError(fmt::format("{}: lines follow the last graph", lines.path));

  GraphFiles out;
  out.hash = content_fingerprint(*lines.text);
  std::vector<std::string> label_names;
  const Tensor classes = at::tensor(categories_of(all.classes, out.class_names), at::kLong);
  const Tensor labels = at::tensor(categories_of(all.labels, label_names), at::kLong);
  const auto width = static_cast<std::int64_t>(all.width);
  const Tensor x = at::tensor(all.attributes, at::kDouble)
                       .view({std::int64_t(all.labels.size()), width})
                       .to(at::kFloat);
  std::int64_t begin = 0;
  for (std::int64_t g = 0; g < count; ++g) {
    const auto own = static_cast<std::size_t>(g);
    NamedTensors graph = {{"type@node", labels.narrow(0, begin, all.nodes[own])},
                          {"edges@edge>node", edge_tensor(undirected(all.edges[own]))},
                          {"class", classes[g]}};
    if (width > 0) graph.set("x@node", x.narrow(0, begin, all.nodes[own]));
    out.graphs.push_back(graph);
    begin += all.nodes[own];
  }
  out.fields = {{"type@node", {-1}, at::kLong, {}, std::int64_t(label_names.size())},
                {"edges@edge>node", {-1, 2}, at::kLong},
                {"class", {}, at::kLong, {}, std::int64_t(out.class_names.size())}};
  if (width > 0) out.fields.push_back({"x@node", {-1, width}});
  return out;
}

}  // namespace attnlab
