// GINE's sums: see the header.
#include <ATen/Dispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include "framework/base/vector_clones.h"
#include "framework/nn/graph/work.h"
#include "framework/nn/modules/composed_gradients.h"

namespace attnlab {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

template <class T>
[[gnu::always_inline]] inline void gine_node(const T* __restrict__ x, const T* __restrict__ e,
                                             T* __restrict__ m, NodeEdges in, std::int64_t width) {
  for (std::int64_t c = 0; c < width; ++c) m[c] = 0;
  for (std::int64_t k = 0; k < in.count; ++k) {
    const T* const from = x + in.other_end[in.edge[k]] * width;
    const T* const along = e + in.edge[k] * width;
    for (std::int64_t c = 0; c < width; ++c) {
      const T message = from[c] + along[c];
      m[c] += message < 0 ? T(0) : message;
    }
  }
}

ATTNLAB_VECTOR_CLONES
void gine(const float* x, const float* e, float* m, NodeEdges in, std::int64_t width) {
  gine_node(x, e, m, in, width);
}
ATTNLAB_VECTOR_CLONES
void gine(const double* x, const double* e, double* m, NodeEdges in, std::int64_t width) {
  gine_node(x, e, m, in, width);
}

/// de = dm where the message is positive.
template <class T>
[[gnu::always_inline]] inline void gine_edges(const T* __restrict__ x, const T* __restrict__ e,
                                              const T* __restrict__ dm, T* __restrict__ de,
                                              NodeEdges in, std::int64_t width) {
  for (std::int64_t k = 0; k < in.count; ++k) {
    const T* const from = x + in.other_end[in.edge[k]] * width;
    const std::int64_t place = in.edge[k] * width;
    for (std::int64_t c = 0; c < width; ++c) {
      de[place + c] = from[c] + e[place + c] > 0 ? dm[c] : T(0);
    }
  }
}

ATTNLAB_VECTOR_CLONES
void gine_gradient(const float* x, const float* e, const float* dm, float* de, NodeEdges in,
                   std::int64_t width) {
  gine_edges(x, e, dm, de, in, width);
}
ATTNLAB_VECTOR_CLONES
void gine_gradient(const double* x, const double* e, const double* dm, double* de, NodeEdges in,
                   std::int64_t width) {
  gine_edges(x, e, dm, de, in, width);
}

Tensor composed_gine(const Tensor& x, const Tensor& e, const Edges& edges) {
  return segment_sum((gather_rows(x, edges.by_source) + e).relu(), edges.by_target);
}

struct GineSum : public torch::autograd::Function<GineSum> {
  static Tensor forward(AutogradContext* context, const Tensor& x_given, const Tensor& e_given,
                        const Edges& edges) {
    const Tensor x = x_given.contiguous(), e = e_given.contiguous();
    const std::int64_t width = x.size(1);
    Tensor m = at::empty(x.sizes(), x.options());
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "gine", [&] {
      each_segment(edges.by_target, width, [&](std::int64_t i) {
        gine(x.data_ptr<scalar_t>(), e.data_ptr<scalar_t>(), m.data_ptr<scalar_t>() + i * width,
             edges_of_node(edges.by_target, edges.by_source, i), width);
      });
    });
    context->save_for_backward({x_given, e_given});
    context->saved_data["edges"] = kept(edges);
    return m;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Edges edges = edges_of(context->saved_data["edges"].toTensorVector());
    if (at::GradMode::is_enabled()) {  // the caller asked for a graph of this backward pass
      const Tensor m = composed_gine(saved[0], saved[1], edges);
      const variable_list d = composed_gradients({m}, {saved[0], saved[1]}, gradients);
      return {d[0], d[1], Tensor()};
    }
    const Tensor x = saved[0].contiguous(), e = saved[1].contiguous();
    const Tensor dm = gradients[0].contiguous();
    const std::int64_t width = x.size(1);
    Tensor de = at::empty(e.sizes(), e.options());
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "gine_gradient", [&] {
      each_segment(edges.by_target, width, [&](std::int64_t i) {
        gine_gradient(x.data_ptr<scalar_t>(), e.data_ptr<scalar_t>(),
                      dm.data_ptr<scalar_t>() + i * width, de.data_ptr<scalar_t>(),
                      edges_of_node(edges.by_target, edges.by_source, i), width);
      });
    });
    return {segment_sum(de, edges.by_source), de, Tensor()};
  }
};

}  // namespace

Tensor gine_sum(const Tensor& x, const Tensor& e, const Edges& edges) {
  check_like("gine_sum", x, e, edges, 1);
  return has_graph_kernel(x) ? GineSum::apply(x, e, edges) : composed_gine(x, e, edges);
}

}  // namespace attnlab
