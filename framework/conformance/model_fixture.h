// What checks of models begin with: models of the subject, and batches for them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/conformance/judge.h"
#include "framework/conformance/made_data.h"
#include "framework/conformance/model_conformance.h"

namespace attnlab::conformance {

class ModelFixture {
 public:
  /// Finds out which data the model takes.
  /// @throws what the model throws where it takes none of them.
  explicit ModelFixture(const ModelSubject& subject);

  const ModelSubject& subject() const { return subject_; }
  /// The data that the model is built for, with the subject's first attention; at least one.
  const std::vector<NamedData>& data() const { return data_; }
  const Dataset& first_data() const { return *data_.front().dataset; }

  struct Build {
    const Dataset& data;
    const AttentionBuilder& attention;
    std::uint64_t seed = 1;
    std::int64_t members = 1;
  };
  /// As its constructor leaves it: float32, training mode.
  std::shared_ptr<Model> fresh(const Build& build) const;
  /// In float64 and evaluation mode, parameters moved off their starts by small random numbers, so
  /// that what starts at zero counts.
  std::shared_ptr<Model> model(const Build& build) const;
  /// `model` with the first data and the first attention.
  std::shared_ptr<Model> model(std::uint64_t seed = 1) const;

  /// What a check does with a model under one attention. @param data  that it was built for
  using UnderAttention = std::function<void(const NamedAttention& attention, const NamedData&)>;
  /// Calls `check` for each attention and each dataset that the model takes with it; failures name
  /// both. @returns a remark with the attentions that were tried, and those that the model refused
  /// when it was built.
  std::string under_every_attention(const UnderAttention& check) const;

 private:
  const ModelSubject& subject_;
  std::vector<NamedData> data_;
};

/// One to train on; where there are fewer, they come again.
NamedTensors training_example(const Dataset& data, std::int64_t index);
/// Training examples as the dataset collates them, floats as they are.
Batch batch_of(const Dataset& data, const std::vector<std::int64_t>& indices);
/// Floating fields as float64.
Batch in_double(Batch batch);

/// One forward pass, without gradients.
NamedTensors outputs_of(Model& model, const Batch& batch);
/// The same with gradients, from a seed of the random numbers that it draws.
NamedTensors seeded_pass(Model& model, const Batch& batch, std::uint64_t seed);

/// The rows of one example of a field or an output: by the batch's offsets where its name has an
/// axis.
Tensor rows_of_example(const std::string& name, const Tensor& tensor, const Batch& batch,
                       std::int64_t example);

/// @throws Failure unless both have the same outputs, equal up to the tolerance.
void expect_close(const std::string& what, const NamedTensors& found, const NamedTensors& expected,
                  double tolerance = kRegrouped);
/// The same bit for bit.
void expect_identical(const std::string& what, const NamedTensors& found,
                      const NamedTensors& expected);

/// sum(output * probe) over all floating outputs.
Tensor probed(const NamedTensors& outputs);

/// Parameters and buffers by name.
std::vector<std::pair<std::string, Tensor>> kept_tensors(const torch::nn::Module& module);
/// Moves parameters off their starts.
void nudge(torch::nn::Module& module, std::uint64_t seed);
/// The module's kept tensors through a safetensors file into another one of the same kind.
/// @throws Failure naming what does not fit.
void save_and_load(const torch::nn::Module& from, torch::nn::Module& to);

/// Runs something with LibTorch's random numbers from a seed, and puts them back.
void with_seed(std::uint64_t seed, const std::function<void()>& run);

}  // namespace attnlab::conformance
