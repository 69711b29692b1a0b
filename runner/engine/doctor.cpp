// What `attnlab doctor` asks of the engine: LibTorch as it was loaded, and the data that are here.
// Prints lines of JSON: all but the data, the name of each dataset whose plugin is asked, and all.
// So it is known what is at fault where a plugin ends the process.
#include <ATen/Context.h>
#include <ATen/Version.h>
#include <dlfcn.h>
#include <link.h>
#include <torch/version.h>

#include <filesystem>
#include <iostream>
#include <set>

#include "framework/base/json.h"
#include "framework/base/parsed_json.h"
#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/data/formats/detail/look_only.h"
#include "framework/experiment/compositions.h"
#include "framework/host/registry.h"
#include "framework/nn/kernels/dispatch.h"
#include "framework/tensor/blas.h"
#include "framework/tensor/device.h"
#include "framework/train/environment.h"
#include "runner/engine/engine.h"

namespace attnlab {
namespace {

using nlohmann::json;

/// The loaded library whose file's name begins so; empty: there is none.
std::string loaded_library(const std::string& name) {
  struct Search {
    std::string name, path;
  } search{name, ""};
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& wanted = *static_cast<Search*>(data);
        const std::filesystem::path path = info->dlpi_name;
        if (!path.filename().string().starts_with(wanted.name)) return 0;
        wanted.path = path;
        return 1;
      },
      &search);
  std::error_code error;
  const std::string whole = std::filesystem::canonical(search.path, error);
  return error ? search.path : whole;
}

/// The file that LibTorch's matrix products come from.
std::string blas_file() {
  Dl_info info{};
  void* const product = ::dlsym(RTLD_DEFAULT, "sgemm_");
  if (product == nullptr || ::dladdr(product, &info) == 0) return "";
  std::error_code error;
  const std::string whole = std::filesystem::canonical(info.dli_fname, error);
  return error ? info.dli_fname : whole;
}

/// With what OpenBLAS starts its threads; empty for another BLAS.
std::string blas_threading() {
  const auto ask = reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, "openblas_get_parallel"));
  if (ask == nullptr) return "";
  constexpr const char* kNames[] = {"none", "pthreads", "OpenMP"};
  const int answer = ask();
  return answer >= 0 && answer < 3 ? kNames[answer] : "";
}

/// Which instruction set LibTorch's own kernels use: "AVX2".
std::string libtorch_instructions() {
  const std::string config = at::show_config(), key = "CPU capability usage: ";
  const std::size_t at = config.find(key);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + key.size();
  return config.substr(begin, config.find('\n', begin) - begin);
}

json of_libtorch() {
  json omp;
  for (const char* name : {"libgomp", "libiomp5", "libomp"}) {
    if (const std::string path = loaded_library(name); !path.empty()) omp.push_back(path);
  }
  return {
      {"version", TORCH_VERSION},
      {"file", loaded_library("libtorch_cpu")},
      {"instructions", libtorch_instructions()},
      {"openmp", omp},
      {"gpus", at::globalContext().hasCUDA() ? int{at::detail::getCUDAHooks().getNumGPUs()} : 0}};
}

/// Sections `dataset:` of the compositions that are known here, by what people call them.
std::vector<std::pair<std::string, Node>> dataset_sections() {
  std::vector<std::pair<std::string, Node>> all;
  for (const char* folder : {"datasets", "experiments"}) {
    for (const auto& [name, files] : compositions(folder)) {
      try {
        Node root = compose_file(files.front());
        const Node* section = folder[0] == 'd' ? &root : root.find("dataset");
        if (section != nullptr && section->is_map()) all.emplace_back(name, *section);
      } catch (const Error&) {  // `validate` says what is wrong with it
      }
    }
  }
  return all;
}

/// Where the files of a dataset are, or what is missing; null where it reads none.
json look_for(const std::string& name, const Node& section, Registry& registry) try {
  Node composed = Node::map(), resolved;
  composed.set("dataset", section);
  Part part;
  Problems problems;
  const Manifest* manifest =
      resolve_part(composed, Kind::dataset, registry.catalogue(), part, resolved, problems);
  if (manifest == nullptr || part.options.find("root") == nullptr) return nullptr;
  const PluginEntry& entry = registry.load(Kind::dataset, part.id);
  const LookOnly look_only;
  entry.dataset(part.options, {RandomStreams(0)});
  return nullptr;
} catch (const DataFound& found) {
  return {{"name", name}, {"folder", found.folder}};
} catch (const DataMissingError& error) {
  const std::string text = error.what();
  return {{"name", name}, {"missing", text}, {"remedy", text.substr(text.rfind('\n') + 1)}};
} catch (const std::exception&) {  // such as a section that a user has to fill in
  return nullptr;
}

void print_answer(const json& line) { std::cout << "\n" << json_text(line, -1) << std::endl; }

json of_data() {
  Registry registry(Catalogue::of_this_program());
  json all = json::array();
  std::set<std::string> known;  // folders and texts
  for (const auto& [name, section] : dataset_sections()) {
    print_answer({{"asks", name}});
    json one = look_for(name, section, registry);
    if (one.is_null()) continue;
    if (known.insert(one.contains("folder") ? one["folder"] : one["missing"]).second) {
      all.push_back(std::move(one));
    }
  }
  return all;
}

}  // namespace

int doctor_engine_command(const Words&) {
  json out = {
      {"machine", json::parse(machine_json())},
      {"libtorch", of_libtorch()},
      {"blas", {{"file", blas_file()}, {"kernels", blas_core()}, {"threads", blas_threading()}}}};
  hold_kernels();
  out["kernels"] = kernels_run_with();
  print_answer(out);
  out["data"] = of_data();
  print_answer(out);
  return kDone;
}

}  // namespace attnlab
