// The layout of the TU Dortmund collection: each kind of thing has a file of its own.
#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <filesystem>
#include <map>

#include "framework/data/formats/files.h"
#include "framework/data/formats/lines.h"
#include "framework/data/graph/graph_table.h"
#include "plugins/datasets/graphs/tudataset/graph_files.h"

namespace attnlab {

std::vector<std::int64_t> categories_of(const std::vector<std::int64_t>& values,
                                        std::vector<std::string>& names) {
  std::vector<std::int64_t> known = values;
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  names.clear();
  for (const std::int64_t value : known) names.push_back(std::to_string(value));
  std::vector<std::int64_t> places;
  for (const std::int64_t value : values) {
    places.push_back(std::lower_bound(known.begin(), known.end(), value) - known.begin());
  }
  return places;
}

namespace {

/// The files of one collection. Nodes and graphs count from 1 in them, here from 0.
class TuFiles {
 public:
  TuFiles(const std::string& folder, const std::string& name)
      : stem_(fmt::format("{}/{}_", folder, name)) {}

  GraphFiles read() {
    read_nodes();
    read_edges();
    read_targets();
    const Tensor labels = category("node_labels", node_graph_.size(), "type@node");
    if (!labels.defined() && !has("node_attributes")) count_degrees();
    values("node_attributes", node_graph_.size(), "x@node");
    category("edge_labels", edges_.size(), "edge_type@edge");
    values("edge_attributes", edges_.size(), "e@edge");
    cut();
    return std::move(out_);
  }

 private:
  std::string path(const std::string& part) const {
    return with_or_without_gz(fmt::format("{}{}.txt", stem_, part));
  }
  bool has(const std::string& part) const { return std::filesystem::exists(path(part)); }
  TextLines lines_of(const std::string& part) {
    TextLines lines = read_lines(path(part));
    out_.hash = content_fingerprint(*lines.text, out_.hash);
    return lines;
  }
  /// A file with one line for each of `count` things.
  TextLines lines_of(const std::string& part, std::size_t count, const char* things) {
    TextLines lines = lines_of(part);
    if (lines.lines.size() == count) return lines;
    throw DataError(fmt::format("{}: has {} lines for {} {}; fetch the file again", lines.path,
                                lines.lines.size(), count, things));
  }
  static std::int64_t one_of(const TextLines& lines, std::size_t index) {
    const std::vector<std::int64_t> numbers = lines.integers(index);
    if (numbers.size() != 1) {
      throw DataError(fmt::format("{}: holds {} numbers, where one is expected", lines.place(index),
                                  numbers.size()));
    }
    return numbers.front();
  }

  /// Which graph each node belongs to; graphs lie one after the other.
  void read_nodes() {
    const std::string part = has("graph_labels") ? "graph_labels" : "graph_attributes";
    const TextLines graphs = lines_of(part), nodes = lines_of("graph_indicator");
    graphs_ = static_cast<std::int64_t>(graphs.lines.size());
    if (graphs_ == 0) {
      throw DataError(fmt::format("{}: holds no graph; fetch the file again", graphs.path));
    }
    begins_.assign(static_cast<std::size_t>(graphs_) + 1, 0);
    for (std::size_t i = 0; i < nodes.lines.size(); ++i) {
      const std::int64_t number = one_of(nodes, i);
      const std::int64_t before = node_graph_.empty() ? 0 : node_graph_.back();
      if (number <= before || number > graphs_) {
        throw DataError(fmt::format(
            "{}: graph {} is not one of 1 to {}, or stands before the graph of the line before",
            nodes.place(i), number, graphs_));
      }
      node_graph_.push_back(number - 1);
      ++begins_[static_cast<std::size_t>(number)];
    }
    for (std::size_t g = 0; g < static_cast<std::size_t>(graphs_); ++g) {
      if (begins_[g + 1] == 0) {
        throw DataError(
            fmt::format("{}: graph {} has no nodes in {}", graphs.place(g), g + 1, nodes.path));
      }
      begins_[g + 1] += begins_[g];
    }
  }

  void read_edges() {
    const TextLines lines = lines_of("A");
    const auto nodes = static_cast<std::int64_t>(node_graph_.size());
    for (std::size_t i = 0; i < lines.lines.size(); ++i) {
      const std::vector<std::int64_t> ends = lines.integers(i);
      const bool known = ends.size() == 2 && std::min(ends[0], ends[1]) >= 1 &&
                         std::max(ends[0], ends[1]) <= nodes;
      if (!known) {
        throw DataError(fmt::format("{}: an edge is two nodes of 1 to {}, found '{}'",
                                    lines.place(i), nodes, lines.lines[i].text));
      }
      edges_.emplace_back(ends[0] - 1, ends[1] - 1);
      const std::int64_t a = graph_of(edges_.back().first), b = graph_of(edges_.back().second);
      if (a == b) continue;
      throw DataError(fmt::format("{}: the edge leads from graph {} to graph {}", lines.place(i),
                                  a + 1, b + 1));
    }
  }

  std::int64_t graph_of(std::int64_t node) const {
    return node_graph_[static_cast<std::size_t>(node)];
  }

  void read_targets() {
    if (!has("graph_labels")) {
      values("graph_attributes", static_cast<std::size_t>(graphs_), "labels");
      return;
    }
    category("graph_labels", static_cast<std::size_t>(graphs_), "class");
    out_.class_names = out_.fields.back().values;
    out_.fields.back().values.clear();
  }

  /// A category for each line. Some collections have several numbers per line (Cuneiform: which
  /// mark, and which of its parts): each row of numbers that occurs is a category then, in rising
  /// order.
  static std::vector<std::int64_t> rows_of_categories(const TextLines& lines, std::size_t count) {
    std::vector<std::vector<std::int64_t>> rows;
    for (std::size_t i = 0; i < count; ++i) {
      rows.push_back(lines.integers(i));
      if (!rows.back().empty() && rows.back().size() == rows.front().size()) continue;
      throw DataError(fmt::format("{}: holds {} numbers, where the first line has {}",
                                  lines.place(i), rows.back().size(), rows.front().size()));
    }
    std::map<std::vector<std::int64_t>, std::int64_t> numbers;
    for (const std::vector<std::int64_t>& row : rows) numbers.emplace(row, 0);
    std::int64_t next = 0;
    for (auto& [row, number] : numbers) number = row.size() == 1 ? row.front() : next++;
    std::vector<std::int64_t> values;
    for (const std::vector<std::int64_t>& row : rows) values.push_back(numbers.at(row));
    return values;
  }

  /// A file of categories, if it is there. @returns the column, undefined where `count` is none
  Tensor category(const std::string& part, std::size_t count, const std::string& field) {
    if (!has(part)) return {};
    const TextLines lines = lines_of(part, count, part.c_str());
    if (count == 0) return {};
    std::vector<std::int64_t> values;
    if (field != "class") {
      values = rows_of_categories(lines, count);
    } else {
      for (std::size_t i = 0; i < count; ++i) values.push_back(one_of(lines, i));
    }
    FieldInfo info{field, {-1}, at::kLong};
    if (field == "class") info.shape.clear();
    const Tensor column = at::tensor(categories_of(values, info.values), at::kLong);
    info.categories = static_cast<std::int64_t>(info.values.size());
    if (field != "class") info.values.clear();
    out_.fields.push_back(info);
    columns_.set(field, column);
    return column;
  }

  /// A file of equally many numbers per line, if it is there.
  void values(const std::string& part, std::size_t count, const std::string& field) {
    if (!has(part)) return;
    const TextLines lines = lines_of(part, count, part.c_str());
    if (count == 0) return;  // how many values an edge has, nobody says
    std::vector<double> all;
    std::size_t width = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::vector<double> row = lines.numbers(i);
      if (i == 0) width = row.size();
      if (width == 0) throw DataError(fmt::format("{}: holds no number", lines.place(i)));
      for (const double value : row) {
        if (!std::isfinite(value) || std::abs(value) <= FLT_MAX) continue;
        throw DataError(fmt::format("{}: {} is not a number of float32", lines.place(i), value));
      }
      if (row.size() != width) {
        throw DataError(fmt::format("{}: has {} values where the first line has {}", lines.place(i),
                                    row.size(), width));
      }
      all.insert(all.end(), row.begin(), row.end());
    }
    const auto columns = static_cast<std::int64_t>(width);
    columns_.set(field, at::tensor(all, at::kDouble).view({-1, columns}).to(at::kFloat));
    FieldInfo info{field, {-1, columns}};
    if (field == "labels") info.shape = {columns};
    out_.fields.push_back(info);
  }

  Tensor degrees_in(const std::vector<Edge>& edges) const {
    const Tensor degrees = at::zeros({std::int64_t(node_graph_.size())}, at::kLong);
    for (const auto& [source, target] : edges) ++degrees.data_ptr<std::int64_t>()[target];
    return degrees;
  }

  /// Where nodes have neither labels nor attributes: their degree stands for them, as is usual. It
  /// is that of the graph: there, links without labels count once and in both directions.
  void count_degrees() {
    const bool plain = !has("edge_labels") && !has("edge_attributes");
    const Tensor listed = degrees_in(edges_);
    const Tensor degrees = plain ? degrees_in(undirected(edges_)) : listed;
    // Versions before took those of the list: where they differ, the data are others.
    if (!degrees.equal(listed)) out_.hash = content_fingerprint("degrees in the graph", out_.hash);
    columns_.set("type@node", degrees);
    out_.fields.push_back(
        {"type@node", {-1}, at::kLong, {}, degrees.max().item<std::int64_t>() + 1});
  }

  /// Cuts the columns into graphs.
  void cut() {
    std::vector<std::vector<std::int64_t>> edges_in(static_cast<std::size_t>(graphs_));
    for (std::size_t e = 0; e < edges_.size(); ++e) {
      edges_in[static_cast<std::size_t>(graph_of(edges_[e].first))].push_back(std::int64_t(e));
    }
    const bool plain =
        columns_.find("edge_type@edge") == nullptr && columns_.find("e@edge") == nullptr;
    for (std::size_t g = 0; g < edges_in.size(); ++g) {
      const std::int64_t begin = begins_[g], count = begins_[g + 1] - begin;
      std::vector<Edge> own;
      for (const std::int64_t e : edges_in[g]) {
        const Edge& edge = edges_[static_cast<std::size_t>(e)];
        own.emplace_back(edge.first - begin, edge.second - begin);
      }
      NamedTensors graph;
      for (const auto& [name, column] : columns_) {
        const std::string_view axis = parse_field_name(name).axis;
        graph.set(name, axis == "node" ? column.narrow(0, begin, count)
                        : axis == "edge"
                            ? column.index_select(0, at::tensor(edges_in[g], at::kLong))
                            : column[std::int64_t(g)]);
      }
      graph.set("edges@edge>node", edge_tensor(plain ? undirected(own) : own));
      out_.graphs.push_back(with_sorted_edges(graph, fmt::format("graph {}", g + 1)));
    }
    out_.fields.push_back({"edges@edge>node", {-1, 2}, at::kLong});
  }

  std::string stem_;
  GraphFiles out_;
  std::int64_t graphs_ = 0;
  std::vector<std::int64_t> node_graph_, begins_;
  std::vector<Edge> edges_;
  NamedTensors columns_;
};

}  // namespace

GraphFiles read_tu_files(const std::string& folder, const std::string& name) {
  return TuFiles(folder, name).read();
}

}  // namespace attnlab
