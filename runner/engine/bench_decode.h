// attnlab bench attention --decode: what one more token costs behind many others.
#pragma once

#include "runner/engine/bench.h"

namespace attnlab {

/// One mechanism behind so many tokens.
struct DecodeCell {
  std::string attention;   ///< its label
  std::string reason;      ///< why there is no number; empty: there is one
  std::int64_t bytes = 0;  ///< that the layer keeps of all earlier tokens
  Comparison time;         ///< of one more token, against `standard`
};

struct DecodeBlock {
  BenchShape shape;  ///< its length: how many tokens came before
  std::vector<DecodeCell> cells;
};

/// One layer of multi-head attention writes one token behind `shape.length` others: projections,
/// attention and output, without gradients.
DecodeBlock measure_decode(Registry& registry, const BenchPlan& plan, const BenchShape& shape);

std::string decode_text(const DecodeBlock& block);
std::string decode_json(const std::vector<DecodeBlock>& blocks);

}  // namespace attnlab
