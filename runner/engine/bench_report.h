// What `attnlab bench attention` prints.
#pragma once

#include <string>
#include <vector>

#include "runner/engine/bench.h"

namespace attnlab {

/// "4×4×1024×64": batch, heads, length, channels.
std::string shape_text(const BenchShape& shape);
/// "64.5 MiB".
std::string bytes_text(std::int64_t bytes);

/// Machine and versions, a line each.
std::string machine_text();
std::string block_text(const BenchBlock& block);
std::string bars_text(const std::vector<BenchBar>& bars);
/// All of it, with every number in seconds, bytes and operations a second.
std::string bench_json(const BenchPlan& plan, const std::vector<BenchBlock>& blocks,
                       const std::vector<BenchBar>& bars);

}  // namespace attnlab
