// What a fuzz target consists of. Inputs are made by driver.cpp (tests, of seconds) or by libFuzzer
// (libfuzzer.cpp; preset `fuzz`, for hours). A target's line
// `// Code: FILE...` says of which files coverage is counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

namespace attnlab::fuzz {

/// Tries one input. @returns 0 when the code under test takes it, -1 when it refuses it as it
/// should. Anything else that is thrown, and `fail`, ends the process: a finding.
int try_input(const std::uint8_t* data, std::size_t size);

/// What inputs are made from.
struct Target {
  std::vector<std::string> seeds;  ///< inputs, sound and damaged; one at least is sound
  std::vector<std::string> words;  ///< what the format is made of
  /// Makes a changed input pass its first check (a length, a sum), so that changes reach what comes
  /// after it; null: there is none. Applied to half of the inputs.
  void (*repair)(std::string& input) = nullptr;
};

/// Each target defines it.
Target target();

/// The code under test did what it must not.
[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "fuzz: %s\n", what.c_str());
  std::abort();
}

/// An error begins with the file that it is of.
inline void check_names(const std::string& path, const std::exception& error) {
  if (std::string(error.what()).rfind(path, 0) == 0) return;
  fail(std::string("an error that does not name the file: ") + error.what());
}

}  // namespace attnlab::fuzz
