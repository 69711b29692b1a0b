#include "runner/sharing/workshop.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <iostream>

#include "framework/base/cores.h"
#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/manifest/discovery.h"
#include "framework/manifest/python_file.h"
#include "framework/sharing/expected.h"
#include "framework/sharing/foreign_json.h"
#include "runner/process.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using sharing::BundleError;

/// Libraries below a folder that confined code filled; links do not lead out of it.
std::vector<std::string> libraries_below(const std::string& root, const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  const std::string inside = fs::canonical(root, error).string() + "/";
  const fs::path start = fs::canonical(root + "/" + folder, error);
  if (error || start.string().rfind(inside, 0) != 0) return found;
  for (const auto& entry : fs::recursive_directory_iterator(start, error)) {
    const bool plain = fs::is_regular_file(fs::symlink_status(entry.path(), error));
    if (plain && entry.path().extension() == ".so") found.push_back(entry.path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// The last words of a log, for an error.
std::string tail(const std::string& log) { return printable(join(last_lines(log, 12), "\n")); }

/// Which checks failed, and why.
std::string failures_in(const json& report) {
  std::vector<std::string> failed;
  for (const json& check : report.at("checks")) {
    if (check.at("outcome") != "failed") continue;
    failed.push_back(fmt::format("{}: {}", check.at("check").get<std::string>(),
                                 one_line(check.at("message").get<std::string>(), 300)));
  }
  return join(failed, "; ");
}

/// Where the interpreter and its packages lie: a virtual environment, and what that was made of.
/// One of the system's lies in folders that are readable anyway.
std::vector<std::string> python_folders() {
  const fs::path program = python_program();
  if (!program.is_absolute()) return {};
  std::error_code error;
  std::vector<std::string> folders;
  for (const fs::path& one : {program, fs::canonical(program, error)}) {  // ROOT/bin/python
    const fs::path root = one.parent_path().parent_path();
    if (root.has_relative_path()) folders.push_back(root.string());
  }
  return folders;
}

std::string environment_folders(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

}  // namespace

void add_workshop_options(Usage& usage) {
  namespace po = boost::program_options;
  usage.options.add_options()("time-limit",
                              po::value<double>()->value_name("SECONDS")->default_value(300),
                              "time limit of one check; a build has 6 times as long")(
      "jobs", po::value<std::int64_t>()->value_name("N")->default_value(0),
      "compilers and checks at a time; 0: one per core")(
      "readable", po::value<Words>()->value_name("DIR")->multitoken()->composing(),
      "a further folder that the build may read, beside the system's");
}

WorkshopOptions workshop_options(const Arguments& arguments) {
  WorkshopOptions options;
  constexpr double kMost = 1e6;  // 100 times it is still what a clock counts
  options.check_limit = arguments.options["time-limit"].as<double>();
  if (!(options.check_limit > 0 && options.check_limit <= kMost)) {
    throw ConfigError(
        fmt::format("--time-limit: expected seconds above 0, at most {:.0f}, found {}", kMost,
                    shortest(options.check_limit)));
  }
  options.build_limit = 6 * options.check_limit;
  if (arguments.has("jobs")) options.jobs = arguments.options["jobs"].as<std::int64_t>();
  if (options.jobs < 0) throw ConfigError("--jobs: expected 0 or more");
  if (arguments.has("readable")) {
    for (const std::string& folder : arguments.options["readable"].as<Words>()) {
      if (!is_there(folder)) throw ConfigError("--readable " + folder + ": no such folder");
      options.readable.push_back(fs::absolute(folder).string());
    }
  }
  options.say = [](const std::string& line) { std::cerr << printable(line) << "\n"; };
  return options;
}

Workshop::Workshop(WorkshopOptions options)
    : options_(std::move(options)), root_(Installation::of_this_program().root) {
  if (options_.jobs <= 0) options_.jobs = available_cores();
}

sharing::Confinement Workshop::confinement(const std::string& folder,
                                           const std::string& log) const {
  for (const char* name : {"", "/home", "/tmp"}) sharing::make_folder(folder + name);
  sharing::Confinement all;
  all.folder = folder;
  all.log = log;
  all.readable = options_.readable;
  // The root itself may be ~/.local, with much beside attnlab in it.
  for (const char* name :
       {"bin", "lib", "include", "share/attnlab/configs", "share/attnlab/python"}) {
    all.readable.push_back(root_ + "/" + name);
  }
  for (std::string& one : python_folders()) all.readable.push_back(std::move(one));
  for (const char* variable : {"LibTorch_ROOT", "LIBTORCH_ROOT", "ATTNLAB_DATA"}) {
    if (environment_folders(variable).empty()) continue;
    const std::string path = fs::absolute(environment_folders(variable)).string();
    all.readable.push_back(path);
    all.environment[variable] = path;
  }
  all.stopped = interrupted;
  all.environment["HOME"] = folder + "/home";
  all.environment["TMPDIR"] = folder + "/tmp";
  all.environment["ATTNLAB_PLUGIN_PATH"] = "";
  all.environment["ATTNLAB_PYTHON"] = python_program();
  return all;
}

void Workshop::say_walls(const sharing::Walls& sandbox) {
  const std::lock_guard<std::mutex> lock(saying_);
  if (!said_walls_) options_.say(sandbox.text());
  said_walls_ = true;
}

sharing::ConfinedEnd Workshop::run(const std::vector<std::string>& words,
                                   const sharing::Confinement& confinement) {
  if (interrupted()) throw Interrupted();
  sharing::ConfinedEnd end = run_confined(words, confinement);
  if (end.stopped) throw Interrupted();
  say_walls(end.sandbox);
  return end;
}

std::string Workshop::build(const std::string& source, const std::string& work,
                            const std::string& log) {
  if (!fs::exists(root_ + "/lib/cmake/attnlab/attnlabConfig.cmake")) {
    throw ConfigError(fmt::format(
        "{}: this attnlab runs from its build tree, against which nothing is built: make install "
        "PREFIX=DIR, then use DIR/bin/attnlab",
        root_));
  }
  sharing::Confinement sandbox = confinement(work, log);
  sandbox.readable.push_back(source);
  sandbox.time_limit = options_.build_limit;
  sandbox.environment["SOURCE_DATE_EPOCH"] = "0";
  const std::string map =
      fmt::format("-ffile-prefix-map={}=. -ffile-prefix-map={}=.", source, work);
  sharing::ConfinedEnd end =
      run({"cmake", "-S", source, "-B", work, "-DCMAKE_PREFIX_PATH=" + root_,
           "-DCMAKE_CXX_FLAGS=" + map, "-DCMAKE_BUILD_RPATH_USE_ORIGIN=ON", "-DBUILD_TESTING=OFF"},
          sandbox);
  if (!end.ok()) throw BundleError(fmt::format("cmake: {}\n{}", end.text(), tail(log)));
  end = run({"cmake", "--build", work, "--parallel", std::to_string(options_.jobs)}, sandbox);
  if (!end.ok()) throw BundleError(fmt::format("the compiler: {}\n{}", end.text(), tail(log)));
  const std::vector<std::string> made = libraries_below(work, "lib/attnlab/plugins");
  if (made.size() == 1) return made.front();
  throw BundleError(fmt::format(
      "the build made {} plugins (with attnlab_add_plugin()), a bundle holds one", made.size()));
}

std::string Workshop::test(const std::string& library, const std::string& work,
                           const std::string& log, const std::vector<std::string>& options) {
  sharing::Confinement sandbox = confinement(work + "/kit", log);
  sandbox.readable.push_back(fs::path(library).parent_path().string());
  sandbox.output = work + "/kit.json";
  sandbox.time_limit = 100 * options_.check_limit;  // each check has its own limit
  std::error_code ignored;
  fs::remove(sandbox.output, ignored);
  std::vector<std::string> words = {root_ + "/bin/attnlab", "plugin", "test", library};
  words.insert(words.end(), options.begin(), options.end());
  for (const std::string& word :
       {std::string("--json"), std::string("--time-limit"), shortest(options_.check_limit),
        std::string("--jobs"), std::to_string(std::min<std::int64_t>(options_.jobs, 64))}) {
    words.push_back(word);
  }
  const sharing::ConfinedEnd end = run(words, sandbox);
  const std::string text = read_made(sandbox.output);
  const json report = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!report.is_object() || !report.contains("checks")) {
    throw BundleError(fmt::format("attnlab plugin test: {}\n{}", end.text(), tail(log)));
  }
  if (!end.ok()) throw BundleError("checks failed: " + failures_in(report));
  return text;
}

void Workshop::apply(const std::string& library, const std::string& id, const std::string& options,
                     const std::string& in, const std::string& out, const std::string& log) {
  const std::string folder = fs::path(out).parent_path().string();
  sharing::Confinement sandbox = confinement(folder, log);
  const std::string plugins = fs::path(library).parent_path().string();
  sandbox.readable.push_back(plugins);
  sandbox.readable.push_back(fs::path(in).parent_path().string());
  sandbox.environment["ATTNLAB_PLUGIN_PATH"] = plugins;
  sandbox.time_limit = options_.check_limit;
  std::vector<std::string> words = {
      root_ + "/bin/attnlab", "attention", "apply", "--use", id, "--in", in, "--out", out};
  const json given = sharing::parse_json(options);
  if (given.value("causal", false)) words.emplace_back("--causal");
  for (const json& option : given.value("options", json::array())) {
    words.emplace_back("--option");
    words.push_back(option.get<std::string>());
  }
  const sharing::ConfinedEnd end = run(words, sandbox);
  if (!end.ok()) {
    throw BundleError(fmt::format("attnlab attention apply: {}\n{}", end.text(), tail(log)));
  }
}

std::string Workshop::compare(const sharing::Bundle& bundle, const std::string& library,
                              const std::string& work, const std::string& log) {
  const std::vector<std::string> cases = sharing::expected_cases(bundle);
  if (cases.empty()) return "the bundle names no expected numbers";
  const auto out_of = [&](const std::string& name) {
    return fmt::format("{}/numbers/{}/result/out.safetensors", work, name);
  };
  const auto compute = [&](const std::string& name) {
    const std::string folder = work + "/numbers/" + name;
    sharing::write_files({{"in.safetensors", bundle.file(name + "/in.safetensors").bytes}}, folder);
    sharing::make_folder(folder + "/result");
    try {
      apply(library, bundle.contents.id.str(), bundle.file(name + "/options.json").bytes,
            folder + "/in.safetensors", out_of(name), log);
    } catch (const json::exception& wrong) {
      throw BundleError(fmt::format("{}/options.json: {}", name, one_line(wrong.what(), 200)));
    }
  };
  // Each is a process of its own, which needs most of a second to load LibTorch: as many at a time
  // as there are cores.
  const auto at_once = static_cast<std::size_t>(available_cores());
  for (std::size_t begin = 0; begin < cases.size(); begin += at_once) {
    std::vector<std::future<void>> running;
    for (std::size_t i = begin; i < std::min(begin + at_once, cases.size()); ++i) {
      running.push_back(std::async(compute, cases[i]));
    }
    for (std::future<void>& one : running) one.get();
  }
  double largest = 0;
  for (const std::string& name : cases) {
    const sharing::Deviation found = sharing::compare_tensors(
        bundle.file(name + "/out.safetensors").bytes, read_made(out_of(name)));
    if (!found.problem.empty()) throw BundleError(fmt::format("{}: {}", name, found.problem));
    largest = std::max(largest, found.largest);
  }
  return fmt::format("{} case(s) of expected numbers hold; the largest difference is {:.2g}",
                     cases.size(), largest);
}

std::string read_made(const std::string& path) {
  constexpr std::int64_t kLargest = std::int64_t{64} << 20;
  const int descriptor =
      ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  struct stat status {};
  const bool plain = descriptor >= 0 && ::fstat(descriptor, &status) == 0 &&
                     S_ISREG(status.st_mode) && status.st_size <= kLargest;
  std::string text(plain ? static_cast<std::size_t>(status.st_size) : 0, '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::read(descriptor, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  }
  if (descriptor >= 0) ::close(descriptor);
  if (plain && done == text.size()) return text;
  throw BundleError(
      fmt::format("{}: was not written as a regular file of at most {} MiB", path, kLargest >> 20));
}

/// Whether a file is used instead of the installed one of its id: by ATTNLAB_PLUGIN_PATH.
bool is_under_development(const Candidate& candidate, const Catalogue& catalogue) {
  const auto& places = catalogue.places();
  return std::any_of(places.begin(), places.end(), [&](const SearchPlace& place) {
    return place.why == "ATTNLAB_PLUGIN_PATH" && candidate.path.starts_with(place.folder + "/");
  });
}

void check_name_is_free(const Manifest& manifest, const sharing::Store& store) {
  std::error_code error;
  const std::string own =
      fs::weakly_canonical(store.places().installed(), error).string() + "/" + manifest.id + "/";
  // Also those that this attnlab refuses now: a rebuild would bring them back.
  const Catalogue catalogue = Catalogue::of_this_program();
  for (const Candidate& other : catalogue.candidates()) {
    if (!other.manifest || other.manifest->kind != manifest.kind) continue;
    if (other.manifest->name != manifest.name) continue;
    const std::string path = fs::weakly_canonical(plain_file(other.path), error).string();
    if (path.rfind(own, 0) == 0) continue;
    if (other.manifest->id == manifest.id && is_under_development(other, catalogue)) continue;
    throw BundleError(
        fmt::format("the name '{}' is taken by {} ({}); with both, neither could be used",
                    manifest.name, other.manifest->id, other.path));
  }
}

sharing::InstallTools Workshop::tools() {
  sharing::InstallTools tools;
  tools.host = read_stamp(Installation::of_this_program().library());
  tools.build = [this](const auto& source, const auto& work, const auto& log) {
    return build(source, work, log);
  };
  tools.test = [this](const auto& library, const auto& work, const auto& log) {
    return test(library, work, log);
  };
  tools.compare = [this](const auto& bundle, const auto& library, const auto& work,
                         const auto& log) { return compare(bundle, library, work, log); };
  tools.check_name = [](const Manifest& manifest, const std::string&) {
    check_name_is_free(manifest, sharing::Store(sharing::Places::of_this_user()));
  };
  return tools;
}

}  // namespace attnlab
