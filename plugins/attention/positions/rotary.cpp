// Rotary attention (RoPE): queries and keys are turned by where they stand.
//
//   Y = softmax((R(p_i) q_i) · (R(p_j) k_j) / √D) V
//   R(p) turns the channels 2m and 2m + 1 by the angle p base^(-m/n),   m = 0 ... n - 1
//
// so that a logit knows of places their difference p_j - p_i alone. With one coordinate a place n
// is D / 2, the original work's. With P coordinates, as of patches or voxels, n is D / (2 P),
// rounded down: the first 2 n channels are turned by the first coordinate, the next 2 n by the
// second, and so on ("axial"); what is left over at the end is not turned.
// Against standard attention: only the maps of queries and keys differ, so that its kernels serve.
// Relative positions of the model's own (Transformer-XL) are not taken: their keys stand at no
// place, so that they cannot be turned as other keys are.
// Source: Su et al. 2021, RoFormer, arXiv:2104.09864, equations 14 to 16 and 34; two coordinates as
// in Heo et al. 2024, Rotary Position Embedding for Vision Transformer, arXiv:2403.13298, whose
// axial form takes a base of 100. Cost: as standard attention, and O((Lq + Lk) D) for the turns.
#include <fmt/format.h>

#include <cmath>

#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/attention/places.h"
#include "framework/plugin.h"

namespace attnlab {

struct RotaryOptions {
  double base = 10000;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("base", base, range(1, 1e12),
      "pair m of a coordinate's n pairs of channels turns by the place times base^(-m/n)");
  }
};

class Rotary final : public DotProductAttention {
 public:
  static constexpr AttentionTraits kTraits = [] {
    AttentionTraits traits = AttentionTraits::all_quadratic();
    traits.relative_positions = false;
    traits.places = true;
    return traits;
  }();

  Rotary(const RotaryOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape, {}, kTraits), base_(options.base) {
    pairs(1);
  }

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext& context) override {
    const Places places(input);
    const Turn of_queries = turn(places.queries, input.queries);
    const Turn of_keys =
        places.keys.is_same(places.queries) ? of_queries : turn(places.keys, input.keys);
    AttentionInput turned = input;
    turned.queries = applied(of_queries, input.queries);
    turned.keys = applied(of_keys, input.keys);
    return DotProductAttention::attend(turned, context);
  }

 private:
  struct Turn {
    Tensor cos, sin;  ///< [B or 1, 1, L, P n]
  };

  /// n, for so many coordinates.
  std::int64_t pairs(std::int64_t coordinates) const {
    const std::int64_t channels = shape().head_dim;
    if (coordinates > 0 && channels >= 2 * coordinates) return channels / (2 * coordinates);
    throw ShapeError(
        fmt::format("rotary attention turns a pair of channels at least for each coordinate of a "
                    "place; places have P = {}, heads {} channels: take wider heads, or another "
                    "attention",
                    coordinates, channels));
  }

  /// @param places  [B or 1, L, P]   @param like  of the dtype that is wanted
  Turn turn(const Tensor& places, const Tensor& like) const {
    const std::int64_t n = pairs(places.size(2));
    const Tensor steps = at::arange(n, places.options());
    const Tensor rates = at::exp(steps * (-std::log(base_) / static_cast<double>(n)));
    const Tensor angles = (places.unsqueeze(-1) * rates).flatten(-2).unsqueeze(1);
    return {angles.cos().to(like.scalar_type()), angles.sin().to(like.scalar_type())};
  }

  /// @param x  [B, H, L, D]
  static Tensor applied(const Turn& turn, const Tensor& x) {
    const std::int64_t turning = turn.cos.size(-1), rest = x.size(3) - 2 * turning;
    const Tensor pairs =
        x.narrow(3, 0, 2 * turning).reshape({x.size(0), x.size(1), x.size(2), turning, 2});
    const Tensor even = pairs.select(-1, 0), odd = pairs.select(-1, 1);
    const Tensor turned =
        at::stack({even * turn.cos - odd * turn.sin, even * turn.sin + odd * turn.cos}, -1)
            .flatten(-2);
    return rest == 0 ? turned : at::cat({turned, x.narrow(3, 2 * turning, rest)}, 3);
  }

  double base_;
};

ATTNLAB_PLUGIN(attention, Rotary, RotaryOptions,
               {.id = "attnlab/rotary",
                .version = "1.0.0",
                .summary = "softmax(R Q (R K)ᵀ / √D) V, R turns pairs of channels by places",
                .citation = "Su et al. 2021, RoFormer, arXiv:2104.09864; Heo et al. 2024, Rotary "
                            "Position Embedding for Vision Transformer, arXiv:2403.13298",
                .licence = "Apache-2.0"})

}  // namespace attnlab
