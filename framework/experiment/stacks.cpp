// What is known of a model's stacks before it is built: see part.h.
#include <fmt/format.h>

#include <optional>

#include "framework/base/add_once.h"
#include "framework/experiment/fields.h"
#include "framework/experiment/part.h"

namespace attnlab {
namespace {

/// Which mechanism each layer of a stack has.
std::vector<const Part*> mechanisms_of(const Part& attention, std::int64_t layers) {
  std::vector<const Part*> all(static_cast<std::size_t>(layers), &attention);
  for (const Part& other : attention.others) {
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      if (other.layers.has(layer, layers)) all[static_cast<std::size_t>(layer)] = &other;
    }
  }
  return all;
}

bool needs_consecutive(const Part& mechanism, const Catalogue& catalogue) {
  const Manifest& manifest = *catalogue.find(Kind::attention, lookup_name(mechanism)).manifest;
  return rule_of(rules_under(manifest.needs, mechanism), kConsecutive) != nullptr;
}

/// @param all  of a stack, by layer
void check_gaps(const LayerStack& stack, const std::vector<const Part*>& all,
                const Catalogue& catalogue, Problems& problems) {
  std::vector<bool> consecutive;
  consecutive.reserve(all.size());
  for (const Part* one : all) consecutive.push_back(needs_consecutive(*one, catalogue));
  for (std::size_t layer = 1; layer < all.size(); ++layer) {
    if (!consecutive[layer]) continue;
    const Part& mechanism = *all[layer];
    // Two plugins may share what they leave, as the elliptical ones do: those are not a gap.
    std::optional<std::size_t> gap;
    for (std::size_t before = layer; before-- > 0;) {
      if (!consecutive[before]) gap = before;
      if (!consecutive[before] || all[before]->id != mechanism.id) continue;
      if (!gap) break;
      const bool of_key = !mechanism.layers.key.empty();
      add_problem(problems, of_key ? mechanism.layers.place : mechanism.place,
                  fmt::format("{}: attention '{}' reads what the layer before has left, and has "
                              "layers {} and {} of a stack of {} ({}), with '{}' between them; "
                              "name layers in a row in attention.layers, or take another attention",
                              section_key(mechanism), mechanism.name, before, layer, stack.layers,
                              stack.key, all[*gap]->name));
      return;
    }
  }
}

}  // namespace

std::vector<LayerStack> stacks_of(const Part& model, const Manifest& manifest) {
  std::vector<LayerStack> stacks;
  for (const FieldRule& rule : rules_under(manifest.stacks, model)) {
    const Node* value = model.options.find(rule.field);
    // A value that is wrong is named elsewhere; 0 is a preset's that nobody chose.
    const std::int64_t layers = value == nullptr ? 0 : value->as_int().value_or(0);
    if (layers > 0 && layers <= kMostLayers) stacks.push_back({"model." + rule.field, layers});
  }
  return stacks;
}

void check_stacks(const std::vector<LayerStack>& stacks, const Part& attention,
                  const Catalogue& catalogue, Problems& problems) {
  if (attention.others.empty()) return;
  std::vector<const LayerChoice*> choices;
  choices.reserve(attention.others.size());
  for (const Part& other : attention.others) choices.push_back(&other.layers);
  for (const LayerStack& stack : stacks) {
    Problems own;
    check_choices(choices, stack.layers, own, stack.key);
    if (own.empty()) check_gaps(stack, mechanisms_of(attention, stack.layers), catalogue, own);
    for (const std::string& problem : own) add_once(problems, problem);
  }
}

}  // namespace attnlab
