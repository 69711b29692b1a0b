// What publications claim of attentions, and whether it holds here.
#pragma once

#include "framework/comparison/domains.h"

namespace attnlab {

/// Adds a check of each claim, and of each published number beside its baseline's (the suites'
/// `reference:`): the side on which it lies is the claim.
void add_claims(const std::vector<PageClaim>& claims, const RunCollection& collection,
                DomainPage& page);

}  // namespace attnlab
