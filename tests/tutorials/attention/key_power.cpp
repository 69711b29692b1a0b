// Key power: dot products with keys that are only partly normalised.
//
//   Y = softmax(s Q K̃ᵀ) V,   k̃_j = k_j / max(|k_j|₂, eps)^p,   s = exp(t), t learned, one per head
//
// Against standard attention: p = 0 is a dot product, p = 1 gives keys of unit length; the factor
// 1/√D is replaced by a learned one that begins as `scale`.
// Source: the tutorial. Cost: as standard attention, and one pass over queries and keys.
#include <cmath>

#include "framework/nn/attention/dot_product_attention.h"
#include "framework/plugin.h"

namespace attnlab {

struct KeyPowerOptions {
  double power = 0.5;
  double scale = 1.0;
  double eps = 1e-12;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("power", power, range(0, 1), "p: 0 keeps a key's norm, 1 removes it");
    v("scale", scale, range(1e-6, 1e6), "the logits' factor at the start");
    v("eps", eps, range(0, 1), "floor of a key's norm");
  }
};

class KeyPower final : public DotProductAttention {
 public:
  KeyPower(const KeyPowerOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape, {.scale = 1.0}), power_(options.power), eps_(options.eps) {
    if (options.power > 0 && options.eps == 0) {
      throw OptionError("eps", "is 0, so a key of norm 0 would divide by it; take 1e-12");
    }
    log_scale_ =
        register_parameter("log_scale", at::full({shape.heads, 1, 1}, std::log(options.scale)));
  }

 protected:
  Tensor map_queries(const Tensor& queries, AttentionContext&) const override {
    return queries * log_scale_.exp();
  }
  Tensor map_keys(const Tensor& keys, AttentionContext&) const override {
    if (power_ == 0) return keys;
    if (power_ == 1) return unit(keys, eps_);
    return keys / keys.norm(2, -1, true).clamp_min(eps_).pow(power_);
  }

 private:
  double power_, eps_;
  Tensor log_scale_;  ///< t, [H, 1, 1]
};

ATTNLAB_PLUGIN(attention, KeyPower, KeyPowerOptions,
               {.id = "attnlab/key_power",
                .version = "1.0.0",
                .summary = "softmax(s Q K̃ᵀ) V with keys over a power of their norm",
                .citation = "none yet",
                .licence = "Apache-2.0"})

}  // namespace attnlab
