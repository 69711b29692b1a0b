// What a layer tells its attention of places: see the header.
#include "framework/nn/modules/layer_positions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "framework/nn/modules/places.h"

namespace attnlab {
namespace {

constexpr std::int64_t kFewestBuckets = 4;

void check_numbers(const Positions& asked, std::int64_t head_dim) {
  const auto refuse = [](const std::string& what) {
    throw ConfigError("attention.positions." + what);
  };
  if (asked.kind == Positions::Kind::rotary) {
    if (!(asked.base >= 1)) {
      refuse(fmt::format("base: {} is below 1; take 10000, or 100 for images", asked.base));
    }
    if (head_dim < 2) {
      refuse(
          fmt::format("use: rotary rotates pairs of channels, and heads have {}; take wider "
                      "heads, or other positions",
                      head_dim));
    }
  }
  if (asked.kind != Positions::Kind::t5) return;
  if (asked.buckets < kFewestBuckets) {
    refuse(fmt::format("buckets: {} are too few; take {} at least", asked.buckets, kFewestBuckets));
  }
  if (asked.max_distance <= asked.buckets / 2) {
    refuse(
        fmt::format("max_distance: {} is no more than half of the {} buckets, which hold one "
                    "distance each; make it larger",
                    asked.max_distance, asked.buckets));
  }
}

/// Of each distance 0 ... farthest, its bucket.
Tensor buckets_of_distances(std::int64_t buckets, std::int64_t farthest) {
  Tensor all = at::empty({farthest + 1}, at::kLong);
  std::int64_t* const of = all.data_ptr<std::int64_t>();
  const std::int64_t exact = buckets / 2;
  const double factor = std::log(static_cast<double>(farthest) / static_cast<double>(exact));
  for (std::int64_t n = 0; n <= farthest; ++n) {
    of[n] = n;
    if (n < exact) continue;
    const double share = std::log(static_cast<double>(n) / static_cast<double>(exact)) / factor;
    // Where a bucket begins at a whole number, rounding must not leave that below.
    const double further = std::floor(share * static_cast<double>(buckets - exact) + 1e-9);
    of[n] = std::min(buckets - 1, exact + static_cast<std::int64_t>(further));
  }
  return all;
}

/// The first number of places that are numbered in a row; none for others. What lies on another
/// device is not looked at.
std::optional<double> start_of_line(const Tensor& places) {
  if (!places.defined()) return 0;
  if (places.size(0) != 1 || places.size(2) != 1 || !places.device().is_cpu() ||
      places.requires_grad() || places.numel() == 0) {
    return std::nullopt;
  }
  const Tensor numbers = places.detach().flatten().to(at::kDouble).contiguous();
  const double* const at = numbers.data_ptr<double>();
  for (std::int64_t i = 1; i < numbers.numel(); ++i) {
    if (at[i] != at[0] + static_cast<double>(i)) return std::nullopt;
  }
  return at[0];
}

void add_onto(Tensor& sum, const Tensor& more) { sum = sum.defined() ? sum + more : more; }

}  // namespace

LayerPositions::LayerPositions(const Positions& asked, std::int64_t heads, std::int64_t head_dim,
                               std::int64_t members, bool side_by_side)
    : asked_(asked), heads_(heads), members_(members), side_by_side_(side_by_side) {
  check_numbers(asked, head_dim);
  if (asked.kind == Positions::Kind::alibi) {
    slopes_ = at::exp2(at::arange(1, heads + 1, at::kDouble) * (-8.0 / static_cast<double>(heads)));
  }
  if (asked.kind != Positions::Kind::t5) return;
  causal_buckets_ = buckets_of_distances(asked.buckets, asked.max_distance);
  side_buckets_ = buckets_of_distances(asked.buckets / 2, asked.max_distance);
  table_ = register_parameter("table", at::zeros({members * heads * asked.buckets}));
}

void LayerPositions::add_to(AttentionInput& input) const {
  if (turns()) {
    input = turned(input, asked_.base);
    return;
  }
  if (input.visible.ragged()) {
    throw ShapeError(
        "attention.positions: alibi and t5 give no bias to a ragged batch, whose sequences lie end "
        "to end; take rotary, or none");
  }
  const std::optional<double> query = start_of_line(input.query_positions);
  const std::optional<double> key = start_of_line(input.key_positions);
  if (query && key) {
    add_bias_of_line(input, *key - *query);
  } else {
    add_bias_of_pairs(input);
  }
}

Tensor LayerPositions::turned_from(const Tensor& x, const Tensor& first) const {
  const Tensor numbers = at::arange(x.size(2), first.options());
  const Tensor places = (first.unsqueeze(1) + numbers).unsqueeze(2).to(at::kDouble);
  return turned(x, rotary_turns(places, x, asked_.base));
}

void LayerPositions::add_bias_of_text(AttentionInput& input) const {
  add_bias_of_line(input, static_cast<double>(input.query_count() - input.key_count()));
}

void LayerPositions::check_text(const AttentionInput& input) {
  for (const Tensor* places : {&input.query_positions, &input.key_positions}) {
    if (!places->defined() || places->size(2) == 1) continue;
    throw ShapeError(
        fmt::format("attention.positions: text that is written token by token stands in a row, "
                    "and its places have {} coordinates; give none, or attend to all tokens",
                    places->size(2)));
  }
}

void LayerPositions::add_bias_of_line(AttentionInput& input, double shift) const {
  const std::int64_t queries = input.query_count(), keys = input.key_count();
  if (queries == 0 || keys == 0) return;
  const at::TensorOptions exact = input.queries.options().dtype(at::kDouble);
  const Tensor offsets = (at::arange(1 - queries, keys, exact) + shift).unsqueeze(0);
  add_onto(input.distance_bias, of_offsets(offsets, input));
}

void LayerPositions::add_bias_of_pairs(AttentionInput& input) const {
  const Places places(input);
  const Tensor between = places.keys.unsqueeze(1) - places.queries.unsqueeze(2);
  const std::int64_t coordinates = places.coordinates();
  if (coordinates != 1 && asked_.kind == Positions::Kind::t5) {
    throw ShapeError(
        fmt::format("attention.positions: t5 counts tokens in a row, and places of this model have "
                    "P = {} coordinates; take rotary or alibi",
                    coordinates));
  }
  const Tensor offsets = coordinates == 1 ? between.squeeze(-1) : between.norm(2, -1);
  add_onto(input.bias, of_offsets(offsets, input));
}

Tensor LayerPositions::of_offsets(const Tensor& offsets, const AttentionInput& input) const {
  const at::TensorOptions options = input.queries.options();
  if (asked_.kind == Positions::Kind::t5) {
    return of_buckets(bucket(offsets, input.visible.causal), input.batch()).to(options);
  }
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(offsets.dim() + 1), 1);
  sizes[1] = -1;
  const Tensor slopes = side_by_side_ ? slopes_.repeat({members_}) : slopes_;
  return (offsets.abs().unsqueeze(1) * slopes.to(offsets.device()).view(sizes)).neg().to(options);
}

Tensor LayerPositions::bucket(const Tensor& offsets, bool causal) const {
  const Tensor distances =
      (causal ? offsets.neg().clamp_min(0) : offsets.abs()).clamp_max(asked_.max_distance);
  const Tensor& table = causal ? causal_buckets_ : side_buckets_;
  const Tensor found = table.to(offsets.device()).take(distances.to(at::kLong));
  return causal ? found : found + offsets.gt(0).to(at::kLong) * (asked_.buckets / 2);
}

Tensor LayerPositions::of_buckets(const Tensor& buckets, std::int64_t batch) const {
  const Tensor tables = table_.view({members_, heads_, asked_.buckets});
  const auto of_member = [&](std::int64_t member, const Tensor& own) {
    std::vector<std::int64_t> sizes = own.sizes().vec();
    sizes.insert(sizes.begin(), heads_);
    return tables[member].index_select(1, own.flatten()).view(sizes).transpose(0, 1);
  };
  if (members_ == 1) return of_member(0, buckets);
  std::vector<Tensor> all;
  const std::int64_t each = batch / members_;  // examples of a member that stands in the batch
  for (std::int64_t m = 0; m < members_; ++m) {
    const bool same = buckets.size(0) == 1;
    const Tensor own = of_member(m, same ? buckets : buckets.narrow(0, m * each, each));
    std::vector<std::int64_t> sizes = own.sizes().vec();
    if (!side_by_side_) sizes[0] = each;
    all.push_back(own.expand(sizes));
  }
  return at::cat(all, side_by_side_ ? 1 : 0);
}

}  // namespace attnlab
