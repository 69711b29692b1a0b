// Indirect attention: keys of one sequence choose among values of another, guided by positions.
//
//   Y = softmax((Q Kᵀ + f(P)) / √D) V,   P_ij = key position j − reference p_i,
//   p_i starts at query i's position;  after each layer  p_i += g(o_i)
//
// f is a two-layer MLP to one number a head, g is linear on the layer's concatenated heads o_i.
// Against standard attention: a bias that says where in the value sequence to look, and that moves
// with what the layers before have found. Keys and values share a slot, so a padded key stays
// attendable where its slot holds a value: the model says so, in visible.key_valid.
//
// Eq. 3 adds f before the scaling, the authors' detection code after it: `bias`. The paper writes
// p = g(o) and gives no g; here it refines the reference, as their code refines boxes. g starts at
// zero, so that all layers start at the queries' own positions. The last layer has no g.
// Source: Bahaduri et al., Indirect Attention: Turning Context Misalignment into a Feature, eq. 3.
// Cost: as standard attention, and f: framework/nn/attention/position_bias.h.
#include <fmt/format.h>

#include <cmath>

#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/attention/position_bias.h"
#include "framework/nn/modules/layers.h"
#include "framework/plugin.h"

namespace attnlab {

struct IndirectOptions {
  std::string bias = "before_scaling";
  std::int64_t hidden = 128;
  std::int64_t coordinates = 1;
  bool refine = true;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("bias", bias, one_of("before_scaling", "after_scaling"),
      "where f is added: (q.k + f)/sqrt(D) (paper, eq. 3) or q.k/sqrt(D) + f (detection code)");
    v("hidden", hidden, at_least(1), "width of f's hidden layer");
    v("coordinates", coordinates, at_least(1),
      "number of coordinates of a position; above 1 needs a model that gives positions");
    v("refine", refine, "each layer moves the reference positions for the next layer");
  }
};

/// The references [B, Lq, P] that the layers so far have left for the next, [members * B, Lq, P] in
/// an ensemble; undefined: unrefined.
struct IndirectState {
  std::int64_t layer = -1;
  Tensor references;
  void each(const TensorVisit& visit) { visit(references); }
};

class Indirect final : public DotProductAttention {
 public:
  Indirect(const IndirectOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape),
        options_(options),
        factor_(options.bias == "after_scaling"
                    ? 1
                    : 1 / std::sqrt(static_cast<double>(shape.head_dim))),
        position_bias_(register_module(
            "position_bias", std::make_shared<PositionBias>(options.coordinates, options.hidden,
                                                            shape.heads, shape.members))) {
    if (!options.refine || shape.layer + 1 >= shape.layers) return;
    const std::int64_t merged = shape.heads / shape.members * shape.values();
    refine_ = register_module(
        "refine", std::make_shared<Linear>(merged, options.coordinates, true, shape.members));
    const at::NoGradGuard no_gradients;
    refine_->weight.zero_();
  }

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext& context) override {
    if (!options_.refine || context.state == nullptr) return attend_from_references(input, context);
    IndirectState& state = context.state->of<IndirectState>();
    AttentionInput moved = input;
    if (state.layer >= 0) moved.query_positions = references(state, input, context.layer);
    Tensor out = attend_from_references(moved, context);
    state.layer = context.layer;
    state.references = refine_ == nullptr ? Tensor() : refined(moved, out);
    return out;
  }

 private:
  /// What the layer before left, or where the queries stand.
  Tensor references(const IndirectState& state, const AttentionInput& input,
                    std::int64_t layer) const {
    if (layer != state.layer + 1) {
      throw ConfigError(
          fmt::format("indirect attention: layer {} came after layer {}, but it refines the "
                      "references of the layer before; attention.layers must name layers in a row, "
                      "and the model give each stack, and each forward pass, a ForwardState of its "
                      "own",
                      layer, state.layer));
    }
    const Tensor& places = state.references;
    if (!places.defined()) return input.query_positions;
    if (places.size(0) != shape().members * input.batch() ||
        places.size(1) != input.query_count()) {
      throw ShapeError(fmt::format(
          "indirect attention: the layer before left references {} for the queries {} of layer {}; "
          "set refine: false, or take it where all layers have the same queries",
          describe(places), describe(input.queries), layer));
    }
    return places;
  }

  Tensor refined(const AttentionInput& input, const Tensor& out) const {
    const Tensor step = refine_->forward(merged(out).to(refine_->weight.scalar_type()));
    return starts(input) + step.to(position_bias_->position_options());
  }

  /// The heads of each member side by side: [members * B, Lq, H / members * Dv].
  Tensor merged(const Tensor& out) const {
    const std::int64_t members = shape().members, batch = out.size(0), length = out.size(2);
    return out.reshape({batch, members, -1, length, out.size(3)})
        .permute({1, 0, 3, 2, 4})
        .reshape({members * batch, length, -1});
  }

  Tensor starts(const AttentionInput& input) const {
    if (input.query_positions.defined() || !input.visible.ragged()) {
      return places(input.query_positions, input.query_count());
    }
    std::vector<Tensor> sequences = {places({}, 0)};
    for (const Tensor& length : input.visible.query_offsets.diff().unbind()) {
      sequences.push_back(places({}, length.item<std::int64_t>()));
    }
    return at::cat(sequences, 1);
  }

  /// @returns [B or 1, count, P]: the places given, else 0, 1, 2, ...
  Tensor places(const Tensor& given, std::int64_t count) const {
    const at::TensorOptions wanted = position_bias_->position_options();
    const std::int64_t found = given.defined() ? given.size(2) : 1;
    if (found != options_.coordinates) {
      throw ShapeError(fmt::format(
          "indirect attention: positions have {0} {1}, the option 'coordinates' says {2}; set "
          "coordinates: {0}, or take a model that gives such positions",
          found, given.defined() ? "coordinates" : "coordinate (tokens at 0, 1, 2, ...)",
          options_.coordinates));
    }
    if (given.defined()) return given.to(wanted);
    return at::arange(count, wanted).view({1, count, 1});
  }

  Tensor attend_from_references(const AttentionInput& input, AttentionContext& context) {
    return input.visible.ragged() ? attend_each(input, context) : attend_biased(input, context);
  }

  /// The sequences of a ragged batch one by one, so that f is not computed between them.
  Tensor attend_each(const AttentionInput& input, AttentionContext& context) {
    const std::int64_t sequences = input.visible.query_offsets.size(0) - 1;
    // Without sequences there is nothing to attend to, and traces of ragged batches are refused.
    if (sequences == 0 || context.trace != nullptr) {
      return DotProductAttention::attend(input, context);
    }
    std::vector<Tensor> outputs;
    for (std::int64_t t = 0; t < sequences; ++t) {
      outputs.push_back(attend_biased(sequence_of(input, t), context));
    }
    return at::cat(outputs, 2);
  }

  Tensor attend_biased(const AttentionInput& input, AttentionContext& context) {
    const std::int64_t rows = input.query_count(), columns = input.key_count();
    if (rows == 0 || columns == 0) return DotProductAttention::attend(input, context);
    const bool in_sequence = options_.coordinates == 1 && !input.query_positions.defined() &&
                             !input.key_positions.defined();
    const Tensor f = in_sequence ? position_bias_->of_sequences(rows, columns)
                                 : position_bias_->forward(places(input.query_positions, rows),
                                                           places(input.key_positions, columns));
    const Tensor bias = (f * factor_).to(input.queries.scalar_type());
    return attend_with_bias(input, bias, context);
  }

  IndirectOptions options_;
  double factor_;  ///< of f, beside logits that are scaled already
  std::shared_ptr<PositionBias> position_bias_;
  std::shared_ptr<Linear> refine_;  ///< g; null where no layer comes after
};

ATTNLAB_PLUGIN(
    attention, Indirect, IndirectOptions,
    {.id = "attnlab/indirect",
     .version = "1.0.0",
     .summary = "softmax((Q Kᵀ + f(P))/√D) V, positions P refined from layer to layer",
     .citation = "Bahaduri et al., Indirect Attention: Turning Context Misalignment into a "
                 "Feature",
     .licence = "Apache-2.0",
     .needs = {"consecutive if refine=true"}})

}  // namespace attnlab
