// Keys in blocks of equally many tokens, counted over real ones from a sequence's beginning: what
// queries choose among. Padding is in no block. Query i stands at key i + Lk - Lq.
#pragma once

#include <algorithm>
#include <limits>

#include "framework/nn/attention/present_keys.h"
#include "framework/nn/kernels/precision.h"

namespace attnlab {

class KeyBlocks {
 public:
  /// @param size  tokens of a block
  KeyBlocks(const AttentionInput& input, std::int64_t size, std::int64_t members)
      : count((input.key_count() + size - 1) / size), size_(size) {
    present_ = present_keys(input.visible, members);
    numbers = at::arange(count, input.keys.options().dtype(at::kLong));
    seen_by_keys = present_.defined()
                       ? present_.cumsum(-1)
                       : at::arange(1, input.key_count() + 1, numbers.options()).view({1, 1, -1});
    block_ = block_of(seen_by_keys);
    // A query before the first key sees nothing, whatever its block is.
    const std::int64_t before = input.query_count() - input.key_count();
    seen_by_queries = at::constant_pad_nd(seen_by_keys, {before, 0}).unsqueeze(-1);
    own = block_of(seen_by_queries);
  }

  /// The mean of each block's rows, [B, H, C, blocks]; zeros of empty ones.
  /// @param x  [B, H, Lk, C]
  Tensor means(const Tensor& x) const {
    Tensor of_block = block_.unsqueeze(-1) == numbers;  // [B or 1, H or 1, Lk, blocks]
    if (present_.defined()) of_block = of_block.logical_and(present_.unsqueeze(-1));
    const Tensor sizes = of_block.sum(-2, /*keepdim=*/true).clamp_min(1);
    return product(x.transpose(2, 3), of_block.to(x.scalar_type())) / sizes;
  }

  /// What each block has, for each key, [B, H, Lq, Lk]: padding has what its block has.
  /// @param x  [B, H, Lq, blocks]
  Tensor for_keys(const Tensor& x) const {
    return x.gather(-1, block_.unsqueeze(-2).expand({x.size(0), x.size(1), x.size(2), -1}));
  }

  /// Those of the highest scores, bool [B, H, Lq, blocks]: at most so many, none after the
  /// query's own.
  /// @param scores  [B, H, Lq, blocks]; infinity: is among them whatever else there is
  Tensor best(const Tensor& scores, std::int64_t at_most) const {
    const Tensor later = numbers > own;
    const Tensor order = scores.masked_fill(later, -std::numeric_limits<double>::infinity());
    const Tensor found = std::get<1>(order.topk(std::min(at_most, count), -1));
    return at::zeros_like(order, order.options().dtype(at::kBool))
        .scatter(-1, found, true)
        .logical_and(later.logical_not());
  }

  /// bool, [B or 1, H or 1, Lk], true = a real key; undefined: all are.
  const Tensor& present() const { return present_; }

  std::int64_t count;      ///< blocks, the last perhaps not complete
  Tensor numbers;          ///< 0, 1, ..: [blocks] int64
  Tensor own;              ///< the block that each query is in, [B or 1, H or 1, Lq, 1] int64
  Tensor seen_by_keys;     ///< real tokens up to each key, itself among them: [B or 1, H or 1, Lk]
  Tensor seen_by_queries;  ///< the same of queries, [B or 1, H or 1, Lq, 1]; 0 before the first key

 private:
  Tensor block_of(const Tensor& seen) const { return (seen - 1).clamp_min(0).div(size_, "floor"); }

  std::int64_t size_;
  Tensor present_;  ///< `present_keys`
  Tensor block_;    ///< of each key, [B or 1, H or 1, Lk] int64: of padding, the token's before it
};

}  // namespace attnlab
