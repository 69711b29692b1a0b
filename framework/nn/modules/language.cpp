#include "framework/nn/modules/language.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "framework/nn/modules/multi_head_attention.h"

namespace attnlab {
namespace {

/// A field [B, L] beside `tokens`; undefined where the batch has none.
Tensor beside(const Batch& batch, const Tensor& tokens, const char* name, at::ScalarType dtype) {
  const Tensor* found = batch.fields.find(name);
  if (found == nullptr) return {};
  if (found->sizes() == tokens.sizes() && found->scalar_type() == dtype) return *found;
  throw ShapeError(fmt::format("language model: {} must be as tokens, {}, found {}", name,
                               describe(at::empty(tokens.sizes(), dtype)), describe(*found)));
}

constexpr std::pair<const char*, Tensor KeyCache::*> kCacheFields[] = {
    {"keys", &KeyCache::keys},       {"values", &KeyCache::values}, {"sources", &KeyCache::sources},
    {"queries", &KeyCache::queries}, {"latent", &KeyCache::latent}, {"place", &KeyCache::place}};

}  // namespace

TokenBatch::TokenBatch(const Batch& batch) : tokens(batch.fields.at("tokens")) {
  if (tokens.dim() != 2 || tokens.size(1) == 0 || tokens.scalar_type() != at::kLong) {
    throw ShapeError("language model: tokens must be [B, L] int64 with a token at least, found " +
                     describe(tokens));
  }
  targets = beside(batch, tokens, "targets", at::kLong);
  valid = beside(batch, tokens, "tokens_valid", at::kBool);
  if (!valid.defined()) return;
  if (!targets.defined()) {
    throw ShapeError(
        "language model: without targets it predicts the next token, and these tokens are padded; "
        "give one line at a time");
  }
  targets = targets.masked_fill(valid.logical_not(), -1);
}

void check_sizes(const LanguageSizes& sizes, const std::string& presets) {
  for (const auto& [name, size] : {std::pair{"dim", sizes.dim}, std::pair{"depth", sizes.depth},
                                   std::pair{"heads", sizes.heads}}) {
    if (size > 0) continue;
    throw OptionError(name, fmt::format("is 0 and there is no preset to take it from; set it, or "
                                        "set preset to {}",
                                        presets));
  }
  check_heads(sizes.dim, sizes.heads);
  if (sizes.sinusoids && sizes.dim % 2 != 0) {
    throw OptionError("dim", "is odd, and sinusoids are pairs; make it even");
  }
  const std::vector<std::int64_t>& cutoffs = sizes.cutoffs;
  for (std::size_t i = 1; i < cutoffs.size(); ++i) {
    if (cutoffs[i] <= cutoffs[i - 1]) throw OptionError("cutoffs", "must rise");
  }
}

std::int64_t window_of(const DatasetInfo& data) {
  const std::vector<std::int64_t>& shape = data.field("tokens").shape;
  if (shape.size() == 1 && data.vocabulary > 0) return shape[0];
  throw DataError("a language model reads tokens [L] of a vocabulary; dataset '" + data.name +
                  (data.vocabulary > 0 ? "' gives tokens of another shape"
                                       : "' does not say how large its vocabulary is"));
}

void check_padding(const DatasetInfo& data, const Attention& attention) {
  const bool marked =
      std::any_of(data.fields.begin(), data.fields.end(),
                  [](const FieldInfo& field) { return field.name == "tokens_valid"; });
  if (!marked || attention.traits().padding) return;
  throw TraitError("lines of dataset '" + data.name +
                   "' are padded, and this attention does not honour 'padding'; choose another "
                   "attention, or windows of one length");
}

std::vector<KeyCache> read_caches(const NamedTensors& carried, std::int64_t layers) {
  std::vector<KeyCache> caches(static_cast<std::size_t>(layers));
  for (std::size_t i = 0; i < caches.size(); ++i) {
    for (const auto& [name, field] : kCacheFields) {
      const Tensor* kept = carried.find(fmt::format("{}{}", name, i));
      if (kept != nullptr) caches[i].*field = *kept;
    }
    for (std::size_t n = 0;; ++n) {
      const Tensor* part = carried.find(fmt::format("memory{}.{}", i, n));
      if (part == nullptr) break;
      caches[i].memory.parts.push_back(*part);
    }
  }
  return caches;
}

void write_caches(const std::vector<KeyCache>& caches, std::int64_t most, NamedTensors& carried) {
  for (std::size_t i = 0; i < caches.size(); ++i) {
    const KeyCache kept = most > 0 ? caches[i].last(most) : caches[i];
    for (const auto& [name, field] : kCacheFields) {
      if ((kept.*field).defined()) carried.set(fmt::format("{}{}", name, i), kept.*field);
    }
    for (std::size_t n = 0; n < kept.memory.parts.size(); ++n) {
      carried.set(fmt::format("memory{}.{}", i, n), kept.memory.parts[n]);
    }
  }
}

void set_places(std::int64_t before, std::int64_t count, AttentionExtras& extras) {
  if (before == 0) return;
  extras.key_positions = at::arange(before + count, at::kFloat).view({1, -1, 1});
  extras.query_positions = extras.key_positions.narrow(1, before, count);
}

Tensor last_of(const Tensor& x, std::int64_t dim, std::int64_t n) {
  const std::int64_t all = x.size(dim);
  return n <= 0 || all <= n ? x : x.narrow(dim, all - n, n);
}

}  // namespace attnlab
