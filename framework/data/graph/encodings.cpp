#include "framework/data/graph/encodings.h"

#include <fmt/format.h>

#include "framework/base/files.h"
#include "framework/data/cache.h"
#include "framework/data/long_work.h"

namespace attnlab {
namespace {

/// Raised when another encoding of the same graph would come out.
constexpr int kVersion = 1;

NamedTensors random_walks(const GraphTable& table, std::int64_t k, const std::string& name) {
  const std::int64_t nodes = table.offsets.at("node")[table.size].item<std::int64_t>();
  const Tensor all = at::empty({nodes, k});
  auto* out = all.data_ptr<float>();
  in_parallel(fmt::format("{}: random walks of {} graphs", name, table.size), table.size,
              [&](std::int64_t graph) {
                const std::int64_t begin = table.rows("node", graph).first;
                walk_returns(neighbours_of(table, graph), k, out + begin * k);
              });
  return {{"rwse@node", all}};
}

NamedTensors eigenpairs(const GraphTable& table, std::int64_t k, const std::string& name) {
  const std::int64_t nodes = table.offsets.at("node")[table.size].item<std::int64_t>();
  const Tensor vectors = at::zeros({nodes, k}), values = at::zeros({table.size, k});
  auto* vector_out = vectors.data_ptr<float>();
  auto* value_out = values.data_ptr<float>();
  in_parallel(fmt::format("{}: eigenpairs of {} graphs", name, table.size), table.size,
              [&](std::int64_t graph) {
                const auto [begin, count] = table.rows("node", graph);
                const Eigenpairs pairs = smallest_eigenpairs(neighbours_of(table, graph), k);
                for (std::size_t p = 0; p < pairs.values.size(); ++p) {
                  const auto column = static_cast<std::int64_t>(p);
                  value_out[graph * k + column] = static_cast<float>(pairs.values[p]);
                  for (std::int64_t i = 0; i < count; ++i) {
                    vector_out[(begin + i) * k + column] =
                        static_cast<float>(pairs.vectors[p][static_cast<std::size_t>(i)]);
                  }
                }
              });
  return {{"lap_vectors@node", vectors}, {"lap_values", values}};
}

}  // namespace

void add_encodings(GraphTable& table, const EncodingOptions& options, const std::string& name,
                   double worth) {
  if (options.laplacian > 0 && !has_eigenpairs()) {
    throw OptionError("laplacian",
                      "this attnlab was built without Eigen and Spectra; install libeigen3-dev and "
                      "libspectra-dev and build it again, or set it to 0");
  }
  const std::string graphs = hex(content_of({{"nodes", table.offsets.at("node")},
                                             {"ends", table.offsets.at("edge")},
                                             {"edges", table.fields.at("edges@edge>node")}}));
  const auto add = [&](const char* kind, std::int64_t k, auto make) {
    if (k == 0) return;
    const std::string key =
        fmt::format("{} {} of graphs {}, version {}", kind, k, graphs, kVersion);
    const auto made = [&] { return make(table, k, name); };
    for (const auto& [field, tensor] : cached(kind, key, made, worth)) {
      table.fields.set(field, tensor);
    }
  };
  add("rwse", options.rwse, random_walks);
  add("laplacian", options.laplacian, eigenpairs);
}

}  // namespace attnlab
