#include <fmt/format.h>

#include <algorithm>

#include "framework/data/formats/files.h"
#include "framework/data/formats/lines.h"
#include "framework/data/formats/pickle.h"
#include "framework/data/graph/graph_table.h"
#include "plugins/datasets/graphs/benchmark_graphs/readers.h"

namespace attnlab {
namespace {

DataError refusal(const std::string& path, std::int64_t index, const std::string& what) {
  return DataError(fmt::format("{}: graph {}: {}; fetch the file again", path, index, what));
}

NamedTensors molecule_of(const PickleValue& molecule, const std::string& path, std::int64_t index,
                         ValueBudget& taken) {
  const Tensor atoms = molecule.entry("atom_type").tensor().to(at::kLong);
  const Tensor bonds = molecule.entry("bond_type").tensor().to(at::kLong);
  const std::int64_t n = atoms.numel();
  taken.add(molecule.length() + n + bonds.numel());
  if (bonds.sizes() != at::IntArrayRef({n, n})) {
    throw refusal(path, index, fmt::format("bond_type is {} for {} atoms", describe(bonds), n));
  }
  const Tensor edges = bonds.nonzero();
  return with_sorted_edges(
      {{"type@node", atoms.view({n})},
       {"edges@edge>node", edges},
       {"edge_type@edge", bonds.index({edges.select(1, 0), edges.select(1, 1)})},
       {"labels", at::full({1}, molecule.entry("logP_SA_cycle_normalized").number(), at::kFloat)}},
      fmt::format("{}: graph {}", path, index));
}

/// An array, or a list of numbers.
Tensor whole_numbers(const PickleValue& value) {
  if (value.kind() == PickleValue::Kind::tensor) return value.tensor().to(at::kLong);
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < value.length(); ++i) numbers.push_back(value.item(i).integer());
  return at::tensor(numbers, at::kLong);
}

/// COCO's numbers of categories are 1 to 90 with ten gaps; 0 is the background.
Tensor without_gaps(const Tensor& numbers, const std::string& path, std::int64_t index) {
  static constexpr std::int64_t kGaps[] = {12, 26, 29, 30, 45, 66, 68, 69, 71, 83};
  const Tensor labels = numbers.clone();
  for (std::int64_t i = 0; i < labels.numel(); ++i) {
    std::int64_t& label = labels.data_ptr<std::int64_t>()[i];
    const auto* above = std::lower_bound(std::begin(kGaps), std::end(kGaps), label);
    const bool gap = above != std::end(kGaps) && *above == label;
    if (gap || label < 0 || label > 90) {
      throw refusal(path, index, fmt::format("{} is not a category of COCO", label));
    }
    label -= above - std::begin(kGaps);
  }
  return labels;
}

}  // namespace

std::vector<NamedTensors> read_zinc(const std::string& path, const std::string& index_path) {
  const std::string bytes = read_data_file(path);
  const Pickle pickle(bytes, path);
  const std::int64_t count = pickle.root().length();
  std::vector<std::int64_t> chosen;
  if (index_path.empty()) {
    for (std::int64_t i = 0; i < count; ++i) chosen.push_back(i);
  } else {
    const TextLines lines = read_lines(index_path);
    for (std::size_t line = 0; line < lines.lines.size(); ++line) {
      for (const std::int64_t index : lines.integers(line)) {
        if (index < 0 || index >= count) {
          throw DataError(fmt::format("{}: there is no molecule {} in {}, which has {}",
                                      lines.place(line), index, path, count));
        }
        chosen.push_back(index);
      }
    }
  }
  std::vector<NamedTensors> graphs;
  ValueBudget taken(bytes.size(), path);
  for (const std::int64_t index : chosen) {
    graphs.push_back(molecule_of(pickle.root().item(index), path, index, taken));
  }
  return graphs;
}

std::vector<NamedTensors> read_superpixels(const std::string& path, bool coco) {
  const std::string bytes = read_data_file(path);
  const Pickle pickle(bytes, path);
  std::vector<NamedTensors> graphs;
  ValueBudget taken(bytes.size(), path);
  for (std::int64_t i = 0; i < pickle.root().length(); ++i) {
    const PickleValue& graph = pickle.root().item(i);
    const Tensor x = graph.item(0).tensor().to(at::kFloat),
                 e = graph.item(1).tensor().to(at::kFloat);
    const Tensor edges = graph.item(2).tensor().to(at::kLong);
    const Tensor labels = whole_numbers(graph.item(3));
    taken.add(x.numel() + e.numel() + edges.numel() + labels.numel());
    const bool fits = x.dim() == 2 && e.dim() == 2 && edges.dim() == 2 && edges.size(0) == 2 &&
                      e.size(0) == edges.size(1) && labels.numel() == x.size(0);
    if (!fits) {
      throw refusal(path, i,
                    fmt::format("x is {}, edge_attr {}, edge_index {}, y {}", describe(x),
                                describe(e), describe(edges), describe(labels)));
    }
    graphs.push_back(with_sorted_edges(
        {{"x@node", x},
         {"edges@edge>node", edges.t().contiguous()},
         {"e@edge", e},
         {"class@node", (coco ? without_gaps(labels, path, i) : labels).reshape({-1})}},
        fmt::format("{}: graph {}", path, i)));
  }
  return graphs;
}

}  // namespace attnlab
