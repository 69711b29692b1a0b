// GatedGCN's sums: see the header.
#include <ATen/Dispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include "framework/base/vector_clones.h"
#include "framework/nn/graph/sigmoid.h"
#include "framework/nn/graph/work.h"
#include "framework/nn/modules/composed_gradients.h"

namespace attnlab {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr double kFloor = 1e-6;  // of the sum of gates

/// Where a node's row [a, d, b, s] has its parts.
template <class T>
struct NodeRow {
  T* row;
  std::int64_t width;

  [[gnu::always_inline]] T* own() const { return row; }
  [[gnu::always_inline]] T* target() const { return row + width; }
  [[gnu::always_inline]] T* value() const { return row + 2 * width; }
  [[gnu::always_inline]] T* source() const { return row + 3 * width; }
};

template <class T>
[[gnu::always_inline]] inline NodeRow<T> row_of(T* rows, std::int64_t node, std::int64_t width) {
  return {rows + node * 4 * width, width};
}

/// What a node needs to know of itself and of its edges. All point to the batch's first row.
template <class T>
struct Gated {
  const T* nodes;
  const T* c;  ///< forward only
  T* g;
  T* sums;         ///< a + m, [N, C]
  T* m;            ///< [N, C]
  T* inverse;      ///< 1 / (sum of gates + floor), [N, C]
  const T* dsums;  ///< gradients, here and below
  const T* dg_in;  ///< null: nobody used g
  T* dg;
  T* dnodes;
};

template <class T>
[[gnu::always_inline]] inline void gated_node(const Gated<T>& at, std::int64_t node, NodeEdges in,
                                              std::int64_t width) {
  const NodeRow<const T> mine = row_of(at.nodes, node, width);
  T *const m = at.m + node * width, *const inverse = at.inverse + node * width;
  for (std::int64_t c = 0; c < width; ++c) m[c] = inverse[c] = 0;
  for (std::int64_t k = 0; k < in.count; ++k) {
    const NodeRow<const T> from = row_of(at.nodes, in.other_end[in.edge[k]], width);
    const T *const d = mine.target(), *const s = from.source(), *const b = from.value();
    const T* const along = at.c + in.edge[k] * width;
    T* const g = at.g + in.edge[k] * width;
    ATTNLAB_INDEPENDENT_STEPS
    for (std::int64_t c = 0; c < width; ++c) {
      g[c] = d[c] + s[c] + along[c];
      const T gate = sigmoid(g[c]);
      m[c] += gate * b[c];
      inverse[c] += gate;
    }
  }
  T* const sum = at.sums + node * width;
  ATTNLAB_INDEPENDENT_STEPS
  for (std::int64_t c = 0; c < width; ++c) {
    inverse[c] = 1 / (inverse[c] + T(kFloor));
    m[c] *= inverse[c];
    sum[c] = mine.own()[c] + m[c];
  }
}

ATTNLAB_VECTOR_CLONES
void gated(const Gated<float>& at, std::int64_t node, NodeEdges in, std::int64_t width) {
  gated_node(at, node, in, width);
}
ATTNLAB_VECTOR_CLONES
void gated(const Gated<double>& at, std::int64_t node, NodeEdges in, std::int64_t width) {
  gated_node(at, node, in, width);
}

/// dg of the edges that lead to a node, and the gradients of its a and d.
template <class T>
[[gnu::always_inline]] inline void gated_targets(const Gated<T>& at, std::int64_t node,
                                                 NodeEdges in, std::int64_t width) {
  const NodeRow<T> mine = row_of(at.dnodes, node, width);
  const T *const dm = at.dsums + node * width, *const inverse = at.inverse + node * width;
  const T* const m = at.m + node * width;
  T *const da = mine.own(), *const dd = mine.target();
  for (std::int64_t c = 0; c < width; ++c) da[c] = dm[c];
  for (std::int64_t c = 0; c < width; ++c) dd[c] = 0;
  for (std::int64_t k = 0; k < in.count; ++k) {
    const T* const b = row_of(at.nodes, in.other_end[in.edge[k]], width).value();
    const std::int64_t place = in.edge[k] * width;
    const T *const g = at.g + place, *const from_edge = at.dg_in + place;
    T* const dg = at.dg + place;
    const bool used = at.dg_in != nullptr;
    ATTNLAB_INDEPENDENT_STEPS
    for (std::int64_t c = 0; c < width; ++c) {
      const T gate = sigmoid(g[c]);
      const T d = dm[c] * inverse[c] * (b[c] - m[c]) * gate * (1 - gate);
      dg[c] = d;
      dd[c] += d;
    }
    if (!used) continue;
    ATTNLAB_INDEPENDENT_STEPS
    for (std::int64_t c = 0; c < width; ++c) {
      dg[c] += from_edge[c];
      dd[c] += from_edge[c];
    }
  }
}

ATTNLAB_VECTOR_CLONES
void gated_target_gradients(const Gated<float>& at, std::int64_t node, NodeEdges in,
                            std::int64_t width) {
  gated_targets(at, node, in, width);
}
ATTNLAB_VECTOR_CLONES
void gated_target_gradients(const Gated<double>& at, std::int64_t node, NodeEdges in,
                            std::int64_t width) {
  gated_targets(at, node, in, width);
}

/// The gradients of a node's b and s, from the edges that lead from it.
template <class T>
[[gnu::always_inline]] inline void gated_sources(const Gated<T>& at, std::int64_t node,
                                                 NodeEdges out, std::int64_t width) {
  const NodeRow<T> mine = row_of(at.dnodes, node, width);
  T *const db = mine.value(), *const ds = mine.source();
  for (std::int64_t c = 0; c < width; ++c) db[c] = ds[c] = 0;
  for (std::int64_t k = 0; k < out.count; ++k) {
    const std::int64_t target = out.other_end[out.edge[k]];
    const T *const dm = at.dsums + target * width, *const inverse = at.inverse + target * width;
    const T *const g = at.g + out.edge[k] * width, *const dg = at.dg + out.edge[k] * width;
    ATTNLAB_INDEPENDENT_STEPS
    for (std::int64_t c = 0; c < width; ++c) {
      db[c] += sigmoid(g[c]) * dm[c] * inverse[c];
      ds[c] += dg[c];
    }
  }
}

ATTNLAB_VECTOR_CLONES
void gated_source_gradients(const Gated<float>& at, std::int64_t node, NodeEdges out,
                            std::int64_t width) {
  gated_sources(at, node, out, width);
}
ATTNLAB_VECTOR_CLONES
void gated_source_gradients(const Gated<double>& at, std::int64_t node, NodeEdges out,
                            std::int64_t width) {
  gated_sources(at, node, out, width);
}

GatedSums composed_gated(const Tensor& nodes, const Tensor& c, const Edges& edges) {
  const std::vector<Tensor> parts = nodes.chunk(4, 1);
  const Tensor g =
      gather_rows(parts[1], edges.by_target) + gather_rows(parts[3], edges.by_source) + c;
  const Tensor gate = g.sigmoid();
  const Tensor sums = segment_sum(gate * gather_rows(parts[2], edges.by_source), edges.by_target);
  return {parts[0] + sums / (segment_sum(gate, edges.by_target) + kFloor), g};
}

struct GatedSum : public torch::autograd::Function<GatedSum> {
  static variable_list forward(AutogradContext* context, const Tensor& nodes_given,
                               const Tensor& c_given, const Edges& edges) {
    const Tensor nodes = nodes_given.contiguous(), c = c_given.contiguous();
    const std::int64_t width = c.size(1);
    const auto room = [&] { return at::empty({nodes.size(0), width}, nodes.options()); };
    const Tensor sums = room(), m = room(), inverse = room();
    const Tensor g = at::empty(c.sizes(), c.options());
    AT_DISPATCH_FLOATING_TYPES(nodes.scalar_type(), "gated", [&] {
      Gated<scalar_t> at = {};
      at.nodes = nodes.data_ptr<scalar_t>();
      at.c = c.data_ptr<scalar_t>();
      at.g = g.data_ptr<scalar_t>();
      at.sums = sums.data_ptr<scalar_t>();
      at.m = m.data_ptr<scalar_t>();
      at.inverse = inverse.data_ptr<scalar_t>();
      each_segment(edges.by_target, width, [&](std::int64_t i) {
        gated(at, i, edges_of_node(edges.by_target, edges.by_source, i), width);
      });
    });
    context->save_for_backward({nodes_given, c_given, g, m, inverse});
    context->saved_data["edges"] = kept(edges);
    context->set_materialize_grads(false);  // nobody may ask for g's
    return {sums, g};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Edges edges = edges_of(context->saved_data["edges"].toTensorVector());
    if (at::GradMode::is_enabled()) {  // the caller asked for a graph of this backward pass
      const GatedSums both = composed_gated(saved[0], saved[1], edges);
      const variable_list d =
          composed_gradients({both.nodes, both.edges}, {saved[0], saved[1]}, gradients);
      return {d[0], d[1], Tensor()};
    }
    const auto [dnodes, dg] = differentiate(saved, gradients, edges);
    return {dnodes, dg, Tensor()};
  }

  static std::pair<Tensor, Tensor> differentiate(const variable_list& saved,
                                                 const variable_list& gradients,
                                                 const Edges& edges) {
    const Tensor nodes = saved[0].contiguous();
    const Tensor &g = saved[2], &m = saved[3], &inverse = saved[4];
    const Tensor dsums = gradients[0].defined() ? gradients[0].contiguous() : at::zeros_like(m);
    const Tensor dg_in = gradients[1].defined() ? gradients[1].contiguous() : Tensor();
    const Tensor dnodes = at::empty(nodes.sizes(), nodes.options());
    const Tensor dg = at::empty(g.sizes(), g.options());
    const std::int64_t width = g.size(1);
    AT_DISPATCH_FLOATING_TYPES(nodes.scalar_type(), "gated_gradients", [&] {
      Gated<scalar_t> at = {};
      at.nodes = nodes.data_ptr<scalar_t>();
      at.g = g.data_ptr<scalar_t>();
      at.m = m.data_ptr<scalar_t>();
      at.inverse = inverse.data_ptr<scalar_t>();
      at.dsums = dsums.data_ptr<scalar_t>();
      at.dg_in = dg_in.defined() ? dg_in.data_ptr<scalar_t>() : nullptr;
      at.dg = dg.data_ptr<scalar_t>();
      at.dnodes = dnodes.data_ptr<scalar_t>();
      each_segment(edges.by_target, width, [&](std::int64_t i) {
        gated_target_gradients(at, i, edges_of_node(edges.by_target, edges.by_source, i), width);
      });
      each_segment(edges.by_source, width, [&](std::int64_t j) {
        gated_source_gradients(at, j, edges_of_node(edges.by_source, edges.by_target, j), width);
      });
    });
    return {dnodes, dg};
  }
};

}  // namespace

GatedSums gated_sums(const Tensor& nodes, const Tensor& c, const Edges& edges) {
  check_like("gated_sums", nodes, c, edges, 4);
  if (!has_graph_kernel(nodes)) return composed_gated(nodes, c, edges);
  const variable_list both = GatedSum::apply(nodes, c, edges);
  return {both[0], both[1]};
}

}  // namespace attnlab
