// attnlab doctor: what this installation, this machine and this folder give a run, on one page, and
// what is wrong with them.
//
// LibTorch is asked in a process of its own (runner/engine/doctor.cpp), so that the page comes also
// where LibTorch cannot be loaded.
#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "framework/base/blas.h"
#include "framework/base/cache_folder.h"
#include "framework/base/cores.h"
#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/json.h"
#include "framework/base/limits.h"
#include "framework/base/revision.h"
#include "framework/base/text.h"
#include "framework/experiment/installed.h"
#include "framework/runs/run_lock.h"
#include "framework/runs/run_search.h"
#include "runner/commands.h"
#include "runner/process.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
// In the order in which things are put in: the page's order.
using Page = nlohmann::ordered_json;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The page, and what is wrong.
class Findings {
 public:
  Page& section(const char* name) { return page_[name]; }
  /// What keeps attnlab, or a part of it, from working as it should: the exit code says so, too.
  void problem(const std::string& what, const std::string& remedy) {
    page_["problems"].push_back({{"what", what}, {"remedy", remedy}});
  }
  Page page() const {
    Page whole = page_;
    whole["problems"] = page_.value("problems", Page::array());
    return whole;
  }

 private:
  Page page_ = Page::object();
};

void examine_versions(Findings& out) {
  const Installation installation = Installation::of_this_program();
  const Stamp built = read_stamp(installation.library());
  Page& attnlab = out.section("attnlab");
  attnlab = {{"version", ATTNLAB_VERSION},
             {"revision", framework_revision()},
             {"contract", built.at("contract")},
             {"build", fmt::format("{}, {}", built.at("build"), built.at("compiler"))},
             {"folder", installation.root}};
}

/// What the engine says of itself; null where it cannot start, and without `data` where a plugin
/// keeps it from looking for them.
nlohmann::json ask_engine(Findings& out) {
  constexpr int kMostSeconds = 120;
  const ScratchFolder scratch;
  const std::string log = scratch.file("log");
  nlohmann::json answer;
  std::string asked = "none";  // the last dataset whose plugin was asked
  const ProcessResult result = run_self({"doctor", "--engine"}, log,
                                        [&](const std::string& line) {
                                          nlohmann::json read = nlohmann::json::parse(
                                              line, nullptr, /*allow_exceptions=*/false);
                                          if (!read.is_object()) return;
                                          if (read.contains("asks")) asked = read["asks"].dump();
                                          if (read.contains("libtorch")) answer = std::move(read);
                                        },
                                        {.time_limit = kMostSeconds});
  if (result.ok() && answer.is_object() && answer.contains("data")) return answer;
  std::string said = log_tail(log, 20);
  if (result.signal != 0 || result.timed_out) {
    said += said.empty() ? "" : "; ";
    said += result.timed_out ? fmt::format("no end after {} s", kMostSeconds)
                             : signal_text(result.signal);
  }
  if (said.empty()) said = "it says nothing";
  if (answer.is_object()) {
    out.problem(fmt::format("a plugin fails while data are looked for; the last dataset that was "
                            "asked is {}: {}",
                            asked, said),
                "take that dataset's plugin, or its composition, out of its folder, or repair it");
    return answer;
  }
  out.problem("LibTorch cannot be loaded: " + said,
              "install LibTorch and what else third_party/README.md lists, then build attnlab "
              "again; where memory or threads are too few, raise their limit");
  return nullptr;
}

void examine_blas(const nlohmann::json& blas, Findings& out) {
  const std::string file = blas.at("file"), kernels = blas.at("kernels"),
                    threads = blas.at("threads");
  Page& section = out.section("BLAS");
  section["file"] = file.empty() ? "part of LibTorch" : file;
  if (!kernels.empty()) section["openblas_kernels"] = kernels;
  if (!threads.empty()) section["openblas_threads"] = threads;
  if (threads == "pthreads") {
    out.problem(
        fmt::format("{}: this OpenBLAS starts threads of its own, which take LibTorch's cores: a "
                    "step of training takes about three times as long",
                    file),
        "take the OpenMP build: scripts/setup.sh does it (Debian: libopenblas0-openmp)");
  }
  if (kernels.empty() && fs::path(file).parent_path().filename() == "blas") {
    out.problem(fmt::format("{}: this is the reference BLAS, many times slower than others", file),
                "take OpenBLAS: scripts/setup.sh does it (Debian: libopenblas0-openmp)");
  }
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const std::string better = better_blas_core(kernels, avx2, false);
  if (!better.empty() && variable("ATTNLAB_CPU").empty()) {
    out.problem(fmt::format("OpenBLAS computes with kernels for {}, without AVX2, which this "
                            "processor has",
                            kernels),
                fmt::format("unset OPENBLAS_CORETYPE, or set it to {}", better));
  }
#endif
}

/// How OpenMP's threads wait for each other, as run_command's process is told (load_engine.cpp).
std::string wait_policy() {
  const std::string policy = variable("OMP_WAIT_POLICY"), turns = variable("GOMP_SPINCOUNT");
  if (!policy.empty()) return policy + " (OMP_WAIT_POLICY)";
  return turns.empty() ? "spin for 4000 turns, then sleep"
                       : fmt::format("spin for {} turns, then sleep (GOMP_SPINCOUNT)", turns);
}

void examine_threads(Findings& out) {
  Page& section = out.section("threads");
  const double quota = core_quota();
  const std::string asked = variable("OMP_NUM_THREADS");
  section["usable_cores"] = usable_cores().size();
  if (std::isfinite(quota)) section["cores_of_control_group"] = quota;
  if (!asked.empty()) section["OMP_NUM_THREADS"] = asked;
  section["threads_of_a_run"] = available_cores();
  section["waiting_threads"] = wait_policy();
  if (const std::string limits = thread_limits(); !limits.empty()) section["limits"] = limits;
  std::string policy = variable("OMP_WAIT_POLICY");
  std::transform(policy.begin(), policy.end(), policy.begin(), ::tolower);
  if (policy == "active") {
    out.problem(
        "OMP_WAIT_POLICY=active: waiting threads hold their cores, so a run beside other "
        "work is many times slower",
        "unset OMP_WAIT_POLICY, or set it to passive");
  }
  if (!asked.empty() && std::strtoll(asked.c_str(), nullptr, 10) <= 0) {
    out.problem(fmt::format("OMP_NUM_THREADS={}: is not a number of threads", asked),
                "unset it, or set it to a number from 1");
  }
}

/// A value of /proc/meminfo, in bytes.
std::int64_t memory_of(const std::string& key) {
  std::ifstream in("/proc/meminfo");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key + ":")) continue;
    return std::strtoll(line.c_str() + key.size() + 1, nullptr, 10) * 1024;
  }
  return 0;
}

std::string gibibytes(double bytes) { return fmt::format("{:.1f} GiB", bytes / (1 << 30)); }

/// Memory and disks. @param folders  where attnlab writes
void examine_room(const std::vector<std::string>& folders, Findings& out) {
  constexpr double kLittle = 1 << 30;
  Page& memory = out.section("memory");
  const auto available = static_cast<double>(memory_of("MemAvailable"));
  memory["of_the_machine"] = gibibytes(static_cast<double>(memory_of("MemTotal")));
  memory["available"] = gibibytes(available);
  if (const std::string limits = memory_limits(); !limits.empty()) memory["limits"] = limits;
  if (available < kLittle) {
    out.problem(fmt::format("{} of memory are left", gibibytes(available)),
                "end other programs; a run needs some GiB");
  }
  Page& disk = out.section("disk");
  for (const std::string& folder : folders) {
    struct statvfs found {};
    fs::path there = fs::absolute(folder);
    while (::statvfs(there.c_str(), &found) != 0 && there.has_relative_path()) {
      there = there.parent_path();
    }
    const double bytes = double(found.f_bavail) * double(found.f_frsize);
    disk[folder] = gibibytes(bytes) + " free";
    if (bytes < kLittle) {
      out.problem(fmt::format("{}: {} are left on its disk", folder, gibibytes(bytes)),
                  "remove what is not needed; `--out` writes runs elsewhere, XDG_CACHE_HOME moves "
                  "the cache");
    }
  }
}

/// The GPUs that the driver knows, "NAME, MEMORY, driver VERSION" each.
std::vector<std::string> gpus_here() {
  const Captured answer = capture(
      {"nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"});
  std::vector<std::string> all;
  if (!answer.ok()) return all;
  std::istringstream lines(answer.out);
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  return all;
}

void examine_gpus(const nlohmann::json& engine, Findings& out) {
  Page& section = out.section("CUDA");
  const std::string built = read_stamp(Installation::of_this_program().library()).at("cuda");
  const std::vector<std::string> gpus = gpus_here();
  section["LibTorch"] = built.empty() ? "built without CUDA" : "CUDA " + built;
  section["GPUs"] = gpus.empty() ? Page("none") : Page(gpus);
  if (!engine.is_object() || gpus.empty()) return;
  if (built.empty()) {
    out.problem("there is a GPU, and this LibTorch is built without CUDA: every run uses the CPU",
                "build attnlab against a LibTorch with CUDA (docs/guide.md)");
  } else if (engine.at("libtorch").at("gpus") == 0) {
    out.problem("there is a GPU, and LibTorch cannot use it",
                "install a driver that is new enough for CUDA " + built +
                    "; in a container, hand the GPU in");
  }
}

void examine_python(Findings& out) {
  const Captured answer = capture({"python3", "-c", R"(
import sys
sys.path = [folder for folder in sys.path if folder]  # not the working folder's modules
import importlib.metadata as m, platform
def version(name):
    try: return m.version(name)
    except m.PackageNotFoundError: return "not installed"
print(sys.executable, platform.python_version(), version("attnlab"), version("torch"), sep="\n"))"});
  Page& section = out.section("Python");
  std::istringstream lines(answer.out);
  std::string value;
  for (const char* name : {"program", "version", "package_attnlab", "package_torch"}) {
    if (std::getline(lines, value)) section[name] = value;
  }
  if (!answer.ok()) section["program"] = "none (attnlab needs none)";
}

void examine_data(const nlohmann::json& engine, Findings& out) {
  Page& section = out.section("data");
  const std::string root = variable("ATTNLAB_DATA");
  section["ATTNLAB_DATA"] = root.empty() ? "is not set" : root;
  std::error_code error;
  if (!root.empty() && !fs::is_directory(root, error)) {
    out.problem(fmt::format("ATTNLAB_DATA={}: there is no such folder", root),
                "correct ATTNLAB_DATA, or make the folder and put data below it");
  }
  if (!engine.is_object() || !engine.contains("data")) return;
  section["found"] = section["missing"] = Page::object();
  for (const nlohmann::json& one : engine.at("data")) {
    const bool found = one.contains("folder");
    const std::string name = one.at("name");
    section[found ? "found" : "missing"][name] = one.at(found ? "folder" : "remedy");
  }
}

void examine_plugins(Findings& out) {
  Page& section = out.section("plugins");
  Catalogue catalogue = catalogue_of_installed();
  section["folders"] = Page::object();
  for (const SearchPlace& place : catalogue.places()) {
    const auto count = std::count_if(
        catalogue.candidates().begin(), catalogue.candidates().end(), [&](const Candidate& one) {
          return one.refused.empty() && one.path.starts_with(place.folder + "/");
        });
    section["folders"][place.folder] = place.exists
                                           ? fmt::format("{} plugins ({})", count, place.why)
                                           : fmt::format("is not there ({})", place.why);
  }
  std::map<std::string, std::vector<std::string>> refused;  // paths by the reason
  for (const Candidate& candidate : catalogue.candidates()) {
    if (candidate.refused.empty()) continue;
    section["refused"].push_back(candidate.path);
    const std::string prefix = candidate.path + ": ";
    const std::string& why = candidate.refused;
    refused[why.starts_with(prefix) ? why.substr(prefix.size()) : why].push_back(candidate.path);
  }
  for (const auto& [why, paths] : refused) {
    const std::string others =
        paths.size() > 1 ? fmt::format(" and {} more", paths.size() - 1) : "";
    out.problem(fmt::format("refused: {}{}: {}", paths.front(), others, why),
                "do what the reason says, or take the file out of the folder");
  }
}

/// @param named  whether the user named the folder
void examine_runs(const std::string& folder, bool named, Findings& out) {
  Page& section = out.section("runs");
  section["folder"] = folder;
  std::error_code error;
  if (!named && !fs::is_directory(folder, error)) {
    section["folder"] = folder + " (is not there)";
    return;
  }
  try {
    const FoundFolders found = search_folders(folder);
    section["finished_or_begun"] = found.runs.size();
    for (const std::string& run : found.runs) {
      const auto holder = holder_of(run);
      if (!holder) continue;
      section["held"][run] =
          fmt::format("by {}; wait for its end, or stop it (kill {}): it goes on with --resume",
                      holder->text(), holder->pid);
    }
    for (const Unreadable& one : found.unreadable) {
      out.problem(one.text(), "correct its permissions, or remove the folder and run it again");
    }
  } catch (const Error& problem) {
    if (named) throw;
    section["finished_or_begun"] = one_line(problem.what());
  }
}

// ---- the page as text

/// @param name      of JSON: "usable_cores"; names of variables stay as they are
/// @param a_folder  the name is one of a folder, and stays, too
void print_value(std::string name, bool a_folder, const Page& value, std::size_t width) {
  if (!a_folder && name[0] >= 'a') std::replace(name.begin(), name.end(), '_', ' ');
  const std::string indent(width + 4, ' ');
  std::string label = fmt::format("  {:<{}}", name, width + 2);
  const auto line = [&](const std::string& text) {
    std::cout << label << one_line(text, kLongestMessageLine) << "\n";
    label = indent;
  };
  if (value.is_object()) {
    for (const auto& [key, one] : value.items()) line(key + ": " + one.get<std::string>());
  } else if (value.is_array()) {
    for (const Page& one : value) line(one.get<std::string>());
  } else {
    line(value.is_string() ? value.get<std::string>() : value.is_null() ? "none" : value.dump());
  }
}

void print_page(const Page& page) {
  for (const auto& [name, section] : page.items()) {
    if (name == "problems") continue;
    std::cout << name << "\n";
    std::size_t width = 0;
    for (const auto& [key, value] : section.items()) width = std::max(width, key.size());
    for (const auto& [key, value] : section.items()) {
      print_value(key, name == "disk", value, width);
    }
  }
  const Page& problems = page.at("problems");
  std::cout << (problems.empty() ? "\nNothing is wrong.\n" : "\nWrong:\n");
  for (std::size_t i = 0; i < problems.size(); ++i) {
    std::cout << fmt::format("{}. {}\n   Remedy: {}\n", i + 1,
                             message_text(problems[i].at("what").get<std::string>()),
                             problems[i].at("remedy").get<std::string>());
  }
}

}  // namespace

int doctor_command(const Words& words) {
  if (words == Words{"--engine"}) return engine_command("doctor", {});  // asked by this command
  Usage usage;
  usage.synopsis = "attnlab doctor [DIR] [--json]";
  usage.about =
      "Shows on one page what a run finds on this machine: versions, LibTorch and where it\n"
      "comes from, BLAS and its kernels, instruction sets, threads, memory and their limits,\n"
      "CUDA, Python, data that are here or missing, plugin folders, active runs below DIR\n"
      "(default: runs), and disk space. Problems stand at the end, each with its remedy.\n"
      "Missing data and active runs are not problems. Exit code 1: there are problems.";
  usage.options.add_options()("json", "print JSON");
  usage.most_words = 1;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const bool named = !arguments.words.empty();
  const std::string runs = named ? arguments.words[0] : "runs";
  Findings out;
  examine_versions(out);
  const nlohmann::json engine = ask_engine(out);
  if (engine.is_object()) {
    const nlohmann::json& torch = engine.at("libtorch");
    out.section("LibTorch") = {{"version", torch.at("version")}, {"file", torch.at("file")}};
    out.section("LibTorch")["OpenMP"] = torch.at("openmp");
    examine_blas(engine.at("blas"), out);
    out.section("processor") = {{"name", engine.at("machine").at("cpu")},
                                {"kernels", engine.at("kernels")},
                                {"libtorch", torch.at("instructions")}};
  }
  examine_threads(out);
  std::vector<std::string> written = {runs};
  if (const std::string cache = cache_folder(); !cache.empty()) written.push_back(cache);
  examine_room(written, out);
  const auto attempt = [&](const auto& examine) {
    try {
      examine();
    } catch (const Error& error) {
      out.problem(error.what(), "as the text says");
    }
  };
  attempt([&] { examine_gpus(engine, out); });
  attempt([&] { examine_python(out); });
  attempt([&] { examine_data(engine, out); });
  attempt([&] { examine_plugins(out); });
  examine_runs(runs, named, out);
  const Page page = out.page();
  if (arguments.has("json")) {
    std::cout << page.dump(2, ' ', false, Page::error_handler_t::replace) << "\n";
  } else {
    print_page(page);
  }
  return page.at("problems").empty() ? kDone : kRunFailed;
}

}  // namespace attnlab
