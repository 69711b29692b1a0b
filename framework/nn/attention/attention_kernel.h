// The kernels of dot-product attention, and which is taken.
//
//   explicit  matmul, normaliser, matmul. Serves everything; materialises [B, H, Lq, Lk].
//   fused     LibTorch's scaled_dot_product_attention (from 2.1 on, where it can take a scale).
//   headwise  ours on the CPU, a head at a time (framework/nn/kernels/cpu_attention.h); weights by
//   a
//             rule, too.
//   own       the mechanism's own: `DotProductAttention::own_kernel`, of linear cost for instance.
//
// Without an override the first that serves is taken, in the order own, headwise, fused, explicit:
// docs/results/speed.md has the measurements. All give the same numbers up to rounding, and all are
// differentiable twice. What each kernel of softmax serves stands in one table, `kSoftmaxKernels`;
// a new one is a row there and a name.
#pragma once

#include <string>

#include "framework/contracts/attention.h"
#include "framework/nn/kernels/logit_terms.h"
#include "framework/nn/kernels/row_rule.h"
#include "framework/nn/kernels/unit.h"

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

/// Softmax attention as a kernel is asked for it.
struct SoftmaxCall {
  const Tensor& queries;        ///< [B, H, Lq, D], mapped
  const Tensor& keys;           ///< [B, H, Lk, D], mapped, before unit length
  const AttentionInput& input;  ///< gives values, visibility and bias; not its other fields
  double scale;
  UnitKeys unit_keys;
  double dropout;           ///< of the weights; 0 for a kernel that does not drop
  Tensor relative_queries;  ///< [B, H, Lq, D], mapped, with their bias; undefined: none
  Tensor relative_keys;     ///< [1, H, Lq + Lk - 1, D], mapped, at unit length where keys are
  LogitTerms terms = {};    ///< with the input's bias by distance
  RowWeights each = {};     ///< a rule in place of softmax

  /// Whether it is softmax of products, bias and relative positions, and no more.
  bool plain() const { return !terms.any() && each.rule == nullptr; }
};

/// A kernel that knows softmax alone, or weights by a rule as well.
struct SoftmaxKernel {
  AttentionKernel kernel;
  /// Why it cannot serve an input; null when it can. @param plain  SoftmaxCall::plain
  const char* (*obstacle)(const AttentionInput& input, bool plain);
  bool drops;  ///< whether it drops weights by itself
  /// [B, H, Lq, Dv], differentiable twice.
  Tensor (*attend)(const SoftmaxCall& call);
  /// The same for a ragged batch at once, [1, H, L, ...], with neither bias, pairs, padding nor
  /// relative positions; null: sequences are asked one by one.
  Tensor (*attend_ragged)(const SoftmaxCall& call);
};

/// The first kernel of softmax, in the order of preference, that is wanted and serves; null: none.
/// @param plain   SoftmaxCall::plain
/// @param refuse  whether it is an error that one asked for by name does not serve
/// @throws ConfigError.
const SoftmaxKernel* softmax_kernel(const AttentionInput& input, bool plain, bool refuse);

/// Whether LibTorch's fused kernel serves: there is one, and every query sees a key.
bool fused_attention_serves(const AttentionInput& input);

/// Whether the kernel of softmax that will be taken drops weights by itself.
bool softmax_kernel_drops(const AttentionInput& input, bool plain);

/// @throws ConfigError: the kernel that was asked for cannot serve, and why.
[[noreturn]] void refuse_kernel(AttentionKernel kernel, const std::string& obstacle);

/// Whether a query may exist that sees no key.
bool rows_may_be_empty(const Visibility& visible, std::int64_t queries, std::int64_t keys);

}  // namespace attnlab
