#include "framework/nn/modules/rotary.h"

#include <fmt/format.h>

#include <cmath>

#include "framework/nn/modules/places.h"

namespace attnlab {

std::int64_t rotary_pairs(std::int64_t channels, std::int64_t coordinates) {
  if (coordinates > 0 && channels >= 2 * coordinates) return channels / (2 * coordinates);
  throw ShapeError(fmt::format(
      "rotary positions rotate at least one pair of channels for each coordinate of a position; "
      "positions have P = {}, heads {} channels: take wider heads, or other positions",
      coordinates, channels));
}

Turns rotary_turns(const Tensor& places, const Tensor& like, double base) {
  const std::int64_t n = rotary_pairs(like.size(-1), places.size(2));
  const Tensor steps = at::arange(n, places.options());
  const Tensor rates = at::exp(steps * (-std::log(base) / static_cast<double>(n)));
  const Tensor angles = (places.unsqueeze(-1) * rates).flatten(-2).unsqueeze(1);
  return {angles.cos().to(like.scalar_type()), angles.sin().to(like.scalar_type())};
}

Tensor turned(const Tensor& x, const Turns& turns) {
  const std::int64_t turning = turns.cos.size(-1), rest = x.size(3) - 2 * turning;
  const Tensor pairs =
      x.narrow(3, 0, 2 * turning).reshape({x.size(0), x.size(1), x.size(2), turning, 2});
  const Tensor even = pairs.select(-1, 0), odd = pairs.select(-1, 1);
  const Tensor y =
      at::stack({even * turns.cos - odd * turns.sin, even * turns.sin + odd * turns.cos}, -1)
          .flatten(-2);
  return rest == 0 ? y : at::cat({y, x.narrow(3, 2 * turning, rest)}, 3);
}

AttentionInput turned(const AttentionInput& input, double base) {
  const Places places(input);
  const Turns of_queries = rotary_turns(places.queries, input.queries, base);
  const Turns of_keys = places.keys.is_same(places.queries)
                            ? of_queries
                            : rotary_turns(places.keys, input.keys, base);
  AttentionInput result = input;
  result.queries = turned(input.queries, of_queries);
  result.keys = turned(input.keys, of_keys);
  return result;
}

}  // namespace attnlab
