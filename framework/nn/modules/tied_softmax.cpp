// The table of tokens and its softmax: see the header.
#include "framework/nn/modules/tied_softmax.h"

#include <fmt/format.h>

#include "framework/nn/kernels/linear.h"
#include "framework/nn/modules/linear_nll.h"

namespace attnlab {
namespace {

/// Reading numbers of another device would wait for it.
void check_below(const char* what, const Tensor& tokens, std::int64_t lowest,
                 std::int64_t vocabulary) {
  if (!tokens.device().is_cpu() || tokens.numel() == 0) return;
  const auto [low, high] = at::aminmax(tokens);
  const auto first = low.item<std::int64_t>(), last = high.item<std::int64_t>();
  if (first >= lowest && last < vocabulary) return;
  throw DataError(
      fmt::format("{}: the batch has {}, which is outside the vocabulary (0 to {}); correct the "
                  "dataset, or the vocabulary that it states",
                  what, first < lowest ? first : last, vocabulary - 1));
}

}  // namespace

TiedSoftmax::TiedSoftmax(const TiedSoftmaxOptions& options) {
  std::int64_t begin = 0;
  for (const std::int64_t end : options.cutoffs) {
    if (end <= begin)
      throw ShapeError("TiedSoftmax: cutoffs must rise, and the first be 1 or more");
    if (end >= options.vocabulary) break;
    sizes_.push_back(end - begin);
    begin = end;
  }
  sizes_.push_back(options.vocabulary - begin);
  const std::int64_t clusters = static_cast<std::int64_t>(sizes_.size()) - 1;
  weight = register_parameter("weight", at::empty({options.vocabulary, options.dim}));
  if (options.bias) bias = register_parameter("bias", at::empty({options.vocabulary}));
  if (clusters > 0) {
    cluster_weight = register_parameter("cluster_weight", at::empty({clusters, options.dim}));
    if (options.bias) cluster_bias = register_parameter("cluster_bias", at::empty({clusters}));
  }
  start(0.02);
}

void TiedSoftmax::start(double std) {
  const at::NoGradGuard no_gradients;
  weight.normal_(0, std);
  if (bias.defined()) bias.zero_();
  if (cluster_weight.defined()) cluster_weight.normal_(0, std);
  if (cluster_bias.defined()) cluster_bias.zero_();
}

Tensor TiedSoftmax::embed(const Tensor& tokens) const {
  check_below("tokens", tokens, 0, weight.size(0));
  return at::embedding(weight, tokens);
}

Tensor TiedSoftmax::nll(const Tensor& hidden, const Tensor& targets) const {
  check_below("targets", targets, std::numeric_limits<std::int64_t>::min(), weight.size(0));
  const Tensor rows = hidden.flatten(0, 1), flat = targets.flatten();
  const Tensor counted = flat.ge(0).nonzero().squeeze(1);
  if (counted.size(0) == flat.size(0)) return rows_nll(rows, flat).view(targets.sizes());
  const Tensor nll = rows_nll(rows.index_select(0, counted), flat.index_select(0, counted));
  return at::zeros(flat.sizes(), nll.options()).index_copy(0, counted, nll).view(targets.sizes());
}

TiedSoftmax::Parts TiedSoftmax::parts() const {
  Parts parts;
  parts.weights = weight.split_with_sizes(sizes_);
  parts.biases.resize(sizes_.size());
  if (bias.defined()) parts.biases = bias.split_with_sizes(sizes_);
  if (cluster_weight.defined()) parts.weights[0] = at::cat({parts.weights[0], cluster_weight});
  if (cluster_bias.defined()) parts.biases[0] = at::cat({parts.biases[0], cluster_bias});
  return parts;
}

Tensor TiedSoftmax::rows_nll(const Tensor& hidden, const Tensor& targets) const {
  if (sizes_.size() == 1) return linear_nll(hidden, weight, bias, targets);
  const Parts all = parts();
  Tensor in_head = targets;
  std::vector<Tensor> members(sizes_.size());  // rows whose target is in the cluster
  std::int64_t begin = sizes_[0];
  for (std::size_t i = 1; i < sizes_.size(); begin += sizes_[i++]) {
    const Tensor here = targets.ge(begin).logical_and_(targets.lt(begin + sizes_[i]));
    const auto row = static_cast<std::int64_t>(i) - 1;
    in_head = in_head.masked_fill(here, sizes_[0] + row);
    members[i] = here.nonzero().squeeze(1);
  }
  Tensor nll = linear_nll(hidden, all.weights[0], all.biases[0], in_head);
  begin = sizes_[0];
  for (std::size_t i = 1; i < sizes_.size(); begin += sizes_[i++]) {
    if (members[i].size(0) == 0) continue;
    nll = nll.index_add(0, members[i],
                        linear_nll(hidden.index_select(0, members[i]), all.weights[i],
                                   all.biases[i], targets.index_select(0, members[i]) - begin));
  }
  return nll;
}

Tensor TiedSoftmax::log_probabilities(const Tensor& hidden) const {
  const Parts all = parts();
  const Tensor head = attnlab::linear(hidden, all.weights[0], all.biases[0]).log_softmax(1);
  std::vector<Tensor> tokens = {head.narrow(1, 0, sizes_[0])};
  for (std::size_t i = 1; i < sizes_.size(); ++i) {
    const auto cluster = static_cast<std::int64_t>(i) - 1;
    tokens.push_back(head.narrow(1, sizes_[0] + cluster, 1) +
                     attnlab::linear(hidden, all.weights[i], all.biases[i]).log_softmax(1));
  }
  return at::cat(tokens, 1);
}

}  // namespace attnlab
