// Part of a chunk of numbers that share a pair of dropout's keys; see dropout.cpp.
#pragma once

#include <cstdint>

namespace attnlab {

/// Numbers [begin, end) of a chunk.
struct ChunkPart {
  std::int64_t begin, end;
  std::uint64_t keys;
  std::uint32_t limit;  ///< hashes below it drop
};

}  // namespace attnlab
