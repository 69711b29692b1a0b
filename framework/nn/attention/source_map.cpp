// Maps of a layer's input: see the header.
#include "framework/nn/attention/source_map.h"

#include <c10/core/GradMode.h>

namespace attnlab {

Tensor split_source_heads(const Tensor& y, std::int64_t channels, std::int64_t members) {
  const std::int64_t batch = y.size(0) / members, length = y.size(1), heads = y.size(2) / channels;
  if (members == 1) return y.view({batch, length, heads, channels}).transpose(1, 2);
  return y.view({members, batch, length, heads, channels})
      .permute({1, 0, 3, 2, 4})
      .reshape({batch, members * heads, length, channels});
}

SourceMap::SourceMap(std::int64_t width, std::int64_t channels, const AttentionShape& shape,
                     double start, bool bias)
    : heads_(shape.heads / shape.members), members_(shape.members), channels_(channels) {
  map_ =
      register_module("map", std::make_shared<Linear>(width, heads_ * channels_, bias, members_));
  if (start == 0 || !bias) return;
  const at::NoGradGuard no_gradients;
  map_->bias.fill_(start);
}

Tensor SourceMap::forward(const Tensor& source) const {
  return split_source_heads(map_->forward(source), channels_, members_);
}

HeadRmsNorm::HeadRmsNorm(std::int64_t channels, const AttentionShape& shape, double eps)
    : members_(shape.members), channels_(channels), eps_(eps) {
  weight = register_parameter("weight", at::ones({members_ * channels_}));
}

Tensor HeadRmsNorm::forward(const Tensor& x) const {
  const Tensor scaled = x * at::rsqrt(x.square().mean(-1, true) + eps_);
  if (members_ == 1) return scaled * weight;
  return scaled *
         weight.view({members_, channels_}).repeat_interleave(x.size(1) / members_, 0).unsqueeze(1);
}

}  // namespace attnlab
