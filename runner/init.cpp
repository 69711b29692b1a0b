// attnlab init: a small project folder: an experiment, a suite, a README.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "framework/base/files.h"
#include "framework/base/text.h"
#include "runner/commands.h"
#include "runner/templates.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

struct ProjectFile {
  const char* path;
  std::string_view text;
};

/// @throws ConfigError naming every file that is there already: none is written then.
void refuse_what_is_there(const fs::path& folder, const std::vector<ProjectFile>& files) {
  std::vector<std::string> there;
  for (const ProjectFile& file : files) {
    std::error_code error;
    const fs::path path = folder / file.path;
    if (fs::exists(fs::symlink_status(path, error))) there.push_back(path.string());
  }
  if (there.empty()) return;
  throw ConfigError(fmt::format(
      "{}: there already, and nothing is overwritten; name another folder: attnlab init DIR",
      join(there, ", ")));
}

/// All of the files or none. @throws FileError.
void write_project(const fs::path& folder, const std::vector<ProjectFile>& files) {
  std::vector<fs::path> written;
  const auto take_back = [&] {
    std::error_code error;
    for (const fs::path& path : written) fs::remove(path, error);
  };
  try {
    for (const ProjectFile& file : files) {
      const fs::path path = folder / file.path;
      fs::create_directories(path.parent_path());
      write_file(path.string(), file.text);
      written.push_back(path);
    }
  } catch (const fs::filesystem_error& failure) {
    take_back();
    throw FileError(fmt::format("{}: cannot write: {}", folder.string(), failure.code().message()));
  } catch (const FileError&) {
    take_back();
    throw;
  }
}

}  // namespace

int init_command(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab init [DIR]";
  usage.about =
      "Writes a small project into DIR (default: the working folder): an experiment, a suite\n"
      "that compares two attentions on it, and a README with the first commands. It runs\n"
      "without changes, on made-up images. Nothing is overwritten.";
  usage.most_words = 1;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const std::string folder = arguments.words.empty() ? "." : arguments.words[0];
  if (folder.empty()) throw ConfigError("DIR is empty; leave it out, or name one");
  const std::vector<ProjectFile> files = {
      {"README.md", template_project_readme_md()},
      {".gitignore", "/runs/\n"},
      {"configs/experiments/first.yaml", template_project_experiment_yaml()},
      {"configs/suites/first_suite.yaml", template_project_suite_yaml()}};
  refuse_what_is_there(folder, files);
  write_project(folder, files);
  std::cout << fmt::format(
      "{}: an experiment (first), a suite (first_suite) and README.md, which says how to begin\n",
      folder);
  return kDone;
}

}  // namespace attnlab
