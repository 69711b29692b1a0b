// A bias from positions: see the header.
#include "framework/nn/attention/position_bias.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

#include "framework/nn/modules/members.h"

namespace attnlab {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// How many numbers the hidden layer may hold at once: 16 MB in float32.
constexpr std::int64_t kHiddenNumbers = std::int64_t{1} << 22;

/// What f needs: query positions, key positions, W₁, b₁, W₂.
enum Part { kQueries, kKeys, kInWeight, kInBias, kOutWeight, kParts };

/// @param offsets  [members * n, ..., P]. @returns [members * n, ..., H / members].
Tensor mlp(const Tensor& offsets, const variable_list& of, std::int64_t members) {
  const Tensor hidden = member_linear(offsets, of[kInWeight], of[kInBias], members).relu_();
  return member_linear(hidden, of[kOutWeight], {}, members);
}

/// All pairs at once: [B or 1, H, Lq, Lk].
Tensor of_pairs(const variable_list& of, std::int64_t members) {
  // Offsets before any rounding to a narrow dtype: far from 0 they are smaller than positions.
  Tensor offsets = of[kKeys].unsqueeze(1) - of[kQueries].unsqueeze(2);
  offsets = offsets.to(of[kInWeight].scalar_type());
  if (offsets.size(0) == 1) offsets = offsets.expand({members, -1, -1, -1});
  const std::int64_t batch = offsets.size(0) / members;
  const std::int64_t rows = offsets.size(1), columns = offsets.size(2);
  return mlp(offsets, of, members)
      .view({members, batch, rows, columns, -1})
      .permute({1, 0, 4, 2, 3})
      .reshape({batch, -1, rows, columns});
}

std::int64_t queries_at_once(const variable_list& of, std::int64_t members) {
  const std::int64_t batch = std::max({of[kQueries].size(0), of[kKeys].size(0), members});
  const std::int64_t a_query = batch * of[kKeys].size(1) * (of[kInBias].size(0) / members);
  return std::max<std::int64_t>(1, kHiddenNumbers / std::max<std::int64_t>(1, a_query));
}

variable_list some_queries(variable_list of, std::int64_t first, std::int64_t count) {
  of[kQueries] = of[kQueries].narrow(1, first, count);
  return of;
}

/// The gradients of `of_pairs` for the parts that require one; undefined for the others.
variable_list gradients_of_pairs(const variable_list& of, std::int64_t members,
                                 const Tensor& gradient, bool again) {
  const at::AutoGradMode record(true);
  variable_list wanted;
  for (const Tensor& x : of) {
    if (x.requires_grad()) wanted.push_back(x);
  }
  const variable_list found = torch::autograd::grad({of_pairs(of, members)}, wanted, {gradient},
                                                    again, /*create_graph=*/again);
  variable_list all(kParts);
  auto next = found.begin();
  for (std::size_t n = 0; n < all.size(); ++n) {
    if (of[n].requires_grad()) all[n] = *next++;
  }
  return all;
}

/// f a few queries at a time. Nothing of the hidden layer is kept; the gradient computes it again.
struct InParts : public torch::autograd::Function<InParts> {
  static Tensor forward(AutogradContext* context, const Tensor& queries, const Tensor& keys,
                        const Tensor& in_weight, const Tensor& in_bias, const Tensor& out_weight,
                        std::int64_t members) {
    const variable_list of = {queries, keys, in_weight, in_bias, out_weight};
    context->save_for_backward(of);
    context->saved_data["members"] = members;
    const std::int64_t rows = queries.size(1), step = queries_at_once(of, members);
    std::vector<Tensor> parts;
    for (std::int64_t first = 0; first < rows; first += step) {
      parts.push_back(of_pairs(some_queries(of, first, std::min(step, rows - first)), members));
    }
    return at::cat(parts, 2);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list of = context->get_saved_variables();
    const std::int64_t members = context->saved_data["members"].toInt();
    if (at::GradMode::is_enabled()) {  // gradients of gradients need the whole graph
      variable_list all = gradients_of_pairs(of, members, gradients[0], true);
      all.resize(kParts + 1);
      return all;
    }
    const std::int64_t rows = of[kQueries].size(1), step = queries_at_once(of, members);
    variable_list total(kParts + 1);
    std::vector<Tensor> of_queries;
    for (std::int64_t first = 0; first < rows; first += step) {
      const std::int64_t count = std::min(step, rows - first);
      variable_list leaves = some_queries(of, first, count);
      for (std::size_t n = 0; n < leaves.size(); ++n) {
        leaves[n] = leaves[n].detach().requires_grad_(of[n].requires_grad());
      }
      const variable_list part =
          gradients_of_pairs(leaves, members, gradients[0].narrow(2, first, count), false);
      of_queries.push_back(part[kQueries]);
      for (std::size_t n = kKeys; n < kParts; ++n) {
        if (part[n].defined()) total[n] = total[n].defined() ? total[n] + part[n] : part[n];
      }
    }
    if (of[kQueries].requires_grad()) total[kQueries] = at::cat(of_queries, 1);
    return total;
  }
};

}  // namespace

PositionBias::PositionBias(std::int64_t coordinates, std::int64_t hidden, std::int64_t heads,
                           std::int64_t members)
    : members_(members) {
  const auto uniform = [](at::IntArrayRef sizes, std::int64_t inputs) {
    const double bound = 1 / std::sqrt(static_cast<double>(inputs));
    return at::empty(sizes).uniform_(-bound, bound);
  };
  in_weight =
      register_parameter("in_weight", uniform({members * hidden, coordinates}, coordinates));
  in_bias = register_parameter("in_bias", uniform({members * hidden}, coordinates));
  out_weight = register_parameter("out_weight", uniform({heads, hidden}, hidden));
}

at::TensorOptions PositionBias::position_options() const {
  return in_weight.options().dtype(in_weight.scalar_type() == at::kDouble ? at::kDouble
                                                                          : at::kFloat);
}

Tensor PositionBias::forward(const Tensor& queries, const Tensor& keys) const {
  const variable_list of = {queries, keys, in_weight, in_bias, out_weight};
  if (queries.size(1) <= queries_at_once(of, members_)) return of_pairs(of, members_);
  return InParts::apply(queries, keys, in_weight, in_bias, out_weight, members_);
}

Tensor PositionBias::of_sequences(std::int64_t queries, std::int64_t keys) const {
  const std::int64_t count = queries + keys - 1;
  const Tensor offsets = at::arange(1 - queries, keys, position_options())
                             .to(in_weight.scalar_type())
                             .view({1, count, 1})
                             .expand({members_, count, 1});
  const Tensor table = mlp(offsets, {{}, {}, in_weight, in_bias, out_weight}, members_);
  // Window s of the table has the offsets s + 1 - Lq + j: the row of query Lq - 1 - s.
  return table.transpose(1, 2).reshape({-1, count}).unfold(1, keys, 1).flip(1).unsqueeze(0);
}

}  // namespace attnlab
