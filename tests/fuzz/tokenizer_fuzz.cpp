// Fuzzes the reader of a byte-pair tokenizer's files: a tokenizer.json, or before and after "%%"
// a vocab.json and a merges.txt. Whatever the bytes, it answers with a tokenizer whose tokens of a
// text spell that text, or with a DataError that names the file.
// Code: framework/data/text/byte_pair_files.cpp framework/data/text/json_leaves.cpp
#include <string>
#include <string_view>

#include "framework/base/error.h"
#include "framework/data/text/byte_pairs.h"
#include "tests/fuzz/files_in_memory.h"
#include "tests/plugins/language/byte_pair_files.h"

namespace attnlab::fuzz {
namespace {

void check_spells(const BytePairs& pairs, const std::string& text) {
  const std::vector<std::string>& entries = pairs.entries();
  std::string spelt;
  pairs.encode(text_of("text", text), [&](const std::int32_t* tokens, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      if (tokens[i] < 0 || static_cast<std::size_t>(tokens[i]) >= entries.size()) {
        fail("a token that has no entry");
      }
      spelt += entries[static_cast<std::size_t>(tokens[i])];
    }
  });
  if (spelt != text) fail("tokens that spell another text: " + spelt);
}

}  // namespace

Target target() {
  const testing::PairFiles files({{"a", "b"}, {"ab", "a"}, {" ", "ab"}, {"\xc3", "\xa9"}});
  const std::string merges = files.merges_txt();
  Target target;
  target.seeds = {files.vocab_json() + "%%" + merges,
                  files.tokenizer_json(true).dump(),
                  files.tokenizer_json(false).dump(1),
                  files.vocab_json() + "%%" + merges + "a c\n",
                  "{}%%" + merges,
                  "[]",
                  "{\"model\":",
                  ""};
  target.words = {"\"model\"",
                  "\"merges\"",
                  "\"vocab\"",
                  "\"added_tokens\"",
                  "\"content\"",
                  "\"id\":",
                  "\"type\"",
                  "\"BPE\"",
                  "\"ByteLevel\"",
                  "<|endoftext|>",
                  "%%",
                  "#version\n",
                  "\xc4\xa0",
                  "\xc4\xa0"
                  "ab",
                  "a b\n",
                  "ab a\n",
                  "[[[[[[[[[[[[",
                  "{\"a\":{\"",
                  "-1",
                  "256",
                  "4294967296",
                  "1e300",
                  "null",
                  "\\u0120",
                  "\\ud800"};
  return target;
}

}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  static const fuzz::MemoryFolder folder;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> files;
  if (input.find("%%") == input.npos) {
    files = {folder.write("tokenizer.json", input)};
  } else {
    const auto [vocabulary, merges] = fuzz::halves(input);
    files = {folder.write("vocab.json", vocabulary), folder.write("merges.txt", merges)};
  }
  try {
    const BytePairs pairs = BytePairs::read(files);
    fuzz::check_spells(pairs, "aba abab caf\xc3\xa9  12\r\n<|endoftext|> ab'll\t\xe2\x82\xac!!");
    return 0;
  } catch (const DataError& error) {
    fuzz::check_names(folder.path(), error);
    return -1;
  }
}
