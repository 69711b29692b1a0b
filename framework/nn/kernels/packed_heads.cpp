// Heads side by side in one product: see the header.
#include "framework/nn/kernels/packed_heads.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>

namespace attnlab {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// [B, L, parts H D] as [B, H, L, D] each, views.
std::vector<Tensor> parts_of(const Tensor& packed, std::int64_t heads, std::int64_t parts) {
  const std::int64_t batch = packed.size(0), length = packed.size(1);
  const Tensor apart = packed.view({batch, length, parts, heads, packed.size(2) / (parts * heads)});
  std::vector<Tensor> all;
  for (std::int64_t i = 0; i < parts; ++i) all.push_back(apart.select(2, i).transpose(1, 2));
  return all;
}

/// Whether they lie as parts_of() gives them, in one piece of memory.
bool lie_packed(const std::vector<Tensor>& parts) {
  const Tensor& first = parts[0];
  if (!first.defined() || first.dim() != 4) return false;
  const std::int64_t h = first.size(1), l = first.size(2), d = first.size(3), width = h * d;
  const auto all = std::int64_t(parts.size());
  const std::array<std::int64_t, 4> strides = {all * width * l, d, all * width, 1};
  for (std::int64_t i = 0; i < all; ++i) {
    const Tensor& x = parts[i];
    if (!x.defined() || x.sizes() != first.sizes()) return false;
    if (!x.storage().is_alias_of(first.storage())) return false;
    if (x.storage_offset() != first.storage_offset() + i * width) return false;
    if (!std::equal(strides.begin(), strides.end(), x.strides().begin())) return false;
  }
  return true;
}

struct UnpackHeads : public torch::autograd::Function<UnpackHeads> {
  static variable_list forward(AutogradContext* context, const Tensor& packed, std::int64_t heads,
                               std::int64_t parts) {
    context->saved_data["sizes"] = packed.sizes().vec();
    return parts_of(packed.detach(), heads, parts);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const std::vector<std::int64_t> sizes = context->saved_data["sizes"].toIntVector();
    if (!at::GradMode::is_enabled() && lie_packed(gradients)) {
      const Tensor& first = gradients[0];
      return {first.as_strided(sizes, {sizes[1] * sizes[2], sizes[2], 1}, first.storage_offset()),
              {},
              {}};
    }
    std::vector<Tensor> by_token;
    for (const Tensor& x : gradients) by_token.push_back(x.transpose(1, 2));
    return {at::stack(by_token, 2).view(sizes), {}, {}};
  }
};

}  // namespace

std::vector<Tensor> unpack_heads(const Tensor& packed, std::int64_t heads, std::int64_t parts) {
  const Tensor dense = packed.contiguous();
  if (!at::GradMode::is_enabled() || !dense.requires_grad()) return parts_of(dense, heads, parts);
  return UnpackHeads::apply(dense, heads, parts);
}

std::vector<Tensor> room_for_packed(const std::vector<Tensor>& parts) {
  if (!lie_packed(parts)) return {};
  const Tensor& first = parts[0];
  const auto all = std::int64_t(parts.size());
  return parts_of(at::empty({first.size(0), first.size(2), all * first.size(1) * first.size(3)},
                            first.options()),
                  first.size(1), all);
}

}  // namespace attnlab
