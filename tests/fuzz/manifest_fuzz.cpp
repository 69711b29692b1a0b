// Fuzzes the reader of plugins' files: ELF, section, manifest, stamp. Whatever the bytes, the
// answer is a manifest whose texts can be shown or a PluginError that names the file; no code is
// loaded. An input that begins with "[" is a schema, with options in YAML after "%%": what is
// resolved without a problem has every option, within its bounds, and resolves to itself.
// Code: framework/manifest/elf.cpp framework/manifest/manifest.cpp framework/manifest/schema.cpp
// Code: framework/manifest/option_lookup.cpp framework/base/foreign_text.cpp
#include <algorithm>

#include "framework/base/foreign_text.h"
#include "framework/base/parsed_json.h"
#include "framework/config/compose.h"
#include "framework/manifest/manifest.h"
#include "framework/manifest/manifest_writer.h"
#include "framework/manifest/option_lookup.h"
#include "framework/manifest/schema_json.h"
#include "tests/fuzz/files_in_memory.h"
#include "tests/support/compositions.h"

namespace attnlab::fuzz {
namespace {

const std::string kManifest =
    R"({"id":"lab/made","kind":"attention","version":"1.2.3","summary":"made up","citation":"nobody",)"
    R"("licence":"MIT","takes":[],"gives":[],"needs":[],"traits":{"causal":true,"bias":false},)"
    R"("options":[{"name":"eps","type":"float","default":0.5,"help":"floor"}],)"
    R"("stamp":{"contract":1,"compiler":"GNU 12","cuda":""}})";

/// Options of every type.
const std::string kOptions =
    R"({"name":"n","type":"int","default":3,"low":1,"high":9,"required":true},)"
    R"({"name":"f","type":"float","default":2,"low":{"bits":4607182418800017408}},)"
    R"({"name":"l","type":"float","list":true,"default":[0.5,".nan",{"bits":1}]},)"
    R"({"name":"b","type":"bool","default":true},)"
    R"({"name":"s","type":"string","default":"a","choices":["a","b"]},)"
    R"({"name":"g","type":"group","options":[{"name":"n","type":"int","default":1}]},)"
    R"({"name":"m","type":"map","options":[{"name":"n","type":"int"}]},)";

std::string schema_of_all() {
  return "[" + kOptions + R"({"name":"t","type":"string","list":true,"default":["1.0"]}])";
}

std::string file_of(const std::string& manifest) {
  return attnlab::testing::library_with_section(kManifestSection, manifest);
}

std::string changed(const std::string& from, const std::string& to) {
  std::string manifest = kManifest;
  return file_of(manifest.replace(manifest.find(from), from.size(), to));
}

void check_shown(const std::string& text) {
  if (one_line(text, 1000) != text) fail("a text that moves cursors: " + one_line(text));
}

/// Where this machine's stamp and a plugin's differ.
void check_stamp(const Stamp& found) {
  const Stamp& own = attnlab::testing::kMadeStamp;
  const auto differences = stamp_differences(own, found);
  for (const std::string& difference : differences) {
    if (printable(difference) != difference || difference.find('\n') != std::string::npos) {
      fail("a text that moves cursors: " + printable(difference));
    }
  }
  if (stamp_differences(found, own).size() != differences.size()) fail("stamps differ one way");
  if (!stamp_differences(found, found).empty()) fail("a stamp that differs from itself");
  const bool other = found.count("contract") == 0 || found.at("contract") != own.at("contract");
  if (other && differences.empty()) fail("another contract is no difference");
}

void check_value(const Node& value, const OptionSpec& option) {
  const bool numeric =
      option.type == OptionSpec::Type::integer || option.type == OptionSpec::Type::real;
  const auto number = value.as_double();
  if (numeric && number &&
      ((option.low && !(*number >= *option.low)) || (option.high && !(*number <= *option.high)))) {
    fail("a value out of its range: " + to_flow(value));
  }
  const auto& choices = option.choices;
  if (!choices.empty() &&
      std::find(choices.begin(), choices.end(), value.text()) == choices.end()) {
    fail("a value that is not a choice: " + to_flow(value));
  }
}

/// A map of numbers, which is left out where it is empty.
bool may_be_absent(const OptionSpec& option) {
  return option.type == OptionSpec::Type::map && !option.options.front().holds_options();
}

void check_resolved(const Node& values, const Schema& schema) {
  std::size_t at = 0;
  for (const OptionSpec& option : schema) {
    const bool is_there = at < values.entries().size() && values.entries()[at].first == option.name;
    if (!is_there && may_be_absent(option)) continue;
    if (!is_there) fail("options are lost, or out of their order: " + to_flow(values));
    const Node& value = values.entries()[at++].second;
    if (option.type == OptionSpec::Type::group) {
      check_resolved(value, option.options);
    } else if (may_be_absent(option)) {
      for (const auto& entry : value.entries()) check_value(entry.second, option.options.front());
    } else if (option.type == OptionSpec::Type::map) {
      for (const auto& entry : value.entries()) {
        check_resolved(entry.second, option.options.front().options);
      }
    } else if (option.list) {
      for (const Node& item : value.items()) check_value(item, option);
    } else if (!value.is_null()) {
      check_value(value, option);
    }
  }
  if (at != values.entries().size()) fail("options too many: " + to_flow(values));
}

/// @returns whether there is no problem with the options.
bool resolve(const std::string& text) {
  const auto [declared, given] = halves(text);
  if (declared.size() > 4000 || given.size() > 1000) return false;  // each name has all options
  try {
    const Schema schema = schema_from(parsed_json(declared));
    const Node options = parse_yaml(given, "f.yaml");
    option_keys(with_names(schema, options));
    std::vector<std::string> problems;
    const auto resolved = [&](const Node& from) {
      return resolve_options(from, schema, "model", "model 'made'", problems);
    };
    const Node once = resolved(options);
    if (!problems.empty()) return false;
    check_resolved(once, schema);
    const Node twice = resolved(once);
    if (!problems.empty()) fail("what is resolved has a problem: " + problems.front());
    if (to_flow(resolved(twice)) != to_flow(twice)) fail("it does not stay: " + to_flow(twice));
    return true;
  } catch (const Error&) {  // no schema, or no YAML
    return false;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

void check_sound(const Manifest& manifest) {
  for (const std::string* text : {&manifest.id, &manifest.name, &manifest.version,
                                  &manifest.summary, &manifest.citation, &manifest.licence}) {
    check_shown(*text);
  }
  for (const auto* names : {&manifest.takes, &manifest.gives, &manifest.needs, &manifest.stacks}) {
    for (const std::string& name : *names) check_shown(name);
  }
  for (const auto& [trait, honoured] : manifest.traits) check_shown(trait);
  if (manifest.id.find('/') == std::string::npos) fail("an id without a lab");
  check_stamp(manifest.stamp);
  for (const OptionSpec& option : manifest.options) {
    check_shown(option.name);
    check_shown(option.help);
    for (const std::string& choice : option.choices) check_shown(choice);
  }
}

}  // namespace

Target target() {
  Target target;
  target.seeds = {file_of(kManifest),
                  changed("attention", "model"),
                  changed("lab/made", "lab/.."),
                  changed("floor", "\\u001b[31m"),
                  changed("made up", "a\\nb\\u202e"),
                  changed("causal", "\\u009b2J"),
                  changed("[{", "[" + kOptions + "{"),
                  changed("[{", R"([{"name":"deep","type":"int","default":[[[[[[0]]]]]]},{)"),
                  changed("\"help\"", "\"choices\":[\"a\\nb\"],\"help\""),
                  changed("\"type\":\"float\"", "\"type\":\"float\",\"range\":[1,0]"),
                  file_of("{}"),
                  file_of("[[[[[[[["),
                  file_of(""),
                  file_of(kManifest).substr(0, 100),
                  changed("GNU 12", "GNU 13\\n"),
                  schema_of_all() + "%%{n: 4, m: {first: {n: 2}, second: {}}, l: [1, .inf], s: b}",
                  schema_of_all() + "%%n: 10\ng: {n: x}\nb: yes\nf: '1.5'\nk: 1\n",
                  schema_of_all() + "%%n: ???\nm: [a]\n",
                  ""};
  target.words = {
      "\x7f"
      "ELF",
      ".attnlab.manifest",
      "\\u001b",
      "\"options\":[",
      "\"group\"",
      "\"map\"",
      "\"type\":\"",
      "{\"bits\":",
      "\"choices\":[",
      "\"low\":",
      "1e999",
      "\xff\xff\xff\xff\xff\xff\xff\xff",
      std::string(8, '\0'),
      "{\"id\":",
      "null",
      "%%",
      "???",
      "n: 1\n",
      "m: {a: {",
      "\"required\":true",
      "\"list\":true"};
  return target;
}

}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  static const fuzz::MemoryFolder folder;
  const std::string input(reinterpret_cast<const char*>(data), size);
  if (input.rfind('[', 0) == 0) return fuzz::resolve(input) ? 0 : -1;
  const std::string path = folder.write("made.so", input);
  try {
    fuzz::check_stamp(read_stamp(path));
  } catch (const PluginError&) {
    // seeds have none
  }
  try {
    fuzz::check_sound(read_manifest(path));
    return 0;
  } catch (const PluginError& error) {
    const std::string what = error.what();
    if (what.rfind(path + ": ", 0) == 0 && printable(what) == what) return -1;
    fuzz::fail("an error that does not name the file, or cannot be shown: " + what);
  }
}
