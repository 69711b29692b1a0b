// Parts by name, for tests: through the catalogue and the registry, as the program gets them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/host/registry.h"

namespace attnlab::testing {

/// The registry of the build tree; one for the whole test program.
Registry& registry();

/// The installed attentions that declare a trait, by name; those that need the causal rule only
/// among those with the trait `causal`.
std::vector<std::string> attentions_with(const std::string& trait);
/// Those that do not declare it.
std::vector<std::string> attentions_without(const std::string& trait);

/// A part with its options resolved from YAML. @throws ConfigError as the program does.
Part make_part(Kind kind, const std::string& id, const std::string& options_yaml = "{}");

std::shared_ptr<Attention> make_attention(const std::string& id, const AttentionShape& shape,
                                          const std::string& options_yaml = "{}");
std::shared_ptr<Model> make_model(const std::string& id, const DatasetInfo& data,
                                  const std::string& options_yaml = "{}",
                                  const std::string& attention_id = "standard",
                                  std::int64_t members = 1,
                                  const std::string& attention_options_yaml = "{}");
std::shared_ptr<Dataset> make_dataset(const std::string& id, const std::string& options_yaml = "{}",
                                      std::uint64_t seed = 0);
std::shared_ptr<Task> make_task(const std::string& id, const DatasetInfo& data,
                                const std::string& options_yaml = "{}");

std::int64_t parameter_count(const torch::nn::Module& module);

}  // namespace attnlab::testing
