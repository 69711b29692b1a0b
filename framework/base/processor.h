// Which instruction set the program computes with.
//
// ATTNLAB_CPU=sse4|avx2|avx512 holds every part to one, so that each can be tested and measured on
// one machine: our kernels, LibTorch, OpenBLAS and oneDNN. Numbers may differ in their last bits
// from one to another.
#pragma once

#include <optional>
#include <string>

namespace attnlab {

/// What ATTNLAB_CPU asks for; empty where it is not set.
/// @throws ConfigError for a word that is none of these, or a set that this processor lacks.
std::optional<std::string> asked_instruction_set();

/// Whether the processor multiplies matrices of bfloat16: AVX-512's instructions for it, or ARM's.
/// Not where ATTNLAB_CPU holds the program to a set without them.
bool processor_has_bfloat16();

/// Whether the processor multiplies tiles of bfloat16 (Intel's AMX), and the system lets this
/// process do so: the first call asks. Not where ATTNLAB_CPU holds the program to a set.
bool processor_has_tiles();

/// Tells libraries that are not loaded yet, through their own environment variables. To be called
/// before LibTorch comes into the process: OpenBLAS reads its variable as it loads.
/// @throws ConfigError as above.
void hold_libraries_to_instruction_set();

}  // namespace attnlab
