#include "framework/report/card.h"

#include <fmt/format.h>

#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/document/text.h"
#include "framework/report/citations.h"

namespace attnlab {
namespace {

using nlohmann::json;

/// "softmax(Q K̄ᵀ) V with keys of unit length": manifests say the equation in their summary.
void write_identity(const Card& card, Document& out) {
  const Manifest& manifest = *card.manifest;
  out.title(manifest.name);
  out.paragraph(manifest.summary);
  out.table({"",
             {"id", manifest.id},
             {{"version", manifest.version}, {"licence", manifest.licence}, {"file", card.file}},
             ""});
  if (manifest.citation.empty()) return;
  out.paragraph("Cite:");
  out.list(works_of(manifest.citation));
}

/// @param prefix  of options in groups: "options."
void add_options(const Schema& options, const std::string& prefix, Table& table) {
  for (const OptionSpec& option : options) {
    table.rows.push_back({prefix + option.name, option.type_text(),
                          option.holds_options() ? "-" : to_flow(option.default_value),
                          option.help});
    if (option.type != OptionSpec::Type::group) continue;
    add_options(option.options, prefix + option.name + ".", table);
  }
}

void write_options(const Manifest& manifest, Document& out) {
  out.heading("Options");
  if (manifest.options.empty()) return out.paragraph("It has no options.");
  Table table{"", {"option", "type", "default", "is"}};
  add_options(manifest.options, "", table);
  out.table(table);
}

void write_traits(const Manifest& manifest, Document& out) {
  std::vector<std::string> honoured, lacked;
  for (const auto& [trait, value] : manifest.traits) (value ? honoured : lacked).push_back(trait);
  out.heading("Supported masks and inputs");
  out.list({"honours: " + (honoured.empty() ? "nothing" : join(honoured, ", ")),
            "lacks: " + (lacked.empty() ? "nothing" : join(lacked, ", "))});
}

void write_conformance(const std::string& text, Document& out) {
  out.heading("Conformance test");
  if (text.empty()) return out.paragraph("Not tested here (see `attnlab plugin test`).");
  const json in = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!in.is_object() || !in.contains("counts") || !in.contains("checks")) {
    throw DataError("the conformance test gave no result; run attnlab plugin test by itself");
  }
  const json& counts = in.at("counts");
  out.paragraph(fmt::format("{} of {} checks passed, {} failed, {} not applicable, {} skipped.",
                            counts.at("passed").get<int>(), in.at("checks").size(),
                            counts.at("failed").get<int>(), counts.at("not applicable").get<int>(),
                            counts.at("skipped").get<int>()));
  std::vector<std::string> failed;
  for (const json& check : in.at("checks")) {
    if (check.at("outcome") != "failed") continue;
    failed.push_back(fmt::format("FAILED {}: {}", check.at("check").get<std::string>(),
                                 check.at("message").get<std::string>()));
  }
  out.list(failed, /*joined=*/true);
}

std::vector<std::string> claims_of(const DomainPage& page, const std::string& attention) {
  std::vector<std::string> out;
  for (const ClaimCheck& one : page.claims) {
    if (one.claim.attention != attention) continue;
    out.push_back(fmt::format("Claim ({}): {} on {}, {}: **{}** here ({}).", one.claim.source,
                              one.claim.better ? "better" : "worse", one.claim.experiment,
                              one.claim.text.empty() ? one.claim.metric : one.claim.text,
                              name_of(one.outcome), one.found));
  }
  return out;
}

void write_results(const DomainPage& page, const DomainRow& row, Document& out) {
  for (const std::string& warning : page_warnings(page)) out.warning(warning);
  const bool baseline = row.attention == page.baseline;
  Table table{"",
              {"column", "role", baseline ? "value" : "difference to " + page.baseline, "verdict",
               "missing"}};
  for (std::size_t i = 0; i < page.columns.size(); ++i) {
    TableCell cell = domain_cell(page, row, i);
    table.rows.push_back({column_label(page, i), std::string(name_of(page.columns[i].role)),
                          cell_text(page, row, i), cell_verdict(page, row, i),
                          cell.note.empty() ? cell.why : cell.note});
  }
  out.table(table);
  if (baseline) return out.paragraph("It is the baseline of these runs.");
  out.paragraph(
      fmt::format("Over domains (standardised, above 0 is better): {}{}.", plain(summary_cell(row)),
                  row.without_effect.empty() ? "" : "; without " + join(row.without_effect, ", ")));
  out.paragraph(
      fmt::format("Relative to {}: time {}, memory {}, parameters {}, FLOPs {}.", page.baseline,
                  plain(ratio_cell(row.costs.time)), plain(ratio_cell(row.costs.memory)),
                  plain(ratio_cell(row.costs.parameters)), plain(ratio_cell(row.costs.flops))));
  out.list(claims_of(page, row.attention));
}

}  // namespace

std::string card_markdown(const Card& card) {
  TextDocument out(TableStyle::markdown);
  write_identity(card, out);
  write_options(*card.manifest, out);
  write_traits(*card.manifest, out);
  write_conformance(card.conformance, out);
  out.heading("Results" + (card.runs.empty() ? "" : " (" + card.runs + ")"));
  if (card.page) {
    write_results(*card.page, card.page->row(card.label), out);
    const std::vector<std::string> notes = plain_notes(*card.page);
    if (!notes.empty()) out.heading("Notes on the runs");
    out.list(notes);
    out.heading("How to read it");
    out.list(page_assumptions(*card.page));
  } else {
    out.paragraph("No runs were given (`--runs DIR`).");
  }
  out.stamp(card.date, card.command);
  return out.take();
}

}  // namespace attnlab
