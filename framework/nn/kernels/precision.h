// What precision matrix products have: train.precision.
//
// With tf32, factors of products and convolutions are rounded to 11 of a number's 24 bits inside a
// GPU's multiplication (from compute capability 8.0 on; others multiply in float32); tensors and
// sums have float32. In float32 no TF32 is used, not in cuDNN's convolutions either, where LibTorch
// would use it by itself. (framework/tensor/device.h: use_tf32)
//
// With bfloat16 the factors of a product are rounded to it (8 bits of a number's 24), and so is the
// result; the sum within a product has float32 (of cuBLAS, what it is set to). Processors and GPUs
// with units for that do several times as many multiply-adds a second. Everything else stays in
// float32: parameters, gradients as they are added up, moments, biases, norms, softmax, losses. (As
// PyTorch's autocast, but for the tensors between products, which are float32 here.)
//
// float16 is the same with 11 bits and numbers up to 65504: larger ones are infinite, and below
// 6e-8 they are 0. (framework/train/loss_scale.h keeps gradients above that.) On the CPU rounded
// factors are multiplied in float32: the same numbers, at float32's speed.
#pragma once

#include <string_view>

#include "framework/tensor/tensor.h"

namespace attnlab {

enum class Precision { float32, tf32, bfloat16, float16 };

/// As train.precision: "float32", "tf32", "bfloat16", "float16".
std::string_view name_of(Precision precision);

/// Whether a device has products of bfloat16, and LibTorch its way to them: all GPUs, processors
/// with AVX-512's instructions for it, ARM's under LibTorch 2. On a processor one product is tried
/// first: oneDNN refuses it where it is held to less (ONEDNN_MAX_CPU_ISA), which LibTorch does not
/// know.
bool has_bfloat16_products(at::Device device);

/// What a process's products of float32 tensors have from now on. Inside of the processor's kernels
/// of attention factors are rounded where it has AVX-512's bfloat16, and results are not
/// (HeadwiseProblem::rounds says which). Convolutions, sparse ones too, are float32 but for TF32.
void use_product_precision(Precision precision);
Precision product_precision();

/// at::matmul of float32 tensors in that precision; of other tensors as they are. Where a device
/// has no such products, or for small ones, rounded factors are multiplied in float32: the same
/// numbers up to the order of sums. So are tensors that are of 16 bits themselves; LibTorch would
/// add up in these.
/// @returns the factors' dtype, differentiable any number of times.
Tensor product(const Tensor& a, const Tensor& b);

/// Whether at::matmul(a, b), or a linear map of as many multiply-adds, is one of 16 bits that does
/// not add up in float32 here: then its factors are to be widened, and its result rounded.
bool adds_up_narrow(const Tensor& a, const Tensor& b);

/// at::conv2d. Of 16 bits on the processor with sums in float32, rounded once.
Tensor convolution(const Tensor& x, const Tensor& weight, const Tensor& bias, std::int64_t stride,
                   std::int64_t padding);

/// Whether products of this tensor are rounded to 16 bits.
bool rounds_products(const Tensor& x);
/// Whether they are rounded to bfloat16, as the processor's own kernels can do, or to float16.
bool rounds_to_bfloat16(const Tensor& x);
bool rounds_to_float16(const Tensor& x);
/// As a factor of such a product has it: of 16 bits.
Tensor rounded_factor(const Tensor& x);

}  // namespace attnlab
