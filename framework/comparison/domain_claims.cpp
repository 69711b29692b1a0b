#include "framework/comparison/domain_claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "framework/runs/metric_text.h"

namespace attnlab {
namespace {

using Outcome = ClaimCheck::Outcome;

constexpr std::string_view kOutcomes[] = {"holds", "contradicted", "not shown", "not tested"};

/// The column of a claim. A metric may be named where the column says "headline".
std::optional<std::size_t> column_of(const DomainPage& page, const PageClaim& claim) {
  for (std::size_t i = 0; i < page.columns.size(); ++i) {
    const PageColumn& column = page.columns[i];
    if (column.experiment != claim.experiment) continue;
    if (column.metric == claim.metric || page.metrics[i].name == claim.metric) return i;
  }
  return std::nullopt;
}

/// Of a cell in which seeds diverged, here or of the baseline: what survived shows nothing, so that
/// only divergences themselves count, and those of the baseline where stability is what is claimed.
Outcome outcome_with_divergences(const PageClaim& claim, const DomainCell& cell, ColumnRole role) {
  const bool worse =
      cell.diverged == cell.own_seeds() && !cell.is_waiting() && cell.baseline_diverged == 0;
  const bool better = role == ColumnRole::stability && cell.diverged == 0 && !cell.is_waiting();
  if (!worse && !better) return Outcome::not_shown;
  return better == claim.better ? Outcome::holds : Outcome::contradicted;
}

ClaimCheck checked(const PageClaim& claim, const DomainPage& page) {
  ClaimCheck check{claim, Outcome::not_tested, ""};
  const auto column = column_of(page, claim);
  const auto row = std::find_if(page.rows.begin(), page.rows.end(), [&](const DomainRow& one) {
    return one.attention == claim.attention;
  });
  if (!column || row == page.rows.end()) {
    check.found = column ? "the attention is not among these runs" : "no column shows it";
    return check;
  }
  const DomainCell& cell = row->cells[*column];
  check.found = cell_text(page, *row, *column);
  const std::string missing = missing_text(page, *row, *column);
  if (!missing.empty()) check.found += "; " + missing;
  if (!cell.whole() && !cell.is_missing()) {
    const std::string divergence = cell_verdict(page, *row, *column);
    check.found = cell.row.summary.count == 0 ? divergence : check.found + "; " + divergence;
    if (row->attention == page.baseline) return check;  // compared with itself
    check.outcome = outcome_with_divergences(claim, cell, page.columns[*column].role);
    return check;
  }
  if (!cell.is_tested()) {
    const auto& contrast = cell.row.contrast;
    const std::int64_t pairs = contrast ? contrast->difference.count : 0;
    if (pairs > 0 && is_share_of_runs(cell.row.metric)) {
      check.found +=
          fmt::format("; cannot be tested with {} {}", pairs, pairs == 1 ? "seed" : "seeds");
    }
    return check;
  }
  if (!cell.row.contrast->significant) {
    check.outcome = Outcome::not_shown;
  } else {
    check.outcome = cell.row.improves() == claim.better ? Outcome::holds : Outcome::contradicted;
  }
  return check;
}

/// One publication's numbers as claims: those above and below their own baseline.
void add_published(const PublishedNumbers& published, const DomainPage& page,
                   std::vector<PageClaim>& claims) {
  for (const auto& [experiment, values] : published.values) {
    for (const auto& [attention, value] : values) {
      PageClaim claim{attention, experiment, published.metric, true, published.source, ""};
      const auto column = column_of(page, claim);
      const std::string difference = published.difference(experiment, attention, page.baseline);
      const double size = difference.empty() ? 0 : std::stod(difference);
      if (attention == page.baseline || !column || size == 0) continue;
      const Better better = page.metrics[*column].better;
      if (better == Better::neither) continue;
      claim.better = (size > 0) == (better == Better::higher);
      claim.text = fmt::format("{} {} ({})", published.metric, value, difference);
      claims.push_back(std::move(claim));
    }
  }
}

}  // namespace

std::string_view name_of(Outcome outcome) { return kOutcomes[static_cast<std::size_t>(outcome)]; }

void add_claims(const std::vector<PageClaim>& claims, const RunCollection& collection,
                DomainPage& page) {
  std::vector<PageClaim> all = claims;
  for (const SuiteRecord& suite : collection.suites) {
    for (const PublishedNumbers& published : suite.published) add_published(published, page, all);
  }
  for (const PageClaim& claim : all) page.claims.push_back(checked(claim, page));
}

}  // namespace attnlab
