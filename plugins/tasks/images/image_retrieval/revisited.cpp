#include "plugins/tasks/images/image_retrieval/revisited.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>

namespace attnlab {
namespace {

/// Which lists are to be found; the other one is left out, as junk is.
struct Setting {
  const char* name;
  bool easy, hard;
};

constexpr Setting kSettings[] = {
    {"medium", true, true}, {"hard", false, true}, {"easy", true, false}};
constexpr std::int64_t kFirst[] = {1, 5, 10};  ///< k of P@k

/// AP, then P@k.
using Scores = std::array<double, 1 + std::size(kFirst)>;

std::string metric_name(std::size_t score, const Setting& setting) {
  const std::string kind = score == 0 ? "map" : fmt::format("mp{}", kFirst[score - 1]);
  return kind + "_" + setting.name;
}

/// Numbers of the pictures, the most similar one first.
std::vector<std::int64_t> order_of(const double* similarity, std::int64_t count) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    if (std::isnan(similarity[a]) || std::isnan(similarity[b])) {
      return std::isnan(similarity[b]) && !std::isnan(similarity[a]);
    }
    return similarity[a] > similarity[b];
  });
  return order;
}

/// Empty where nothing is to be found.
std::optional<Scores> scores_of(const std::vector<std::int64_t>& order, const Relevant& relevant,
                                const Setting& setting) {
  std::vector<char> wanted(order.size(), 0), left_out(order.size(), 0);
  std::int64_t count = 0;
  const auto mark = [&](const std::vector<std::int64_t>& pictures, bool found) {
    for (const std::int64_t picture : pictures) {
      (found ? wanted : left_out)[static_cast<std::size_t>(picture)] = 1;
    }
    if (found) count += std::ssize(pictures);
  };
  mark(relevant.easy, setting.easy);
  mark(relevant.hard, setting.hard);
  mark(relevant.junk, false);
  if (count == 0) return std::nullopt;
  std::vector<std::int64_t> ranks;
  std::int64_t rank = 0;
  for (const std::int64_t picture : order) {
    const auto at = static_cast<std::size_t>(picture);
    if (wanted[at] != 0) ranks.push_back(rank);
    if (left_out[at] == 0) ++rank;
  }
  Scores scores{};
  for (std::size_t j = 0; j < ranks.size(); ++j) {
    const auto found = static_cast<double>(j), before = static_cast<double>(ranks[j]);
    const double from = before == 0 ? 1 : found / before;
    scores[0] += (from + (found + 1) / (before + 1)) / 2 / static_cast<double>(count);
  }
  for (std::size_t k = 0; k < std::size(kFirst); ++k) {
    const std::int64_t first = std::min(kFirst[k], ranks.back() + 1);
    const auto among = std::lower_bound(ranks.begin(), ranks.end(), first) - ranks.begin();
    scores[k + 1] = static_cast<double>(among) / static_cast<double>(first);
  }
  return scores;
}

void check(const Relevant& relevant, std::int64_t count) {
  for (const auto* pictures : {&relevant.easy, &relevant.hard, &relevant.junk}) {
    for (const std::int64_t picture : *pictures) {
      if (picture >= 0 && picture < count) continue;
      throw DataError(fmt::format("a query's ground truth names picture {} of a database of {}",
                                  picture, count));
    }
  }
}

}  // namespace

std::vector<MetricInfo> revisited_metric_infos() {
  std::vector<MetricInfo> all;
  for (const Setting& setting : kSettings) {
    for (std::size_t i = 0; i < Scores().size(); ++i) {
      all.push_back({metric_name(i, setting), Better::higher, "share"});
    }
  }
  return all;
}

Metrics revisited_metrics(const Tensor& similarity, const std::vector<Relevant>& relevant) {
  const Tensor numbers = similarity.to(at::kCPU, at::kDouble).contiguous();
  const std::int64_t count = numbers.size(1);
  constexpr std::size_t kCount = std::size(kSettings);
  Scores sums[kCount] = {};
  double queries[kCount] = {};
  for (std::size_t q = 0; q < relevant.size(); ++q) {
    check(relevant[q], count);
    const std::vector<std::int64_t> order =
        order_of(numbers.data_ptr<double>() + static_cast<std::int64_t>(q) * count, count);
    for (std::size_t s = 0; s < kCount; ++s) {
      const std::optional<Scores> scores = scores_of(order, relevant[q], kSettings[s]);
      if (!scores) continue;
      ++queries[s];
      for (std::size_t i = 0; i < scores->size(); ++i) sums[s][i] += (*scores)[i];
    }
  }
  Metrics metrics;
  for (std::size_t s = 0; s < kCount; ++s) {
    if (queries[s] == 0) continue;
    for (std::size_t i = 0; i < sums[s].size(); ++i) {
      metrics[metric_name(i, kSettings[s])] = sums[s][i] / queries[s];
    }
  }
  if (queries[0] == 0) {
    throw UndefinedMetrics("no query has an easy or a hard picture in the database", metrics);
  }
  return metrics;
}

}  // namespace attnlab
