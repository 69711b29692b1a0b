// What an attention's columns say together: an effect a domain, their summary, the worst column.
#pragma once

#include "framework/comparison/domains.h"

namespace attnlab {

/// Fills `effects`, `rough`, `summary`, `without_effect` and `worst` of a row that has its cells
/// and verdicts.
void add_effects(const DomainPage& page, DomainRow& row);

}  // namespace attnlab
