// Counts the floating-point operations that a computation really does: those of its products.
//
// Convention: a multiply-add is two operations, and only products count: of matrices and vectors
// (mm, addmm, bmm, baddbmm, mv, dot and their like, whatever calls them: linear, matmul, einsum),
// convolutions, fused attention, and the products inside this framework's own kernels. Elementwise
// operations, reductions, softmax and norms do not count, nor do biases that a product adds. Masked
// pairs of an explicit product count: they are computed. This is what papers call FLOPs (twice
// their MACs).
//
// Source: each operation's shapes as LibTorch's own records (those of its profiler) give them.
// Cost: a look-up by name for each operation while a counter lives; else one load for each of our
// own kernels.
#pragma once

#include <ATen/record_function.h>

#include <cstdint>
#include <map>
#include <string>

#include "framework/tensor/tensor.h"

namespace attnlab {

/// The sizes of the tensors among an operation's inputs: "[64, 197, 192] [192, 576]".
std::string sizes_text(const at::RecordFunction& operation);

/// How often something was computed, and its operations.
struct CountedFlops {
  std::int64_t times = 0, flops = 0;
};

/// Counts what this thread computes, from its construction to its end. An operation that is made of
/// others counts once. Counters do not nest: an inner one counts for itself.
class FlopCounter {
 public:
  FlopCounter();
  ~FlopCounter();
  FlopCounter(const FlopCounter&) = delete;
  FlopCounter& operator=(const FlopCounter&) = delete;

  std::int64_t total() const { return total_; }
  /// By name and sizes, "aten::mm [64, 192] [192, 576]"; our own kernels by their names.
  const std::map<std::string, CountedFlops>& operations() const { return operations_; }

 private:
  friend class OwnKernelFlops;
  struct InOperation;
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& operation);
  static void end(const at::RecordFunction& operation, at::ObserverContext* context);

  FlopCounter* outer_;
  at::CallbackHandle handle_;
  void add(std::int64_t flops, const std::string& name);

  std::map<std::string, CountedFlops> operations_;
  std::int64_t total_ = 0;
  std::int64_t depth_ = 0;  ///< counted operations, and kernels of ours, that are under way
};

/// Stands in a kernel of ours while it computes: says how much that is, once, and keeps the
/// operations that it is made of (on this thread; others would be missed) from being counted. A
/// profile shows it under its name.
class OwnKernelFlops {
 public:
  /// @param name           of the kernel; must live as long
  /// @param multiply_adds  of the products in the kernel.
  OwnKernelFlops(const char* name, std::int64_t multiply_adds);
  ~OwnKernelFlops();
  OwnKernelFlops(const OwnKernelFlops&) = delete;
  OwnKernelFlops& operator=(const OwnKernelFlops&) = delete;

 private:
  FlopCounter* counter_;  ///< null: nobody counts
  at::RecordFunction record_{at::RecordScope::USER_SCOPE};
};

}  // namespace attnlab
