// Fuzzes the reader of indices: an index whose entries can be shown and stay beside it, or a
// BundleError.
// Code: framework/sharing/index.cpp framework/sharing/foreign_json.cpp
#include "framework/base/foreign_text.h"
#include "framework/sharing/archive.h"
#include "framework/sharing/index.h"
#include "tests/fuzz/fuzz.h"

namespace attnlab::fuzz {
namespace {

std::string index_of(int bundles) {
  sharing::Index index;
  index.lab = "acme";
  index.serial = 3;
  index.created = "2026-11-23T16:00:00Z";
  index.expires = "2027-01-01";
  for (int i = 0; i < bundles; ++i) {
    index.bundles.push_back({"acme/sharp", "attention", "1.0." + std::to_string(i), "made up",
                             "MIT", "sharp.attnlab", std::string(64, 'a'), 1000});
  }
  return write_index(index);
}

}  // namespace

Target target() {
  return {
      .seeds = {index_of(0), index_of(1), index_of(3), "{}", "[", "", std::string(5000, '[')},
      .words = {"\"bundles\":[", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "\"serial\":", "../x",
                "\\u001b", "null", "1e999", "\"expires\":\"2027-01-01\"", "9223372036854775808"}};
}

}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  try {
    const auto index = sharing::parse_index({reinterpret_cast<const char*>(data), size});
    for (const sharing::IndexEntry& entry : index.bundles) {
      sharing::check_path(entry.file);
      for (const std::string* text : {&entry.id, &entry.kind, &entry.summary, &entry.licence}) {
        if (printable(*text) != *text) fuzz::fail("a text that cannot be shown: " + *text);
      }
    }
    return 0;
  } catch (const sharing::BundleError& error) {
    const std::string what = error.what();
    if (printable(what) != what) fuzz::fail("an error that cannot be shown: " + what);
    return -1;
  }
}
