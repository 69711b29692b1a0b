// The conformance kit for models: does one keep the contract of framework/contracts/model.h?
//
// It is fed a few small examples, made up from what its manifest takes or those of an experiment,
// in float64 where numbers are compared. Checks of what depends on the attention are done under
// every attention that the model may use.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/conformance/conformance.h"
#include "framework/contracts/model.h"
#include "framework/host/registry.h"

namespace attnlab::conformance {

/// An attention that a model may be built with.
struct NamedAttention {
  std::string name;
  AttentionBuilder build;
};

/// The model that is checked.
struct ModelSubject {
  std::function<std::shared_ptr<Model>(const ModelSetup&)> build;
  /// The first is the one of checks that are about the model alone; at least one.
  std::vector<NamedAttention> attentions;
  /// What its plugin's manifest says.
  std::vector<std::string> takes, gives;
  bool ensemble = false;
  /// How many layers each of its stacks has under its options; empty: its manifest says nothing.
  std::vector<std::int64_t> stacks{};
  /// What it is fed; null: examples made up from `takes`.
  std::shared_ptr<const Dataset> data{};
};

/// The subject of a plugin, with every installed attention that has the traits the model needs, in
/// their default options; `standard` is the first where it is there.
/// @param registry  has the model
/// @param others    has the attentions; both must outlive the subject
/// @throws PluginError where there is no such attention.
ModelSubject model_subject_of(Registry& registry, const Part& model, Registry& others,
                              std::shared_ptr<const Dataset> data = nullptr);

/// As for attentions. @throws ConfigError when there is no check of that name.
CheckResult run_check(std::string_view check, const ModelSubject& subject);

/// Every check of `kModelChecks`.
std::vector<CheckResult> run_checks(const ModelSubject& subject);

}  // namespace attnlab::conformance
