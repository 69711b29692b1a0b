// Files of torch.save, read by LibTorch itself.
#include <fmt/format.h>

#include <torch/serialize.h>

#include "framework/data/formats/files.h"
#include "framework/data/graph/graph_table.h"
#include "plugins/datasets/graphs/benchmark_graphs/readers.h"

namespace attnlab {
namespace {

/// Whether all of a tensor's numbers, and no more of them, lie in its storage: LibTorch believes
/// the sizes and strides that the file names.
bool lies_in_storage(const Tensor& x) {
  if (x.layout() != at::kStrided || !x.device().is_cpu() || x.is_quantized()) return false;
  const auto room = static_cast<std::int64_t>(x.storage().nbytes() / x.element_size());
  std::int64_t last = x.storage_offset(), count = 1;
  bool fits = last >= 0;
  for (std::int64_t d = 0; fits && d < x.dim(); ++d) {
    std::int64_t span = 0;
    fits = x.size(d) >= 0 && x.stride(d) >= 0 &&
           !__builtin_mul_overflow(x.size(d) - 1, x.stride(d), &span) &&
           !__builtin_add_overflow(last, span, &last) &&
           !__builtin_mul_overflow(count, x.size(d), &count);
  }
  return fits && (count == 0 || (count <= room && last < room));
}

/// A tensor of a map; undefined where it is not there, or None.
Tensor entry(const c10::impl::GenericDict& map, const char* name, const std::string& place) {
  const auto found = map.find(name);
  if (found == map.end() || found->value().isNone()) return {};
  const Tensor x = found->value().toTensor();
  if (lies_in_storage(x)) return x;
  throw DataError(
      fmt::format("{}: {} reaches beyond what is stored of it; fetch the file again", place, name));
}

NamedTensors graph_of(const c10::IValue& value, const std::string& place) {
  const c10::impl::GenericDict map = value.toGenericDict();
  const auto field = [&](const char* name) { return entry(map, name, place); };
  const Tensor x = field("x"), edges = field("edge_index"), y = field("y");
  const Tensor e = field("edge_attr"), pos = field("pos");
  const bool fits = x.defined() && x.dim() == 2 && edges.defined() && edges.dim() == 2 &&
                    edges.size(0) == 2 && y.defined() &&
                    (!e.defined() || (e.dim() > 0 && e.size(0) == edges.size(1))) &&
                    (!pos.defined() || (pos.dim() == 2 && pos.size(0) == x.size(0)));
  if (!fits)
    throw DataError(fmt::format("{}: lacks x, edge_index or y, or their shapes do not fit", place));
  const Tensor known = x.to(at::kFloat);
  NamedTensors graph = {{"x@node", pos.defined() ? at::cat({known, pos.to(at::kFloat)}, 1) : known},
                        {"edges@edge>node", edges.t().to(at::kLong).contiguous()}};
  if (e.defined()) graph.set("e@edge", e.reshape({e.size(0), -1}).to(at::kFloat));
  const bool nodes = y.numel() == x.size(0) && y.numel() > 1;
  if (!nodes && y.numel() != 1)
    throw DataError(fmt::format("{}: y has neither one value nor one a node", place));
  graph.set(nodes ? "class@node" : "class",
            nodes ? y.reshape({-1}).to(at::kLong) : y.reshape({}).to(at::kLong));
  return with_sorted_edges(graph, place);
}

/// What a file holds. Its bytes are given back before graphs are made of it.
c10::IValue loaded(const std::string& path) {
  const std::string bytes = read_data_file(path);
  return torch::pickle_load({bytes.begin(), bytes.end()});
}

}  // namespace

SplitGraphs read_torch_graphs(const std::string& path) {
  try {
    const c10::IValue root = loaded(path);
    const auto parts = root.toListRef();
    SplitGraphs splits;
    if (parts.size() != splits.size()) {
      throw DataError(
          fmt::format("{}: holds {} lists, expected those of training, validation and "
                      "test; fetch the file again",
                      path, parts.size()));
    }
    for (std::size_t split = 0; split < splits.size(); ++split) {
      for (const c10::IValue& graph : parts[split].toListRef()) {
        const std::string place =
            fmt::format("{}: split {}, graph {}", path, split, splits[split].size());
        splits[split].push_back(graph_of(graph, place));
      }
    }
    return splits;
  } catch (const c10::Error& error) {
    throw DataError(fmt::format("{}: LibTorch cannot read it ({}); fetch the file again", path,
                                error.what_without_backtrace()));
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw DataError(
        fmt::format("{}: LibTorch cannot read it ({}); fetch the file again", path, error.what()));
  }
}

}  // namespace attnlab
