// Experiments that need a plugin which is not installed: a domain that was not built must not keep
// the others from being compared.
#pragma once

#include <string>

#include "framework/config/node.h"
#include "framework/manifest/discovery.h"

namespace attnlab {

/// What is said of the first model, task or dataset of a composition that cannot be used here,
/// those of its evaluations included; empty where all are here. The attention is not looked at: it
/// is what is compared.
std::string missing_plugin(const Node& composed, const Catalogue& catalogue);

}  // namespace attnlab
