// attnlab new attention|model|task|dataset NAME: a folder that builds, tests, packs and passes the
// conformance kit as it is. attnlab new attention|model|dataset NAME --python: a file that does.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>

#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/manifest/discovery.h"
#include "runner/sharing_command.h"
#include "runner/templates.h"

namespace attnlab {
namespace {

namespace po = boost::program_options;
namespace fs = std::filesystem;

using Replacements = std::map<std::string, std::string>;

/// What a bundle's id may consist of (framework/sharing/names.h), and a C++ name can be made of.
/// (Classes and namespaces of it end in a word of ours, so that "class" and "std" are names, too.)
void check_word(const std::string& word, const std::string& what) {
  const auto allowed = [](unsigned char c) {
    return std::islower(c) || std::isdigit(c) || c == '_';
  };
  const bool begins = !word.empty() && std::islower(static_cast<unsigned char>(word[0])) != 0;
  if (begins && word.size() <= 64 && std::all_of(word.begin(), word.end(), allowed)) return;
  throw ConfigError(fmt::format("{} '{}': expected a-z, 0-9 and _, a letter first", what, word));
}

/// "learned_temperature" as "LearnedTemperature", with a blank between the words where asked for.
std::string camel(const std::string& name, const std::string& between = "") {
  std::string out;
  bool begin = true;
  for (const char c : name) {
    if (c == '_') {
      begin = true;
      continue;
    }
    if (begin && !out.empty()) out += between;
    out += begin ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    begin = false;
  }
  return out;
}

std::string filled(std::string_view text, const Replacements& words) {
  std::string out(text);
  for (const auto& [mark, word] : words) {
    for (std::size_t at = 0; (at = out.find(mark, at)) != std::string::npos; at += word.size()) {
      out.replace(at, mark.size(), word);
    }
  }
  return out;
}

/// A name that others can write after `use:`, and that no plugin has on this machine.
void check_is_free(const std::string& kind, const std::string& name) {
  static const std::set<std::string> values = {"null", "true", "false", "yes", "no", "on", "off"};
  if (values.count(name) > 0) {
    throw ConfigError(fmt::format("NAME '{}': is a value in YAML, where plugins are named", name));
  }
  const Catalogue catalogue = Catalogue::of_this_program();
  for (const Candidate& other : catalogue.candidates()) {
    if (!other.manifest || other.manifest->name != name || name_of(other.manifest->kind) != kind) {
      continue;
    }
    throw ConfigError(
        fmt::format("NAME '{}': is taken by {} ({}); with both, neither could be used", name,
                    other.manifest->id, other.path));
  }
}

std::string this_year() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  return std::to_string(parts.tm_year + 1900);
}

std::pair<std::string_view, std::string_view> sources_of(const std::string& kind) {
  if (kind == "attention") return {template_attention_plugin_cpp(), template_attention_test_cpp()};
  if (kind == "model") return {template_model_plugin_cpp(), template_model_test_cpp()};
  if (kind == "task") return {template_task_plugin_cpp(), template_task_test_cpp()};
  if (kind == "dataset") return {template_dataset_plugin_cpp(), template_dataset_test_cpp()};
  throw ConfigError(fmt::format("unknown kind '{}'{}", kind,
                                suggestion(kind, {"attention", "model", "task", "dataset"})));
}

/// Files by their paths in the folder.
std::map<std::string, std::string> files_of(const std::string& kind, const std::string& name,
                                            const Replacements& words) {
  const auto [plugin, test] = sources_of(kind);
  std::map<std::string, std::string> files = {
      {"CMakeLists.txt", filled(template_common_cmakelists_txt(), words)},
      {"README.md", filled(template_common_readme_md(), words)},
      {"CITATION.cff", filled(template_common_citation_cff(), words)},
      {".gitignore", filled(template_common_gitignore(), words)},
      {".github/workflows/ci.yml", filled(template_common_ci_yml(), words)},
      {"LICENSE", std::string(template_licence())}};
  files[name + ".cpp"] = filled(plugin, words);
  files["tests/" + name + "_test.cpp"] = filled(test, words);
  files["configs/" + name + ".yaml"] = filled(template_common_config_yaml(), words);
  return files;
}

/// A folder's path without slashes at its end, behind which no name would stand beside it.
std::string place_of(const std::string& given) {
  const fs::path path = fs::path(given).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).string();
}

/// Written beside its place first: the folder appears whole.
void write_folder(const std::string& folder, const std::map<std::string, std::string>& files) {
  const std::string making = fmt::format("{}.new-{}", folder, static_cast<long>(::getpid()));
  std::error_code error;
  if (fs::exists(fs::symlink_status(folder, error))) {
    throw ConfigError(fmt::format("{}: is there already; name another folder with --out", folder));
  }
  try {
    for (const auto& [path, text] : files) {
      const fs::path file = fs::path(making) / path;
      fs::create_directories(file.parent_path());
      write_file(file.string(), text);
    }
    fs::rename(making, folder);
  } catch (const fs::filesystem_error& failure) {
    fs::remove_all(making, error);
    throw FileError(fmt::format("{}: cannot write: {}", folder, failure.code().message()));
  } catch (const FileError&) {
    fs::remove_all(making, error);
    throw;
  }
}

std::string_view python_source_of(const std::string& kind) {
  if (kind == "attention") return template_attention_plugin_py();
  if (kind == "model") return template_model_plugin_py();
  if (kind == "dataset") return template_dataset_plugin_py();
  throw ConfigError(
      "--python: a task cannot be a Python file; models, datasets and attentions can");
}

/// A Python file that is a plugin, and what to do with it.
int write_python(const std::string& kind, const std::string& file, const Replacements& words) {
  const std::string text = filled(python_source_of(kind), words);
  std::error_code error;
  if (fs::exists(fs::symlink_status(file, error))) {
    throw ConfigError(fmt::format("{}: is there already; name another file with --out", file));
  }
  write_file(file, text);
  std::cout << fmt::format(
      "{0}: {1} {2} in one file; change it, then\n"
      "  attnlab describe {0}\n"
      "  attnlab plugin test {0}\n"
      "  attnlab run {3} {2}={0}\n",
      shell_word(file), kind == "attention" ? "an" : "a", kind,
      kind == "attention" ? "vit_synthetic" : "EXPERIMENT");
  return kDone;
}

}  // namespace

int new_command(const Words& words) {
  Usage usage;
  usage.synopsis =
      "attnlab new attention|model|task|dataset NAME [--lab LAB] [--out DIR]\n"
      "       attnlab new attention|model|dataset NAME --python [--out FILE]";
  usage.about =
      "Writes a folder with a new plugin: source, test, CMake file, README, licence and a CI\n"
      "file. It builds against an installed attnlab, passes attnlab plugin test, and attnlab\n"
      "plugin pack makes one file of it. Change it into your own plugin. With --python the\n"
      "plugin is one file, which needs no compiler (docs/python.md).";
  usage.options.add_options()("lab",
                              po::value<std::string>()->value_name("LAB")->default_value("mylab"),
                              "the part before the slash of its id")(
      "out", po::value<std::string>()->value_name("DIR"),
      "the folder; default: ./NAME. With --python the file; default: ./NAME.py")(
      "python", "an attention, a model or a dataset in one Python file");
  usage.fewest_words = usage.most_words = 2;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const std::string kind = arguments.words[0], name = arguments.words[1];
  const std::string lab = arguments.text("lab", "");
  sources_of(kind);
  check_word(name, "NAME");
  check_word(lab, "--lab");
  if (lab == "attnlab") throw ConfigError("--lab attnlab: is attnlab's own; name yours");
  const bool python = arguments.has("python");
  if (!python) check_is_free(kind, name);
  const std::string folder = place_of(arguments.text("out", name));
  const Replacements replacements = {{"@NAME@", name},
                                     {"@LAB@", lab},
                                     {"@SPACE@", lab + "_plugins"},
                                     {"@KIND@", kind},
                                     {"@CLASS@", camel(name + "_" + kind)},
                                     {"@YEAR@", this_year()},
                                     {"@TITLE@", camel(name, " ")}};
  if (python) return write_python(kind, arguments.text("out", name + ".py"), replacements);
  const auto files = files_of(kind, name, replacements);
  write_folder(folder, files);
  std::cout << fmt::format("{}: {} files; begin with {}.cpp, README.md says how to build it\n",
                           folder, files.size(), name);
  return kDone;
}

}  // namespace attnlab
