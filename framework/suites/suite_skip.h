// `skip:` of a suite: cells that are left out on purpose, each with its reason.
//
//   skip:
//     - {experiment: lm_small, attention: linear, reason: "diverges at once, see run 12"}
//     - {attention: [quest, qnorm], seeds: [3], reason: "machine lost"}
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/config/node.h"

namespace attnlab {

/// One entry. An empty list means "all".
struct SkipRule {
  std::vector<std::string> experiments, attentions;
  std::vector<std::int64_t> seeds;
  std::string reason;
  Place place;

  bool matches(const std::string& experiment, const std::string& attention,
               std::int64_t seed) const;
};

/// @param section   the value of `skip`
/// @param problems  every problem is appended: unknown keys, no reason, nothing named
std::vector<SkipRule> read_skips(const Node& section, std::vector<std::string>& problems);

/// Names that a suite does not have are appended to `problems`, with candidates.
void check_skips(const std::vector<SkipRule>& rules, const std::vector<std::string>& experiments,
                 const std::vector<std::string>& attentions, const std::vector<std::int64_t>& seeds,
                 std::vector<std::string>& problems);

}  // namespace attnlab
