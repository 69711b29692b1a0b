#include "framework/experiment/resolved_parts.h"

#include <algorithm>

namespace attnlab {
namespace {

constexpr std::size_t kMostParts = 64;  ///< a list that is searched

/// Two nodes that share what they hold: what stands in one stands in the other.
bool share(const Node& a, const Node& b) { return &a.entries() == &b.entries(); }

}  // namespace

std::optional<ResolvedParts::Resolved> ResolvedParts::find(Kind kind, const Node& given) const {
  const std::lock_guard<std::mutex> lock(guard_);
  // (An alias of YAML may be the section of two kinds.)
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const auto& known) {
    return known.second.part.kind == kind && share(known.first, given);
  });
  if (found == all_.end()) return std::nullopt;
  return found->second;
}

void ResolvedParts::add(const Node& given, Resolved resolved) {
  const std::lock_guard<std::mutex> lock(guard_);
  if (all_.size() < kMostParts) all_.emplace_back(given, std::move(resolved));
}

}  // namespace attnlab
