// Hands a subcommand to the engine library, which brings LibTorch with it.
#include <map>
#include <memory>
#include <set>
#include <string>

#include "framework/base/installation.h"
#include "runner/commands.h"
#include "runner/load_engine.h"
#include "runner/usages.h"

namespace attnlab {
namespace {

/// Answers completion's question without the engine, where the usage is known here.
void answer_usage(const std::string& command, const Words& words) {
  static const std::map<std::string, Usage (*)()> usages = {
      {"run", run_usage},        {"eval", eval_usage},       {"sample", sample_usage},
      {"detect", detect_usage},  {"segment", segment_usage}, {"show", show_usage},
      {"probe", probe_usage},    {"match", match_usage},     {"data show", data_show_usage},
      {"summary", summary_usage}};
  const auto known = usages.find(command);
  if (words != Words{kAskUsage} || known == usages.end()) return;
  Usage usage = known->second();
  parse_arguments(words, usage);
}

}  // namespace

int engine_command(const std::string& command, const Words& words) {
  answer_usage(command, words);
  static const std::set<std::string> inspecting = {"show",      "detect",       "segment",
                                                   "data show", "plugin check", "study"};
  const Installation here = Installation::of_this_program();
  auto* entry = reinterpret_cast<int (*)(const std::string&, const Words&)>(
      load_engine(inspecting.count(command) > 0 ? here.inspection() : here.engine()));
  const std::unique_ptr<WorkWatch> watch = watch_work();
  return entry(command, words);
}

}  // namespace attnlab
