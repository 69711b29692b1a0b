#include "framework/nn/modules/places.h"

#include <fmt/format.h>

namespace attnlab {
namespace {

Tensor places_of(const Tensor& given, std::int64_t length, const Tensor& offsets,
                 const at::Device& device) {
  const auto options = at::TensorOptions().dtype(at::kDouble).device(device);
  if (given.defined()) return given.to(options);
  Tensor places = at::arange(length, options);
  if (offsets.defined()) {
    const Tensor starts = offsets.slice(0, 0, -1).repeat_interleave(offsets.diff());
    places = places - starts.to(options);
  }
  return places.view({1, length, 1});
}

}  // namespace

Places::Places(const AttentionInput& input) {
  const Visibility& visible = input.visible;
  const at::Device device = input.queries.device();
  queries = places_of(input.query_positions, input.query_count(), visible.query_offsets, device);
  const bool same = input.query_positions.is_same(input.key_positions) &&
                    input.query_count() == input.key_count() &&
                    visible.query_offsets.is_same(visible.key_offsets);
  keys = same ? queries
              : places_of(input.key_positions, input.key_count(), visible.key_offsets, device);
  if (queries.size(2) == keys.size(2)) return;
  throw ShapeError(
      fmt::format("attention input: places of queries have {} coordinates and those of keys {} "
                  "(tokens without given places have one); give both equally many",
                  queries.size(2), keys.size(2)));
}

}  // namespace attnlab
