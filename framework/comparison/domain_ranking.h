// Ranks over domains.
#pragma once

#include "framework/comparison/domains.h"

namespace attnlab {

/// Adds ranks over the domains of the quality columns, or why there are none. Within a column
/// attentions are ordered by their means over the seeds that all of them have, those with diverged
/// seeds behind the others, the more of them the further; a domain's order is that of the mean
/// ranks of its columns. An attention that lacks a value in a domain is left out, and named; so is
/// a domain in which the baseline has none, and a seed that not all attentions have.
void add_domain_ranking(DomainPage& page);

}  // namespace attnlab
