// What models tell attentions of where tokens stand.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/nn/attention/dot_product_attention.h"
#include "tests/support/plugins.h"

namespace attnlab::testing {

/// What one call of a layer was told; undefined: nothing.
struct NotedPlaces {
  std::int64_t layer;
  Tensor queries, keys;
};

/// Standard attention that asks for places, or does not, and notes those that it is given.
class PlaceReader final : public DotProductAttention {
 public:
  PlaceReader(const AttentionShape& shape, bool asks, std::vector<NotedPlaces>& noted)
      : DotProductAttention(shape, {}, traits_of(asks)), noted_(noted) {}

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext& context) override {
    noted_.push_back({context.layer, input.query_positions, input.key_positions});
    return DotProductAttention::attend(input, context);
  }

 private:
  static AttentionTraits traits_of(bool asks) {
    AttentionTraits traits = AttentionTraits::all_quadratic();
    traits.places = asks;
    return traits;
  }

  std::vector<NotedPlaces>& noted_;
};

/// A model whose layers note what they are told. @param noted  must outlive it
inline std::shared_ptr<Model> noting_places(const std::string& id, const DatasetInfo& data,
                                            const std::string& options,
                                            std::vector<NotedPlaces>& noted, bool asks = true) {
  const AttentionBuilder builder = [&noted, asks](const AttentionShape& shape) {
    return std::make_shared<PlaceReader>(shape, asks, noted);
  };
  return registry().model(make_part(Kind::model, id, options), {data, builder});
}

}  // namespace attnlab::testing
