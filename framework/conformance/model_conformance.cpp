#include "framework/conformance/model_conformance.h"

#include <algorithm>

#include "framework/conformance/check_table.h"
#include "framework/conformance/model_checks.h"

namespace attnlab::conformance {
namespace {

constexpr CheckEntry<ModelFixture> kModelEntries[] = {
    {"outputs", check_outputs},
    {"parameters", check_parameters},
    {"determinism", check_determinism},
    {"modes", check_modes},
    {"save_and_load", check_save_and_load},
    {"batch", check_batch},
    {"padding", check_padding},
    {"members", check_members},
    {"trace", check_trace},
    {"places", check_places},
    {"carried", check_carried},
    {"device", check_device},
    {"inputs_unchanged", check_inputs_unchanged},
    {"process_state", check_process_state},
    {"memory", check_memory},
};

static_assert(lists_agree(kModelEntries, kModelChecks),
              "check_list.h and the functions must name the same checks");

/// Whether an attention in its default options fits a model with these needs.
bool fits(const Manifest& attention, const std::vector<std::string>& needs) {
  const auto has = [&](const std::string& trait) {
    const auto found = attention.traits.find(trait);
    return found != attention.traits.end() && found->second;
  };
  const bool causal = std::find(needs.begin(), needs.end(), "causal") != needs.end();
  return std::all_of(needs.begin(), needs.end(), has) && (causal || !has("ordered"));
}

/// In their default options; what needs options of its own is left out.
std::vector<NamedAttention> attentions_for(const std::vector<std::string>& needs,
                                           Registry& registry) {
  std::vector<NamedAttention> all;
  for (const Candidate* candidate : registry.catalogue().usable(Kind::attention)) {
    if (!fits(*candidate->manifest, needs)) continue;
    try {
      const Part part =
          part_of(Kind::attention, candidate->manifest->id, Node(), registry.catalogue());
      registry.load(Kind::attention, part.id);
      all.push_back({part.name, registry.attention_builder(part, RandomStreams(1))});
    } catch (const Error&) {
      continue;  // an option without default, or a library that does not load: not the model's
                 // fault
    }
  }
  std::stable_partition(all.begin(), all.end(),
                        [](const NamedAttention& one) { return one.name == "standard"; });
  return all;
}

}  // namespace

ModelSubject model_subject_of(Registry& registry, const Part& model, Registry& others,
                              std::shared_ptr<const Dataset> data) {
  const Manifest& manifest = *registry.catalogue().find(Kind::model, lookup_name(model)).manifest;
  ModelSubject subject;
  subject.build = [&registry, model](const ModelSetup& setup) {
    return registry.model(model, setup);
  };
  subject.attentions = attentions_for(needs_of(model, manifest), others);
  subject.takes = manifest.takes;
  subject.gives = manifest.gives;
  subject.ensemble = manifest.ensemble;
  for (const LayerStack& stack : stacks_of(model, manifest)) subject.stacks.push_back(stack.layers);
  subject.data = std::move(data);
  if (subject.attentions.empty()) {
    throw PluginError(model.path +
                      ": there is no installed attention that has the traits it "
                      "needs; install one to test the model with");
  }
  return subject;
}

CheckResult run_check(std::string_view check, const ModelSubject& subject) {
  const CheckEntry<ModelFixture>& entry = find_check(kModelEntries, check, kModelChecks);
  return judged(entry.name, [&] { return entry.run(ModelFixture(subject)); });
}

std::vector<CheckResult> run_checks(const ModelSubject& subject) {
  std::vector<CheckResult> results;
  for (const CheckInfo& info : kModelChecks) results.push_back(run_check(info.name, subject));
  return results;
}

}  // namespace attnlab::conformance
