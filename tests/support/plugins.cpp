#include "tests/support/plugins.h"

#include <gtest/gtest.h>

#include "framework/config/compose.h"

namespace attnlab::testing {

Registry& registry() {
  static Registry all(Catalogue::of_this_program());
  return all;
}

std::vector<std::string> attentions_with(const std::string& trait) {
  std::vector<std::string> names;
  for (const Candidate* plugin : registry().catalogue().usable(Kind::attention)) {
    const auto& traits = plugin->manifest->traits;
    const bool fits = trait == "causal" || !traits.at("ordered");
    if (traits.at(trait) && fits) names.push_back(plugin->manifest->name);
  }
  EXPECT_FALSE(names.empty()) << "no installed attention has " << trait;
  return names;
}

std::vector<std::string> attentions_without(const std::string& trait) {
  std::vector<std::string> names;
  for (const Candidate* plugin : registry().catalogue().usable(Kind::attention)) {
    if (!plugin->manifest->traits.at(trait)) names.push_back(plugin->manifest->name);
  }
  return names;
}

Part make_part(Kind kind, const std::string& id, const std::string& options_yaml) {
  return part_of(kind, id, parse_yaml(options_yaml, "options"), registry().catalogue());
}

std::shared_ptr<Attention> make_attention(const std::string& id, const AttentionShape& shape,
                                          const std::string& options_yaml) {
  return registry().attention(make_part(Kind::attention, id, options_yaml), shape);
}

std::shared_ptr<Model> make_model(const std::string& id, const DatasetInfo& data,
                                  const std::string& options_yaml, const std::string& attention_id,
                                  std::int64_t members, const std::string& attention_options_yaml) {
  const Part attention = make_part(Kind::attention, attention_id, attention_options_yaml);
  return registry().model(
      make_part(Kind::model, id, options_yaml),
      {data, registry().attention_builder(attention, RandomStreams(0)), members});
}

std::shared_ptr<Dataset> make_dataset(const std::string& id, const std::string& options_yaml,
                                      std::uint64_t seed) {
  return registry().dataset(make_part(Kind::dataset, id, options_yaml), {RandomStreams(seed)});
}

std::shared_ptr<Task> make_task(const std::string& id, const DatasetInfo& data,
                                const std::string& options_yaml) {
  return registry().task(make_part(Kind::task, id, options_yaml), {data});
}

std::int64_t parameter_count(const torch::nn::Module& module) {
  std::int64_t count = 0;
  for (const Tensor& parameter : module.parameters()) count += parameter.numel();
  return count;
}

}  // namespace attnlab::testing
