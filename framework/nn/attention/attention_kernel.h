// The kernels of dot-product attention, and which is taken.
//
//   explicit  matmul, normaliser, matmul. Serves everything; materialises [B, H, Lq, Lk].
//   fused     LibTorch's scaled_dot_product_attention (from 2.1 on, where it can take a scale).
//   headwise  ours on the CPU, a head at a time (framework/nn/kernels/cpu_attention.h; with
//   relative
//             positions under a causal rule framework/nn/attention/relative_attention.h).
//   own       the mechanism's own: `DotProductAttention::own_kernel`, of linear cost for instance.
//
// Without an override the first that serves is taken, in the order own, headwise, fused, explicit:
// docs/results/speed.md has the measurements. All give the same numbers up to rounding, and all are
// differentiable twice.
#pragma once

#include "framework/contracts/attention.h"

namespace attnlab {

enum class AttentionKernel { automatic, explicit_form, fused, headwise, own };

/// The kernel asked for: what `set_attention_kernel` said last, else the environment variable
/// ATTNLAB_ATTENTION_KERNEL (explicit, fused, headwise or own), else automatic. Anything but
/// automatic and explicit is an error where that kernel cannot serve.
/// @throws ConfigError when the variable holds another word.
AttentionKernel attention_kernel();

/// For tests and measurements. Not to be called while attention runs on another thread.
void set_attention_kernel(AttentionKernel kernel);

const char* name_of(AttentionKernel kernel);

/// Whether LibTorch's fused kernel serves: there is one, and every query sees a key.
bool fused_attention_serves(const AttentionInput& input);

/// softmax(scale * Q K^T) V over what `visible` allows, by LibTorch's fused kernel.
/// @param queries  [B, H, Lq, D], mapped
/// @param keys     [B, H, Lk, D], mapped
/// @param input    gives values and visibility; its other fields are not read
/// @returns [B, H, Lq, Dv], differentiable twice.
Tensor fused_softmax_attention(const Tensor& queries, const Tensor& keys,
                               const AttentionInput& input, double scale);

/// Whether a query may exist that sees no key.
bool rows_may_be_empty(const Visibility& visible, std::int64_t queries, std::int64_t keys);

}  // namespace attnlab
