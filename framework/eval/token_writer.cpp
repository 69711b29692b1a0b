#include "framework/eval/token_writer.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "framework/base/error.h"

namespace attnlab {
namespace {

/// The places of the `count` largest values, falling, equal ones in their order: LibTorch's topk
/// keeps no order of equals.
std::vector<std::int64_t> likeliest(const Tensor& values, std::int64_t count) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(values.size(0)));
  std::iota(places.begin(), places.end(), 0);
  const double* value = values.data_ptr<double>();
  const auto before = [value](std::int64_t a, std::int64_t b) {
    return value[a] != value[b] ? value[a] > value[b] : a < b;
  };
  const auto end = places.begin() + count;
  std::nth_element(places.begin(), end, places.end(), before);
  std::sort(places.begin(), end, before);
  places.erase(end, places.end());
  return places;
}

}  // namespace

std::int64_t draw_token(const Tensor& logits, const SamplingOptions& options, Random& random) {
  Tensor values = logits.to(at::kCPU, at::kDouble);
  const double most = values.max().item<double>();  // not a number where one is none
  if (!std::isfinite(most)) {
    throw DataError(
        "the model's scores of what follows are not finite numbers; its training diverged, or its "
        "weights are damaged");
  }
  if (options.temperature == 0) return values.argmax().item<std::int64_t>();
  values = values - most;  // else a small temperature makes infinities of all
  const std::int64_t all = values.size(0);
  const std::vector<std::int64_t> tokens =
      likeliest(values, options.top_k == 0 ? all : std::min(options.top_k, all));
  const Tensor largest = values.index_select(0, at::tensor(tokens));
  const Tensor shares = (largest / options.temperature).softmax(0).cumsum(0).contiguous();
  const double* begin = shares.data_ptr<double>();
  const double* end = begin + shares.size(0);
  // The last sum is 1 up to rounding only.
  const double* found = std::upper_bound(begin, end - 1, random.uniform());
  return tokens[static_cast<std::size_t>(found - begin)];
}

TokenWriter::TokenWriter(Model& model, const at::Device& device, const SamplingOptions& options,
                         Random random)
    : model_(model), device_(device), options_(options), random_(random) {}

void TokenWriter::read(const std::vector<std::int64_t>& tokens) {
  const at::NoGradGuard no_gradients;
  Batch batch;
  batch.size = 1;
  batch.fields.set("tokens", at::tensor(tokens, at::kLong).unsqueeze(0).to(device_));
  batch.continues = carried_.size() > 0;
  ForwardPass pass;
  pass.carried = &carried_;
  const NamedTensors outputs = model_.forward(batch, pass);
  const Tensor* logits = outputs.find("logits");
  if (logits == nullptr || logits->dim() != 2 || logits->size(0) != 1) {
    throw DataError(
        "the model '" + model_.name() +
        "' does not predict the next token: without targets it must give `logits` [B, vocabulary]");
  }
  logits_ = (*logits)[0];
}

std::int64_t TokenWriter::next() {
  const std::int64_t token = draw_token(logits_, options_, random_);
  read({token});
  return token;
}

}  // namespace attnlab
