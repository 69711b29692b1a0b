// Two layers of a mechanism that share a ForwardState, their inputs, outputs and gradients.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "framework/conformance/judge.h"
#include "framework/contracts/attention.h"

namespace attnlab::conformance {

/// Random numbers of our own, float64: a mechanism that draws cannot shift them.
class Draw {
 public:
  explicit Draw(std::uint64_t seed);
  Tensor normal(at::IntArrayRef sizes) const;
  /// bool, each element true with the probability.
  Tensor chance(at::IntArrayRef sizes, double probability) const;
  /// A permutation of 0 .. n - 1 that moves something where n > 1.
  Tensor permutation(std::int64_t n) const;

 private:
  at::Generator generator_;
};

/// What the two layers of a stack get in one pass.
using StackInput = std::array<AttentionInput, 2>;

struct NamedField {
  std::string name;  ///< "keys", "visible.pairs"
  Tensor* tensor;
};
/// Every defined tensor of an input.
std::vector<NamedField> fields(AttentionInput& input);
/// Those that gradients flow to: no masks, offsets or positions.
std::vector<NamedField> differentiable_fields(AttentionInput& input);

template <class Change>
StackInput changed(StackInput input, const Change& change) {
  for (AttentionInput& layer : input) change(layer);
  return input;
}

/// Floating tensors in another dtype.
StackInput to(StackInput input, at::ScalarType dtype);
/// The tokens at these indices alone (int64): what is left when the others are absent. Relative
/// keys only where the indices have no gaps.
AttentionInput select(const AttentionInput& input, const Tensor& queries, const Tensor& keys);

/// One example of a batch, as a batch of its own.
AttentionInput example_of(const AttentionInput& input, std::int64_t example);

/// Outputs of both layers.
using Outputs = std::array<Tensor, 2>;

/// Two layers and how to run them.
class Stack {
 public:
  std::array<std::shared_ptr<Attention>, 2> layers;

  /// One forward pass with a fresh ForwardState.
  Outputs operator()(const StackInput& input, AttentionTrace* trace = nullptr) const;
  /// One layer in a state that the caller keeps.
  Tensor run(int layer, const AttentionInput& input, ForwardState* state,
             AttentionTrace* trace = nullptr) const;
  void to(at::ScalarType dtype) const;
  void train(bool on) const;
  struct Parameter {
    int layer;
    std::string name;  ///< "layer 0: parameter scale"
    Tensor tensor;
  };
  std::vector<Parameter> parameters() const;
};

/// Outputs, and gradients of sum(output * probe) with names ("layer 1: keys", "layer 0: parameter
/// scale").
struct Pass {
  Outputs outputs;
  std::vector<std::pair<std::string, Tensor>> gradients;  ///< zeros where nothing flows
};
/// Distinct fixed numbers, to make a scalar of a tensor.
Tensor probe_like(const Tensor& tensor, double phase = 0.3);
/// @param probes  for both outputs; undefined: `probe_like`
Pass run_with_gradients(const Stack& stack, const StackInput& input, const Outputs& probes = {},
                        AttentionTrace* trace = nullptr);
void expect_close(const std::string& what, const Pass& found, const Pass& expected,
                  double tolerance = kExact);
void expect_close(const std::string& what, const Outputs& found, const Outputs& expected,
                  double tolerance = kExact);
void expect_finite(const std::string& what, const Pass& pass);
/// @throws Failure when both outputs are as without: what was declared is ignored.
void expect_effect(const std::string& what, const Outputs& with, const Outputs& without);

}  // namespace attnlab::conformance
