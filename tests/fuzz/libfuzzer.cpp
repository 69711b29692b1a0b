// What a target gives libFuzzer: its entry, where to begin, words, and a mutation that makes inputs
// pass their first check.
//
//   NAME_fuzz --seeds DIR      writes the seeds to DIR/seeds, the words (a dictionary) to DIR/words
//
//   NAME_fuzz OPTIONS DIR...   libFuzzer, on these corpora
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "tests/fuzz/fuzz.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace attnlab::fuzz {
namespace {

/// A line of a dictionary: every byte as \xHH.
std::string quoted(const std::string& word) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string line = "\"";
  for (const char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    line += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return line + "\"\n";
}

void write_beginnings(const std::filesystem::path& folder) {
  const Target given = target();
  std::filesystem::create_directories(folder / "seeds");
  for (std::size_t i = 0; i < given.seeds.size(); ++i) {
    std::ofstream(folder / "seeds" / std::to_string(i), std::ios::binary) << given.seeds[i];
  }
  std::ofstream words(folder / "words");
  for (const std::string& word : given.words) {
    if (!word.empty()) words << quoted(word);
  }
  if (!words.flush()) fail("cannot write to " + folder.string());
}

}  // namespace
}  // namespace attnlab::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  attnlab::fuzz::try_input(data, size);
  return 0;  // -1 would keep what is refused out of the corpus, whatever code it reached
}

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  if (*count == 3 && std::strcmp((*arguments)[1], "--seeds") == 0) {
    attnlab::fuzz::write_beginnings((*arguments)[2]);
    std::exit(0);
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned random) {
  static const auto repair = attnlab::fuzz::target().repair;
  size = LLVMFuzzerMutate(data, size, most);
  if (repair == nullptr || random % 2 == 0) return size;
  std::string input(reinterpret_cast<const char*>(data), size);
  repair(input);
  if (input.size() > most) return size;
  std::copy(input.begin(), input.end(), data);
  return input.size();
}
