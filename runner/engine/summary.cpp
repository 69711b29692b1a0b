// attnlab describe EXPERIMENT --summary: the model of an experiment, module by module.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "framework/base/foreign_text.h"
#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/document/text.h"
#include "framework/train/costs.h"
#include "framework/train/environment.h"
#include "runner/engine/engine.h"
#include "runner/engine/open_run.h"
#include "runner/usages.h"

namespace attnlab {
namespace {

/// A module of a model, with the modules in it.
struct ModuleSummary {
  std::string name;             ///< within its parent; "0-5" for six of a kind one after the other
  std::string kind;             ///< its class
  std::string shapes;           ///< of its own parameters: "weight [64, 192] bias [192]"
  std::int64_t parameters = 0;  ///< in it and in what it holds, of all that repeat
  std::int64_t repeats = 1;
  std::vector<ModuleSummary> parts;

  /// Whether it has what another has, whatever their names.
  bool is_like(const ModuleSummary& other) const {
    return kind == other.kind && shapes == other.shapes &&
           std::equal(parts.begin(), parts.end(), other.parts.begin(), other.parts.end(),
                      [](const ModuleSummary& a, const ModuleSummary& b) {
                        return a.name == b.name && a.is_like(b);
                      });
  }
};

/// "attnlab::(anonymous namespace)::ViT" without its namespaces.
std::string class_of(const torch::nn::Module& module) {
  const std::string& name = module.name();
  const std::size_t colon = name.rfind("::", name.find('<'));
  return colon == std::string::npos ? name : name.substr(colon + 2);
}

ModuleSummary summary_of(const std::string& name, const torch::nn::Module& module) {
  ModuleSummary out{name, class_of(module), {}, 0, 1, {}};
  for (const auto& own : module.named_parameters(/*recurse=*/false)) {
    if (!out.shapes.empty()) out.shapes += ' ';
    out.shapes += own.key() + " [";
    for (std::int64_t i = 0; i < own.value().dim(); ++i) {
      out.shapes += (i > 0 ? ", " : "") + std::to_string(own.value().size(i));
    }
    out.shapes += ']';
    out.parameters += own.value().numel();
  }
  for (const auto& child : module.named_children()) {
    ModuleSummary part = summary_of(child.key(), *child.value());
    out.parameters += part.parameters;
    if (!out.parts.empty() && part.is_like(out.parts.back())) {
      ModuleSummary& before = out.parts.back();
      ++before.repeats;
      before.parameters += part.parameters;
      before.name = before.name.substr(0, before.name.find('-')) + "-" + part.name;
    } else {
      out.parts.push_back(std::move(part));
    }
  }
  return out;
}

void add_rows(const ModuleSummary& module, std::size_t depth, Table& table) {
  const std::string times = module.repeats > 1 ? fmt::format(" (x{})", module.repeats) : "";
  table.rows.push_back({std::string(2 * depth, ' ') + module.name + times, module.kind,
                        std::to_string(module.parameters), module.shapes});
  for (const ModuleSummary& part : module.parts) add_rows(part, depth + 1, table);
}

nlohmann::json json_of(const ModuleSummary& module) {
  nlohmann::json parts = nlohmann::json::array();
  for (const ModuleSummary& part : module.parts) parts.push_back(json_of(part));
  return {{"name", module.name},       {"class", module.kind},    {"parameters", module.parameters},
          {"repeats", module.repeats}, {"shapes", module.shapes}, {"modules", parts}};
}

/// Operations of a pass, those that cost most first.
std::vector<std::pair<std::string, CountedFlops>> sorted(const ForwardOperations& pass) {
  std::vector<std::pair<std::string, CountedFlops>> all(pass.operations.begin(),
                                                        pass.operations.end());
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.second.flops > b.second.flops; });
  return all;
}

void print(const ModuleSummary& model, const ModuleSummary& task, const ForwardOperations& pass) {
  Table modules{"", {"module", "class", {"parameters", true}, "shapes of its own parameters"}};
  add_rows(model, 0, modules);
  if (task.parameters > 0) add_rows(task, 0, modules);
  std::int64_t total = 0;
  for (const auto& [name, counted] : pass.operations) total += counted.flops;
  Table operations{"", {"product", {"times", true}, {"MFLOPs", true}, {"share", true}}};
  for (const auto& [name, counted] : sorted(pass)) {
    operations.rows.push_back(
        {name, std::to_string(counted.times), decimal(double(counted.flops) / 1e6, 3),
         fmt::format("{:.1f} %", 100 * double(counted.flops) / double(total))});
  }
  std::cout << table_text(modules, TableStyle::text)
            << fmt::format(
                   "\nforward pass of {}: {:.4g} MFLOPs\n\n",
                   std::to_string(pass.examples) + (pass.examples == 1 ? " example" : " examples"),
                   double(total) / 1e6)
            << table_text(operations, TableStyle::text);
}

}  // namespace

int summary_command(const Words& words) {
  Usage usage = summary_usage();
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  Registry registry(Catalogue::of_this_program());
  const Experiment experiment =
      experiment_of(arguments.words[0], arguments.overrides, registry.catalogue());
  look_for_data_of(RunFolder(arguments.words[0]));
  try {
    const BuiltRun run = build_run(experiment, experiment.seeds.at(0), registry);
    const ForwardOperations pass = forward_operations(run);
    const ModuleSummary model = summary_of("model", *run.model);
    const ModuleSummary task = summary_of("task", *run.task);
    if (!arguments.has("json")) {
      print(model, task, pass);
      return kDone;
    }
    nlohmann::json operations = nlohmann::json::array();
    for (const auto& [name, counted] : sorted(pass)) {
      operations.push_back({{"product", name}, {"times", counted.times}, {"flops", counted.flops}});
    }
    std::cout << json_text(nlohmann::json{{"modules", {json_of(model), json_of(task)}},
                                          {"examples", pass.examples},
                                          {"products", operations}});
  } catch (const DataMissingError& error) {
    std::cerr << fmt::format("attnlab describe: {}\n", message_text(error.what()));
    return kDataMissing;
  }
  return kDone;
}

}  // namespace attnlab
