// Hands a subcommand to the engine library, which brings LibTorch with it.
#include <dlfcn.h>

#include <map>

#include "framework/base/blas.h"
#include "framework/base/processor.h"
#include "framework/manifest/discovery.h"
#include "runner/commands.h"
#include "runner/usages.h"

namespace attnlab {
namespace {

/// Answers completion's question without the engine, where the usage is known here.
void answer_usage(const std::string& command, const Words& words) {
  static const std::map<std::string, Usage (*)()> usages = {
      {"run", run_usage},       {"eval", eval_usage},          {"sample", sample_usage},
      {"detect", detect_usage}, {"show", show_usage},          {"probe", probe_usage},
      {"match", match_usage},   {"data show", data_show_usage}};
  const auto known = usages.find(command);
  if (words != Words{kAskUsage} || known == usages.end()) return;
  Usage usage = known->second();
  parse_arguments(words, usage);
}

}  // namespace

void* load_engine() {
  hold_libraries_to_instruction_set();  // before they are loaded
  use_fitting_blas(system_blas_core());
  const std::string path = Installation::of_this_program().engine();
  void* engine = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (engine == nullptr) throw PluginError("cannot load the engine: " + std::string(::dlerror()));
  void* entry = ::dlsym(engine, "attnlab_engine");
  if (entry == nullptr) throw PluginError(path + ": is not an engine; install attnlab again");
  return entry;
}

int engine_command(const std::string& command, const Words& words) {
  answer_usage(command, words);
  using Entry = int(const std::string&, const Words&);
  return reinterpret_cast<Entry*>(load_engine())(command, words);
}

}  // namespace attnlab
