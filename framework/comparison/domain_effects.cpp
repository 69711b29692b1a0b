#include "framework/comparison/domain_effects.h"
#include "framework/comparison/quantities.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace attnlab {
namespace {

/// Of an effect (standardised_effect).
constexpr std::int64_t kFewestPairs = 3;

/// Smaller is worse: seeds that diverged; then a verdict "worse" or a loss that is the same in
/// every pair, which no test can judge; then the standardised difference; of losses without one,
/// their share of the baseline's value.
using Badness = std::tuple<double, int, double, double>;

bool is_loss(const DomainCell& cell) {
  const auto& contrast = cell.row.contrast;
  return contrast && contrast->difference.count > 0 && contrast->difference.mean != 0 &&
         cell.row.metric.better != Better::neither && !cell.row.improves();
}

/// All pairs differ by the same, which standardised is without bounds.
bool is_constant(const DomainCell& cell) {
  const auto& contrast = cell.row.contrast;
  return cell.whole() && contrast && contrast->difference.count > 1 && !contrast->dz;
}

std::optional<Badness> badness_of(const DomainCell& cell, const DomainCell& baseline) {
  const bool loss = is_loss(cell), constant = loss && is_constant(cell);
  const bool worse = constant || (loss && cell.row.contrast->significant);
  if (cell.diverged == 0 && !cell.effect && !(loss && cell.whole())) return std::nullopt;
  const double seeds = static_cast<double>(std::max<std::int64_t>(1, cell.own_seeds()));
  const double diverged = -static_cast<double>(cell.diverged) / seeds;
  if (cell.effect || !loss) {
    return Badness{diverged, worse ? 0 : 1, cell.effect ? cell.effect->value : 0, 0};
  }
  const double share =
      std::abs(cell.row.contrast->difference.mean) / std::abs(baseline.row.summary.mean);
  constexpr double kUnbounded = -std::numeric_limits<double>::infinity();
  return Badness{diverged, worse ? 0 : 1, constant ? kUnbounded : 0, -share};
}

void find_worst(const DomainPage& page, DomainRow& row) {
  std::optional<Badness> worst;
  for (std::size_t i = 0; i < row.cells.size(); ++i) {
    const auto badness = badness_of(row.cells[i], page.rows.front().cells[i]);
    if (!badness || (worst && *badness >= *worst)) continue;
    worst = badness;
    row.worst = i;
  }
}

std::string reason_without(const DomainPage& page, const DomainCell& cell) {
  if (cell.row.gap) return std::string(name_of(cell.row.gap.kind));
  if (cell.diverged > 0) return "diverged";
  if (cell.baseline_diverged > 0) return page.baseline + " diverged";
  const auto& contrast = cell.row.contrast;
  if (!contrast || contrast->difference.count == 0) return "no pairs";
  if (is_constant(cell)) {
    return fmt::format(
        "every pair differs by {}",
        plain(difference_of(cell.row.metric, contrast->difference.mean, cell.row.summary.mean)));
  }
  return fmt::format("{} of the {} pairs that an effect needs", contrast->difference.count,
                     kFewestPairs);
}

using EffectsByDomain = std::map<std::string, std::vector<Effect>>;

/// Whether an effect is of so few pairs that its variance is rough.
bool any_rough(const EffectsByDomain& effects) {
  return std::any_of(effects.begin(), effects.end(), [](const auto& domain) {
    return std::any_of(domain.second.begin(), domain.second.end(), has_rough_variance);
  });
}

}  // namespace

// One effect a domain: the mean over its quality columns, with the mean of their variances, as if
// columns of one domain told the same thing twice.
void add_effects(const DomainPage& page, DomainRow& row) {
  find_worst(page, row);
  EffectsByDomain found;
  std::map<std::string, std::string> missing;
  for (std::size_t i = 0; i < page.columns.size(); ++i) {
    const PageColumn& column = page.columns[i];
    const DomainCell& cell = row.cells[i];
    if (column.role != ColumnRole::quality) continue;
    if (cell.effect) {
      found[column.domain].push_back(*cell.effect);
    } else {
      missing[column.domain] = reason_without(page, cell);
    }
  }
  for (const auto& [domain, reason] : missing) {
    found.erase(domain);  // a domain of which half is missing is not that domain
    row.without_effect.push_back(fmt::format("{}: {}", domain, reason));
  }
  // One form for all that is left: the exact variance of four pairs lies above the rough one of
  // three, which would give three pairs more weight than four.
  row.rough = any_rough(found);
  std::vector<Effect> effects;
  for (const auto& [domain, list] : found) {
    Effect mean;
    for (const Effect& one : list) {
      mean.value += one.value / static_cast<double>(list.size());
      const double variance = row.rough ? rough_variance(one.pairs) : one.variance;
      mean.variance += variance / static_cast<double>(list.size());
    }
    row.effects[domain] = mean;
    effects.push_back(mean);
  }
  if (effects.size() > 1) row.summary = random_effects(effects, 1 - page.options.level);
}

}  // namespace attnlab
