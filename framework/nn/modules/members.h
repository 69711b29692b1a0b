// Members of an ensemble: models of one shape that are trained together as one.
//
// Parameters and batches of E members stand one after the other along the first dimension: a matrix
// [E * out, in], a batch [E * B, ...]. Nothing here lets one member see another. With E = 1 all of
// it is what a single model does. docs/ensembles.md has the rule for authors of models.
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

/// Rows of each member's block of a matrix, e.g. the values' part of a packed projection.
struct MemberRows {
  std::int64_t first = 0;
  std::int64_t count = 0;  ///< 0: all rows of the block, from the first on
};

/// y[e] = x[e] W[e]^T + b[e]: every member's linear map of its own examples.
/// @param x        [E * B, ..., in] floating point
/// @param weight   [E * out, in] of the same dtype and device
/// @param bias     [E * out]; undefined: none
/// @param members  E
/// @param rows     of each member's [out, in] and [out]
/// @returns [E * B, ..., rows.count], differentiable any number of times.
/// @throws ShapeError where the first dimensions are not a multiple of E.
/// Cost: the products alone; for small float32 matrices on the CPU without a BLAS library, whose
/// calls would cost more than the arithmetic (framework/nn/kernels/small_product.h).
Tensor member_linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     std::int64_t members, MemberRows rows = {});

/// Several maps of one input by parts of one packed matrix that lie one after the other: as
/// `member_linear` of each part, in one step.
/// @param first   the first part's first row, of each member's block
/// @param widths  rows of each part
/// @returns [E * B, ..., width] for each. With E = 1 they are views of one product.
std::vector<Tensor> member_linears(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                   std::int64_t members, std::int64_t first,
                                   const std::vector<std::int64_t>& widths);

/// The maps of x + by_member(places, E, B), without forming that sum: W x + (W p + b). Places are
/// mapped once for all examples of a member, and where x takes no gradient none is computed.
/// @param x       [E * B, N, in]
/// @param places  [E * N, in], one for each of the N tokens: positions
/// @param bias    [E * out]; undefined: none
/// @returns [E * B, N, width] for each part, as `member_linears`.
/// @throws ShapeError where places are not [E * N, in].
std::vector<Tensor> placed_linears(const Tensor& x, const Tensor& places, const Tensor& weight,
                                   const Tensor& bias, std::int64_t members, std::int64_t first,
                                   const std::vector<std::int64_t>& widths);

/// A parameter beside every example of its member.
/// @param parameter  [E * n, ...]
/// @param batch      B, examples of one member
/// @returns [E * B, n, ...].
Tensor by_member(const Tensor& parameter, std::int64_t members, std::int64_t batch);

/// x plus the parameter of its member: x + by_member(parameter, E, B), without the copies.
/// @param x          [E * B, n, ...]
/// @param parameter  [E * n, ...]
/// @throws ShapeError where the first dimensions are not a multiple of E.
Tensor add_by_member(const Tensor& x, const Tensor& parameter, std::int64_t members);

/// What heads share, or each has for itself, for every head of an ensemble whose heads stand side
/// by side (AttentionShape::members).
/// @param parameter  [groups * D]: one row of D for all heads, for each member's, or for each head
/// @param heads      H, of all members together; groups divide it
/// @returns [H or 1, 1, D], for [B, H, L, D].
Tensor per_head(const Tensor& parameter, std::int64_t groups, std::int64_t heads);

/// Examples of one member, B, of a tensor [E * B, ...].
/// @throws ShapeError where E does not divide the first dimension.
std::int64_t batch_of_member(const Tensor& x, std::int64_t members);

}  // namespace attnlab
