#include "framework/report/card.h"

#include <fmt/format.h>

#include "framework/base/foreign_text.h"
#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/comparison/table.h"
#include "framework/report/citations.h"

namespace attnlab {
namespace {

using nlohmann::json;
using Rows = std::vector<std::vector<std::string>>;

/// Plugins' words, runs' names and folders may hold anything.
std::string foreign(const std::string& text) {
  return markdown_line(one_line(text, kLongestMessageLine));
}

/// "softmax(Q K̄ᵀ) V with keys of unit length": manifests say the equation in their summary.
std::string identity_text(const Card& card) {
  const Manifest& manifest = *card.manifest;
  std::string out =
      fmt::format("# {}\n\n{}\n\n", foreign(manifest.name), foreign(manifest.summary));
  out += table_text({{"id", manifest.id},
                     {"version", manifest.version},
                     {"licence", manifest.licence},
                     {"file", card.file}});
  if (!manifest.citation.empty()) {
    out += "\nCite:\n\n";
    for (const std::string& work : works_of(manifest.citation)) out += "- " + foreign(work) + "\n";
  }
  return out;
}

std::string options_text(const Manifest& manifest) {
  if (manifest.options.empty()) return "It has no options.\n";
  Rows rows = {{"option", "type", "default", "is"}};
  for (const OptionSpec& option : manifest.options) {
    rows.push_back({option.name, option.type_text(),
                    option.holds_options() ? "-" : to_flow(option.default_value), option.help});
  }
  return table_text(rows);
}

std::string traits_text(const Manifest& manifest) {
  std::vector<std::string> honoured, lacked;
  for (const auto& [trait, value] : manifest.traits) (value ? honoured : lacked).push_back(trait);
  return fmt::format("- honours: {}\n- lacks: {}\n",
                     honoured.empty() ? "nothing" : join(honoured, ", "),
                     lacked.empty() ? "nothing" : join(lacked, ", "));
}

std::string conformance_text(const std::string& text) {
  if (text.empty()) return "Not asked here (`attnlab plugin test` does).\n";
  const json in = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!in.is_object() || !in.contains("counts") || !in.contains("checks")) {
    throw DataError("the conformance test gave no result; run attnlab plugin test by itself");
  }
  const json& counts = in.at("counts");
  std::string out = fmt::format(
      "{} of {} checks passed, {} failed, {} not applicable, {} skipped.\n",
      counts.at("passed").get<int>(), in.at("checks").size(), counts.at("failed").get<int>(),
      counts.at("not applicable").get<int>(), counts.at("skipped").get<int>());
  for (const json& check : in.at("checks")) {
    if (check.at("outcome") != "failed") continue;
    out += fmt::format("- FAILED {}: {}\n", foreign(check.at("check").get<std::string>()),
                       foreign(check.at("message").get<std::string>()));
  }
  return out;
}

bool is_warning(const std::string& note) { return note.rfind("WARNING", 0) == 0; }

std::string results_text(const Card& card) {
  if (!card.page) return "No runs were given (`--runs DIR`).\n";
  const DomainPage& page = *card.page;
  const DomainRow& row = page.row(card.label);
  std::string out;
  for (const std::string& note : page.notes) {
    if (is_warning(note)) out += fmt::format("**{}**\n\n", foreign(note));
  }
  if (!page.differences.empty()) {
    out += "**NOT A FAIR COMPARISON: more than the attention differs.**\n\n";
  }
  const bool baseline = row.attention == page.baseline;
  Rows rows = {{"column", "role", baseline ? "value" : "difference to " + page.baseline, "verdict",
                "missing"}};
  for (std::size_t i = 0; i < page.columns.size(); ++i) {
    const std::string missing = missing_text(page, row, i);
    rows.push_back({column_label(page, i), std::string(name_of(page.columns[i].role)),
                    cell_text(page, row, i), cell_verdict(page, row, i),
                    missing.empty() ? row.cells[i].row.gap.reason : missing});
  }
  out += table_text(rows);
  if (baseline) return out + "\nIt is the baseline of these runs.\n";
  out += fmt::format(
      "\nOver domains (standardised, above 0 is better): {}{}.\n", summary_cell_text(row),
      row.without_effect.empty() ? "" : "; without " + join(row.without_effect, ", "));
  out += fmt::format("\nBeside {}: time {}, memory {}, parameters {}, FLOPs {}.\n", page.baseline,
                     ratio_text(row.costs.time), ratio_text(row.costs.memory),
                     ratio_text(row.costs.parameters), ratio_text(row.costs.flops));
  for (const ClaimCheck& one : page.claims) {
    if (one.claim.attention != row.attention) continue;
    out += fmt::format("\n- Claim ({}): {} on {}, {}: **{}** here ({}).", foreign(one.claim.source),
                       one.claim.better ? "better" : "worse", foreign(one.claim.experiment),
                       foreign(one.claim.text.empty() ? one.claim.metric : one.claim.text),
                       name_of(one.outcome), foreign(one.found));
  }
  return out + "\n";
}

std::string reading_text(const Card& card) {
  if (!card.page) return "";
  std::string out;
  for (const std::string& note : card.page->notes) {
    if (is_warning(note)) continue;
    out += out.empty() ? "\n## Notes on the runs\n\n" : "";
    out += "- " + foreign(note) + "\n";
  }
  out += "\n## How to read it\n\n";
  for (const std::string& line : page_assumptions(*card.page)) out += "- " + line + "\n";
  return out;
}

}  // namespace

std::string card_markdown(const Card& card) {
  std::string out = identity_text(card);
  out += "\n## Options\n\n" + options_text(*card.manifest);
  out += "\n## What it honours\n\n" + traits_text(*card.manifest);
  out += "\n## Its contract\n\n" + conformance_text(card.conformance);
  out += "\n## Results" + (card.runs.empty() ? "" : " (" + foreign(card.runs) + ")") + "\n\n" +
         results_text(card);
  return out + reading_text(card) +
         fmt::format("\nattnlab {}, {}: `{}`\n", ATTNLAB_VERSION, card.date,
                     one_line(card.command, card.command.size()));
}

}  // namespace attnlab
