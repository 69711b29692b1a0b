// Sizes of graphs as those of Peptides-func, for the benchmarks of graphs.
#pragma once

#include <cstdint>

namespace attnlab::bench {

/// Quantiles of the peptides' numbers of atoms.
inline constexpr std::int64_t kPeptideSizes[] = {
    20,  33,  43,  53,  60,  69,  77,  87,  94,  100, 105, 110, 115, 120, 127, 133,
    139, 146, 155, 163, 171, 180, 188, 199, 209, 218, 231, 244, 265, 287, 318, 368};
/// How often each stands in a batch of 128.
inline constexpr int kPeptideCopies = 4;

}  // namespace attnlab::bench
