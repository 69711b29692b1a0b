// The page over domains (framework/comparison/domains.h) as a page, a talk's figure, a paper's
// table, and records.
#pragma once

#include <string>

#include "framework/comparison/domains.h"

namespace attnlab {

/// Where and when a page was made.
struct PageStamp {
  std::string command, date;  ///< "attnlab page runs/cross_domain", "2026-11-23 17:00 UTC"
};

/// The figure for a talk, a picture of its own: attentions by columns. The colour is the
/// standardised difference, the number the difference, a triangle a verdict.
std::string domain_figure(const DomainPage& page);
/// The critical-difference diagram over domains, a picture of its own; empty without ranks.
std::string domain_ranks_figure(const DomainPage& page);

/// One page without scripts that needs no other file.
std::string domain_html(const DomainPage& page, const PageStamp& stamp);
/// The page's columns in rows, attentions side by side (booktabs): the baseline and four others a
/// table, as many tables as that takes.
std::string domain_latex(const DomainPage& page, const PageStamp& stamp);
std::string domain_markdown(const DomainPage& page, const PageStamp& stamp);
/// Everything. The member `schema` is the version of the form: 1.
std::string domain_json(const DomainPage& page, const PageStamp& stamp);

}  // namespace attnlab
