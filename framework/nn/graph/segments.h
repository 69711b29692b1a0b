// Rows that are gathered and summed by an index: the two halves of message passing, and pooling.
//
//   gather_rows   y_m = x_{index_m}
//   segment_sum   x_r = sum of y_m over {m : index_m = r}
//   routed_sum    z_r = sum of x_{from_m} over {m : to_m = r}: both at once, no item is stored
//
// The first two are each other's derivative, that of the third is the third the other way. Items
// are sorted by their segment once; then every sum is one thread's, in the order of the items: the
// same bits for every number of threads, forward and backward, and no atomic additions. Cost: one
// pass over the items; sorting O(items + segments).
#pragma once

#include <vector>

#include "framework/tensor/tensor.h"

namespace attnlab {

/// Items sorted by the segment that they belong to. All tensors on one device.
struct Segments {
  Tensor index;    ///< [M] int64, the segment of each item
  Tensor order;    ///< [M] int64, items segment by segment, rising within each
  Tensor offsets;  ///< [R + 1] int64, where each segment begins in `order`

  std::int64_t items() const { return index.size(0); }
  std::int64_t count() const { return offsets.size(0) - 1; }  ///< R
};

/// @param index  [M] int64
/// @param count  R
/// @param what   what an item is called in messages ("edge")
/// @throws DataError for an index outside [0, R) (on the CPU; elsewhere reading would wait for the
/// device).
Segments segments_by(const Tensor& index, std::int64_t count, const std::string& what);

/// Segments that lie end to end, as `Batch::offsets` has them. @param device  where items are
Segments segments_of(const Tensor& offsets, const at::Device& device);

/// @param x  [R, ...]. @returns [M, ...], differentiable any number of times.
Tensor gather_rows(const Tensor& x, const Segments& segments);

/// @param y  [M, ...]. @returns [R, ...], zeros for a segment without items; differentiable any
/// number of times.
Tensor segment_sum(const Tensor& y, const Segments& segments);

/// `segment_sum` over the number of items; zeros for a segment without any.
Tensor segment_mean(const Tensor& y, const Segments& segments);

/// `segment_sum(gather_rows(x, from), to)`, for two indices of the same items.
Tensor routed_sum(const Tensor& x, const Segments& from, const Segments& to);

/// e^{y_m} over the sum of those of its segment, number by number. @param y  [M, ...]
Tensor segment_softmax(const Tensor& y, const Segments& segments);

}  // namespace attnlab
