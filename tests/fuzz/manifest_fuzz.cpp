// Fuzzes the reader of plugins' files: ELF, section, manifest, stamp. Whatever the bytes, the
// answer is a manifest whose texts can be shown or a PluginError that names the file; no code is
// loaded.
// Code: framework/manifest/elf.cpp framework/manifest/manifest.cpp framework/manifest/schema.cpp
// Code: framework/base/foreign_text.cpp
#include "framework/base/foreign_text.h"
#include "framework/manifest/manifest.h"
#include "framework/manifest/manifest_writer.h"
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
    R"({"name":"f","type":"float","default":".inf","low":{"bits":4607182418800017408}},)"
    R"({"name":"l","type":"float","list":true,"default":[0.5,".nan",{"bits":1}]},)"
    R"({"name":"b","type":"bool","default":true},)"
    R"({"name":"s","type":"string","default":"a","choices":["a","b"]},)"
    R"({"name":"g","type":"group","options":[{"name":"n","type":"int","default":1}]},)"
    R"({"name":"m","type":"map","options":[{"name":"n","type":"int"}]},)";

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

void check_sound(const Manifest& manifest) {
  for (const std::string* text : {&manifest.id, &manifest.name, &manifest.version,
                                  &manifest.summary, &manifest.citation, &manifest.licence}) {
    check_shown(*text);
  }
  for (const auto* names : {&manifest.takes, &manifest.gives, &manifest.needs}) {
    for (const std::string& name : *names) check_shown(name);
  }
  for (const auto& [trait, honoured] : manifest.traits) check_shown(trait);
  if (manifest.id.find('/') == std::string::npos) fail("an id without a lab");
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
      "null"};
  return target;
}

}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  static const fuzz::MemoryFolder folder;
  const std::string path = folder.write("made.so", {reinterpret_cast<const char*>(data), size});
  try {
    read_stamp(path);
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
