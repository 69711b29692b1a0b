#include "framework/comparison/domain_effects.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace attnlab {
namespace {

/// Smaller is worse: seeds that diverged, then a verdict "worse", then the standardised difference.
using Badness = std::tuple<double, int, double>;

std::optional<Badness> badness_of(const DomainCell& cell) {
  const bool worse = cell.row.contrast && cell.row.contrast->significant && !cell.row.improves();
  if (cell.diverged == 0 && !worse && !cell.effect) return std::nullopt;
  const double seeds = static_cast<double>(std::max<std::size_t>(1, cell.row.seeds.size()));
  return Badness{-static_cast<double>(cell.diverged) / seeds, worse ? 0 : 1,
                 cell.effect ? cell.effect->value : 0};
}

void find_worst(DomainRow& row) {
  std::optional<Badness> worst;
  for (std::size_t i = 0; i < row.cells.size(); ++i) {
    const auto badness = badness_of(row.cells[i]);
    if (!badness || (worst && *badness >= *worst)) continue;
    worst = badness;
    row.worst = i;
  }
}

std::string reason_without(const DomainPage& page, const DomainCell& cell) {
  if (cell.row.gap) return std::string(name_of(cell.row.gap.kind));
  if (cell.diverged > 0) return "diverged";
  if (cell.baseline_diverged > 0) return page.baseline + " diverged";
  return "too few pairs that vary";
}

/// Whether an effect of quality is of so few pairs that its variance is rough.
bool any_rough(const DomainPage& page, const DomainRow& row) {
  for (std::size_t i = 0; i < page.columns.size(); ++i) {
    const auto& effect = row.cells[i].effect;
    if (page.columns[i].role == ColumnRole::quality && effect && has_rough_variance(*effect)) {
      return true;
    }
  }
  return false;
}

}  // namespace

// One effect a domain: the mean over its quality columns, with the mean of their variances, as if
// columns of one domain told the same thing twice.
void add_effects(const DomainPage& page, DomainRow& row) {
  find_worst(row);
  // One form for all: the exact variance of four pairs lies above the rough one of three, which
  // would give three pairs more weight than four.
  row.rough = any_rough(page, row);
  std::map<std::string, std::vector<Effect>> found;
  std::map<std::string, std::string> missing;
  for (std::size_t i = 0; i < page.columns.size(); ++i) {
    const PageColumn& column = page.columns[i];
    const DomainCell& cell = row.cells[i];
    if (column.role != ColumnRole::quality) continue;
    if (cell.effect) {
      Effect effect = *cell.effect;
      if (row.rough) effect.variance = rough_variance(effect.pairs);
      found[column.domain].push_back(effect);
    } else {
      missing[column.domain] = reason_without(page, cell);
    }
  }
  for (const auto& [domain, reason] : missing) {
    found.erase(domain);  // a domain of which half is missing is not that domain
    row.without_effect.push_back(fmt::format("{}: {}", domain, reason));
  }
  std::vector<Effect> effects;
  for (const auto& [domain, list] : found) {
    Effect mean;
    for (const Effect& one : list) {
      mean.value += one.value / static_cast<double>(list.size());
      mean.variance += one.variance / static_cast<double>(list.size());
    }
    row.effects[domain] = mean;
    effects.push_back(mean);
  }
  if (effects.size() > 1) row.summary = random_effects(effects, 1 - page.options.level);
}

}  // namespace attnlab
