// Fuzzes reading and composing of YAML: whatever the bytes, the answer is a tree or a ConfigError
// that names the place; a tree that was read is written and read again to the same; merging and
// references end, with a tree or a ConfigError.
// Code: framework/config/compose.cpp framework/config/interpolate.cpp framework/config/node.cpp
// Code: framework/config/yaml.cpp
#include "framework/config/compose.h"
#include "tests/fuzz/fuzz.h"

namespace attnlab::fuzz {
namespace {

/// Keys of a map in one line end within 1024 characters, by YAML's rules.
bool has_long_key(const Node& node) {
  for (const Node& item : node.items()) {
    if (has_long_key(item)) return true;
  }
  for (const auto& [key, value] : node.entries()) {
    if (key.size() > 100 || has_long_key(value)) return true;
  }
  return false;
}

void check_places(const Node& node) {
  if (node.place().file != "f.yaml" || node.place().line < 1 || node.place().column < 1) {
    fail("a value without a place: " + to_flow(node));
  }
  for (const Node& item : node.items()) check_places(item);
  for (const auto& [key, value] : node.entries()) check_places(value);
}

void check_round_trips(const Node& tree) {
  if (has_long_key(tree)) return;
  const std::string flow = to_flow(tree);
  if (to_flow(parse_yaml(flow, "flow")) != flow)
    fail("reads otherwise than it was written: " + flow);
  Node block = parse_yaml(to_yaml(tree), "block");
  interpolate(block);  // turns `$${` back
  if (to_flow(block) != flow) fail("block style changes it: " + flow);
}

/// The part before the first "%%" under the part after it, as a file under another.
void compose_both(const std::string& text) {
  const std::size_t cut = text.find("%%");
  Node base = parse_yaml(text.substr(0, cut), "f.yaml");
  try {
    if (cut != std::string::npos) merge(base, parse_yaml(text.substr(cut + 2), "g.yaml"));
  } catch (const ConfigError&) {
    // what is not a problem is merged
  }
  std::vector<std::string> problems;
  interpolate(base, problems);
  const std::string once = to_flow(base);
  escape_references(base);
  problems.clear();
  interpolate(base, problems);
  if (!problems.empty() || to_flow(base) != once)
    fail("what is composed does not stay as it is: " + once);
}

}  // namespace

Target target() {
  Target target;
  target.seeds = {
      "schema: 1\nextends: [a.yaml, 'b.yaml']\nmodel: &m {use: vit, dim: 128} # text\n"
      "list+: [1.0e-3, \"x\\n\", *m]\ntext: |\n  one\n  two\nfold: >-\n  three\n? k\n: v\n",
      "a: {x: ???, y: [???, '?\?\?']}\nb: ???\n",
      "a: 5\nb: ${a}\nc: {d: '${..a}', e: ${.d}}\nl: [1, '${a}']\nm: ${l.0}\nn: 'x${a}$${y}'\n",
      "%%a: 1\n",
      "l: [1, 2, 3]\nm: {use: vit, dim: 1}\nt: {lr: 1, k: 2}\n"
      "%%\nl+: [4]\nl-: [1]\nm: {use: cnn}\nt: {k-: }\nz: ${t.lr}\n",
      "m: vit\n%%m: {dim: 3}\n",
      "m: {use: vit, dim: 3}\n%%m: cnn\n",
      "a: {b: {c: {d: [[[[1]]]]}}}\n",
      "a0: &a0 [x, x]\na1: &a1 [*a0, *a0]\na2: [*a1, *a1]\n",
      "a0: xxxxxxxx\na1: ${a0}${a0}\na2: ${a1}${a1}\n",
      "- 1\n- {a: b}\n- - 2\n  - 3\n",
      "\"quoted key\": 'it''s'\n'k': \"\\u00e9\\x41\\0\"\n",
      "\"\\N\": \"\\_\"\n",
      "!!str 8: !!int 9\n%TAG ! tag:x,2000:\n",
      "\xef\xbb\xbf"
      "a: 1\r\nb: 2\r\n",
      "a: 1\n---\nb: 2\n...\n",
      "a: 'x\nb: 1\n",
      "{a: [1, {b: 2}",
      "\ta: 1\n",
      "x: *nobody\n",
      "<<: {a: 1}\na: 1\na: 2\n",
      "",
  };
  target.words = {"${",
                  "}",
                  "$${",
                  "${env:HOME,x}",
                  "${..a}",
                  "???",
                  "%%",
                  "a+: [1]\n",
                  "a-:\n",
                  "a-: [1]\n",
                  "use: b\n",
                  ": ",
                  "- ",
                  "? ",
                  "{",
                  "}",
                  "[",
                  "]",
                  ", ",
                  "&a ",
                  "*a",
                  "!!str ",
                  "|\n",
                  ">-\n",
                  "\"",
                  "'",
                  "# ",
                  "---\n",
                  "...\n",
                  "%YAML 1.2\n",
                  "\xee\x80\x80",
                  "\xc2\x85",
                  "\xe2\x80\xa8",
                  "[[[[[[[[",
                  "{a: {a: {a: ",
                  "null",
                  "~",
                  "010",
                  ".inf"};
  return target;
}

}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    parse_override(text.substr(0, text.find('\n')));
  } catch (const ConfigError&) {
    // most are none
  }
  try {
    fuzz::compose_both(text);
  } catch (const ConfigError&) {
    // one of the two parts, or a reference, is wrong
  }
  try {
    const Node tree = parse_yaml(text, "f.yaml");
    fuzz::check_places(tree);
    fuzz::check_round_trips(tree);
    return 0;
  } catch (const ConfigError& error) {
    if (std::string(error.what()).rfind("f.yaml", 0) == 0) return -1;
    fuzz::fail(std::string("an error that does not name the file: ") + error.what());
  }
}
