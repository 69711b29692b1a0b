#include "framework/eval/neighbours.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace attnlab {
namespace {

constexpr std::int64_t kBankRows = 8192;  // of the bank at once

struct Candidate {
  float similarity = 0;
  std::int64_t index = 0;
};

bool is_nearer(const Candidate& a, const Candidate& b) {
  return a.similarity > b.similarity || (a.similarity == b.similarity && a.index < b.index);
}

/// The nearest so far, as a heap with the farthest on top.
class Nearest {
 public:
  explicit Nearest(std::int64_t k) : k_(static_cast<std::size_t>(k)) {}

  /// @param first  index of the first of them; indices rise from call to call
  void look(const float* similarities, std::int64_t count, std::int64_t first) {
    for (std::int64_t j = 0; j < count; ++j) {
      if (all_.size() == k_) {
        if (!(similarities[j] > all_.front().similarity)) continue;  // an earlier one stays
        std::pop_heap(all_.begin(), all_.end(), is_nearer);
        all_.pop_back();
      }
      all_.push_back({similarities[j], first + j});
      std::push_heap(all_.begin(), all_.end(), is_nearer);
    }
  }

  void write(float* similarities, std::int64_t* indices) {
    std::sort_heap(all_.begin(), all_.end(), is_nearer);
    for (const Candidate& one : all_) {
      *similarities++ = one.similarity;
      *indices++ = one.index;
    }
  }

 private:
  std::size_t k_;
  std::vector<Candidate> all_;
};

}  // namespace

Neighbours nearest(const Tensor& queries, const Tensor& bank, std::int64_t k) {
  if (queries.dim() != 2 || bank.dim() != 2 || queries.size(1) != bank.size(1) || k < 1 ||
      k > bank.size(0)) {
    throw ShapeError(
        fmt::format("nearest: {} neighbours of queries {} in a bank {}: expected "
                    "[B, C] and [N, C] with at least so many rows",
                    k, describe(queries), describe(bank)));
  }
  const std::int64_t rows = queries.size(0);
  std::vector<Nearest> all(static_cast<std::size_t>(rows), Nearest(k));
  for (std::int64_t first = 0; first < bank.size(0); first += kBankRows) {
    const std::int64_t count = std::min(kBankRows, bank.size(0) - first);
    const Tensor similarities =
        at::matmul(queries, bank.narrow(0, first, count).t()).to(at::kCPU, at::kFloat).contiguous();
    const auto* data = similarities.data_ptr<float>();
    at::parallel_for(0, rows, 8, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        all[static_cast<std::size_t>(i)].look(data + i * count, count, first);
      }
    });
  }
  Neighbours found{at::empty({rows, k}, at::kFloat), at::empty({rows, k}, at::kLong)};
  for (std::int64_t i = 0; i < rows; ++i) {
    all[static_cast<std::size_t>(i)].write(found.similarity.data_ptr<float>() + i * k,
                                           found.index.data_ptr<std::int64_t>() + i * k);
  }
  return found;
}

Tensor votes_of(const Neighbours& neighbours, const Tensor& bank_classes, std::int64_t k,
                double temperature, std::int64_t classes) {
  const Tensor weights =
      (neighbours.similarity.narrow(1, 0, k).to(at::kDouble) / temperature).exp();
  const Tensor own = bank_classes.index_select(0, neighbours.index.narrow(1, 0, k).flatten());
  return at::zeros({weights.size(0), classes}, at::kDouble)
      .scatter_add(1, own.view_as(weights), weights);
}

}  // namespace attnlab
