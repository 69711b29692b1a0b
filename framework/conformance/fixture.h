// Makes stacks of the mechanism under test, and inputs for them: what every check begins with.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/conformance/conformance.h"
#include "framework/conformance/stack.h"

namespace attnlab::conformance {

struct Lengths {
  std::int64_t batch = 2, queries = 4, keys = 4;
};
std::string text_of(const Lengths& lengths);

struct NamedStackInput {
  std::string name;  ///< "causal"
  StackInput input;
};

/// What the checks know of the mechanism, and what they build from it.
class Fixture {
 public:
  explicit Fixture(const Subject& subject) : subject_(subject) {}

  const AttentionTraits& declares() const { return subject_.declared; }
  /// @throws NotApplicable unless the trait is declared.
  void need(bool AttentionTraits::*trait) const;

  /// Whether the mechanism, with options of its own, refuses an input that its class declares
  /// (`Subject::may_refuse`): such inputs are left out where others are there.
  bool refuses(const StackInput& input) const;

  /// H 2, D 4, Dv 4, dropout 0, two layers, sources of 5, 6 and 7 channels.
  static AttentionShape shape();
  /// Two layers from one seed, in float64 and evaluation mode. Parameters are moved off their
  /// starts by small random numbers, so that what starts at zero counts.
  Stack stack(const AttentionShape& shape = Fixture::shape(), std::uint64_t seed = 1) const;
  /// The same as its constructor left it: float32, training mode.
  Stack fresh_stack(const AttentionShape& shape, std::uint64_t seed = 1) const;

  /// Random queries, keys and values for both layers, float64, and what the mechanism cannot do
  /// without: sources, the causal rule, positions.
  StackInput input(const Lengths& lengths, std::uint64_t seed = 1) const;
  /// Adds what the mechanism cannot do without, positions aside.
  void complete(AttentionInput& input, const Draw& draw) const;
  /// With positions of each token, drawn at random, in as many coordinates as the mechanism takes.
  StackInput with_positions(StackInput input, std::uint64_t seed = 2) const;
  /// Coordinates of a position that the mechanism takes: the first of 1, 2, 3; 0: none of them.
  std::int64_t coordinates() const;

  /// Lengths to try: equal ones, and where declared, fewer and more queries than keys.
  std::vector<Lengths> lengths() const;
  /// One input with nothing special, one for each declared input, one with all that go together.
  std::vector<NamedStackInput> inputs(const Lengths& lengths, std::uint64_t seed = 1) const;

 private:
  bool accepts(std::int64_t coordinates) const;
  bool needs_positions() const;
  StackInput bare_input(const Lengths& lengths, std::uint64_t seed) const;

  const Subject& subject_;
  mutable std::optional<std::int64_t> coordinates_;
  mutable std::optional<bool> needs_positions_;
};

/// An input field that belongs to a trait, and how to fill it.
struct Feature {
  const char* trait;
  bool AttentionTraits::*declared;
  void (*use)(AttentionInput&, const Draw&);
};
/// bias, causal, window, pair_mask, padding, relative_positions: those that fit any lengths.
const std::vector<Feature>& features();
/// Offsets that cut the input's only example into sequences.
void make_ragged(AttentionInput& input);

}  // namespace attnlab::conformance
