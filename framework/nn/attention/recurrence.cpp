// Recurrences in chunks: see the header.
#include "framework/nn/attention/recurrence.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "framework/nn/kernels/precision.h"

namespace attnlab {
namespace {

/// A power of two, near the usual numbers of channels: there both halves of the work are equal.
constexpr std::int64_t kTokensOfChunk = 64;

/// The sum over the tokens behind each, of [N, M, tokens, channels].
Tensor sums_behind(const Tensor& x) {
  const Tensor next = x.narrow(2, 1, x.size(2) - 1);
  return at::constant_pad_nd(next, {0, 0, 0, 1}).flip(2).cumsum(2).flip(2);
}

/// How sequences are cut. Queries and keys lie side by side, the last at the last; what is missing
/// is 0, a key that writes nothing and does not decay.
class Cut {
 public:
  explicit Cut(const Recurrence& r)
      : batch_(r.queries.size(0)),
        heads_(r.queries.size(1)),
        rows_(r.queries.size(2)),
        columns_(r.keys.size(2)),
        tokens_(std::min(kTokensOfChunk, static_cast<std::int64_t>(
                                             std::bit_ceil(static_cast<std::uint64_t>(columns_))))),
        chunks_((columns_ + tokens_ - 1) / tokens_) {}

  std::int64_t chunks() const { return chunks_; }
  bool empty() const { return rows_ == 0 || columns_ == 0; }

  /// @param x  [B or 1, H, L, n]
  /// @returns [B H, chunks, tokens, n].
  Tensor operator()(const Tensor& x) const {
    const std::int64_t before = columns_ - x.size(2), behind = chunks_ * tokens_ - columns_;
    const Tensor whole =
        before != 0 || behind > 0 ? at::constant_pad_nd(x, {0, 0, before, behind}) : x;
    return whole.expand({batch_, heads_, -1, -1})
        .reshape({batch_ * heads_, chunks_, tokens_, x.size(3)});
  }

  /// The other way: [B H, chunks, tokens, n] to [B, H, Lq, n].
  Tensor join(const Tensor& y) const {
    const std::int64_t all = chunks_ * tokens_;
    const Tensor whole = y.reshape({batch_, heads_, all, y.size(3)});
    if (rows_ == all) return whole;
    return at::constant_pad_nd(whole, {0, 0, rows_ - columns_, columns_ - all});
  }

 private:
  std::int64_t batch_, heads_, rows_, columns_, tokens_, chunks_;
};

/// Products of decays within chunks.
class Decays {
 public:
  /// @param logs  [N, chunks, tokens, 1 or D]
  explicit Decays(Tensor logs) : logs_(std::move(logs)) {
    if (logs_.size(3) > 1) return;
    const std::int64_t tokens = logs_.size(2);
    between_ = logs_.expand({-1, -1, -1, tokens}).tril(-1).cumsum(2).exp().tril();
  }

  /// Of a chunk's tokens up to each, it included.
  Tensor up_to() const { return logs_.cumsum(2).exp(); }
  /// Of the tokens behind each.
  Tensor behind() const { return sums_behind(logs_).exp(); }
  /// Of all tokens of a chunk: [N, chunks, 1 or D, 1].
  Tensor of_all() const { return logs_.sum(2, /*keepdim=*/true).exp().transpose(2, 3); }

  /// Σ_c x_tc k_jc a_{j+1,c} ... a_tc for j <= t, 0 elsewhere: [N, chunks, tokens, tokens].
  Tensor products(const Tensor& x, const Tensor& k) const {
    return between_.defined() ? product(x, k.transpose(2, 3)) * between_ : by_halves(x, k);
  }

 private:
  Tensor by_halves(const Tensor& x, const Tensor& k) const {
    const std::int64_t n = x.size(0), chunks = x.size(1), tokens = x.size(2), channels = x.size(3);
    Tensor blocks = (x * k).sum(3).reshape({n, chunks * tokens, 1, 1});  // one token each
    for (std::int64_t half = 1; half < tokens; half *= 2) {
      const std::int64_t pairs = chunks * tokens / (2 * half);
      const auto halves = [&](const Tensor& t) {
        return t.reshape({n, pairs, 2, half, channels}).unbind(2);
      };
      const std::vector<Tensor> logs = halves(logs_);
      const Tensor later = halves(x)[1] * logs[1].cumsum(2).exp();
      const Tensor earlier = halves(k)[0] * sums_behind(logs[0]).exp();
      const Tensor across = product(later, earlier.transpose(2, 3));
      const std::vector<Tensor> own = blocks.reshape({n, pairs, 2, half, half}).unbind(2);
      blocks =
          at::cat({at::cat({own[0], at::zeros_like(across)}, 3), at::cat({across, own[1]}, 3)}, 2);
    }
    return blocks.reshape({n, chunks, tokens, tokens});
  }

  Tensor logs_;
  Tensor between_;  ///< [N, chunks, tokens, tokens]; undefined: decays are of channels
};

/// `x`, with 0 for absent keys.
Tensor of_present(const Tensor& x, const Tensor& key_valid) {
  if (!key_valid.defined()) return x;
  return x.masked_fill(key_valid.logical_not().unsqueeze(1).unsqueeze(-1), 0);
}

Decays decays_of(const Recurrence& r, const Cut& cut) {
  if (r.log_decays.defined()) return Decays(cut(of_present(r.log_decays, r.key_valid)));
  const std::int64_t heads = r.keys.size(1), columns = r.keys.size(2);
  return Decays(cut(at::zeros({1, 1, 1, 1}, r.keys.options()).expand({1, heads, columns, 1})));
}

/// S before the first chunk, [N, D, Dv].
Tensor first_state(const Recurrence& r) {
  const std::int64_t sequences = r.keys.size(0) * r.keys.size(1);
  const std::int64_t channels = r.keys.size(3), of_values = r.values.size(3);
  if (r.state == nullptr || !r.state->defined()) {
    return at::zeros({sequences, channels, of_values}, r.values.options());
  }
  return r.state->reshape({sequences, channels, of_values});
}

void keep_last_state(const Recurrence& r, const Tensor& state) {
  if (r.state == nullptr) return;
  *r.state = state.view({r.keys.size(0), r.keys.size(1), r.keys.size(3), r.values.size(3)});
}

Tensor nothing_seen(const Recurrence& r) {
  return at::zeros({r.queries.size(0), r.queries.size(1), r.queries.size(2), r.values.size(3)},
                   r.values.options());
}

}  // namespace

Tensor gated_linear(const Recurrence& r) {
  const Cut cut(r);
  if (cut.empty()) return nothing_seen(r);
  const Decays decays = decays_of(r, cut);
  const Tensor q = cut(r.queries), k = cut(of_present(r.keys, r.key_valid)), v = cut(r.values);
  const Tensor within = product(decays.products(q, k), v);
  if (cut.chunks() == 1 && r.state == nullptr) return cut.join(within);
  const std::vector<Tensor> added = product((k * decays.behind()).transpose(2, 3), v).unbind(1);
  const std::vector<Tensor> kept = decays.of_all().unbind(1);
  std::vector<Tensor> states = {first_state(r)};
  for (std::size_t c = 0; c < added.size(); ++c) {
    if (c + 1 < added.size() || r.state != nullptr) {
      states.push_back(states[c] * kept[c] + added[c]);
    }
  }
  if (r.state != nullptr) {
    keep_last_state(r, states.back());
    states.pop_back();
  }
  return cut.join(within + product(q * decays.up_to(), at::stack(states, 1)));
}

Tensor gated_delta_rule(const Recurrence& r, const Tensor& betas) {
  const Cut cut(r);
  if (cut.empty()) return nothing_seen(r);
  const Decays decays = decays_of(r, cut);
  const Tensor q = cut(r.queries), k = cut(r.keys), v = cut(r.values);
  const Tensor beta = cut(of_present(betas, r.key_valid));
  const bool one = cut.chunks() == 1 && r.state == nullptr;  // no state is read
  const Tensor up_to = one ? Tensor() : decays.up_to();
  // The system has ones on its diagonal, which is not read.
  const Tensor solved = at::linalg_solve_triangular(
      beta * decays.products(k, k), one ? beta * v : beta * at::cat({v, k * up_to}, 3),
      /*upper=*/false, /*left=*/true, /*unitriangular=*/true);
  const Tensor seen = decays.products(q, k);
  if (one) return cut.join(product(seen, solved));
  const std::int64_t channels = v.size(3);
  const std::vector<Tensor> given = solved.narrow(3, 0, channels).unbind(1);
  const std::vector<Tensor> read = solved.narrow(3, channels, k.size(3)).unbind(1);
  const std::vector<Tensor> keys = (k * decays.behind()).transpose(2, 3).unbind(1);
  const std::vector<Tensor> kept = decays.of_all().unbind(1);
  std::vector<Tensor> states, written;
  Tensor state = first_state(r);
  for (std::size_t c = 0; c < given.size(); ++c) {
    states.push_back(state);
    written.push_back(given[c] - product(read[c], state));
    if (c + 1 < given.size() || r.state != nullptr) {
      state = state * kept[c] + product(keys[c], written[c]);
    }
  }
  keep_last_state(r, state);
  return cut.join(product(seen, at::stack(written, 1)) + product(q * up_to, at::stack(states, 1)));
}

Tensor unit_variance(const Tensor& x) {
  const Tensor centred = x - x.mean(-1, /*keepdim=*/true);
  return centred * (centred.square().mean(-1, /*keepdim=*/true) + 1e-5).rsqrt();
}

Tensor silu_direction(const Tensor& given) {
  const Tensor x = at::silu(given);
  return x * (x.square().sum(-1, /*keepdim=*/true) + 1e-6).rsqrt();
}

}  // namespace attnlab
