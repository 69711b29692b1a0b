// What the checks of datasets begin with: the dataset, some of its examples, and comparisons.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "framework/conformance/dataset_conformance.h"
#include "framework/conformance/judge.h"

namespace attnlab::conformance {

inline constexpr std::array kSplits = {Split::train, Split::validation, Split::test};

/// "train example 3".
std::string place_of(Split split, std::int64_t index);

/// Some indices of a split, the first and the last among them, rising.
std::vector<std::int64_t> sample(const Dataset& dataset, Split split, std::int64_t most = 32);

/// One example with a stream that is a function of the index; without: as in evaluation.
NamedTensors example_of(const Dataset& dataset, Split split, std::int64_t index,
                        bool augmented = false);

/// @throws Failure unless names and every bit of every tensor agree.
void expect_same(const std::string& what, const NamedTensors& found, const NamedTensors& expected);

/// Whether names and every bit of every tensor agree.
bool same(const NamedTensors& a, const NamedTensors& b);

/// Each tensor in memory of its own.
NamedTensors copy_of(const NamedTensors& tensors);

/// The rows of `part`, a batch of one example cut from a larger batch, that are not padding: where
/// the dataset's field says -1, cut to the size that the example has alone.
/// @throws Failure where the shapes cannot be those of one example.
NamedTensors without_padding(const std::string& what, const Batch& part, const Batch& alone,
                             const DatasetInfo& info);

/// The dataset under test, opened when it is first asked for.
class DatasetFixture {
 public:
  explicit DatasetFixture(const DatasetSubject& subject) : subject_(subject) {}

  const DatasetSubject& subject() const { return subject_; }
  const Dataset& dataset() const;
  /// Another one of the same data.
  std::shared_ptr<const Dataset> fresh(std::uint64_t seed = DatasetSubject::kSeed) const;
  /// The folder that `info().source` is, or begins with: words may follow, of what was left out.
  /// Empty where it names a file or a rule.
  std::string source_folder() const;
  /// The folder that it reads from: that of `source`, else one at or below `root` that `source`
  /// names behind other words ("made by rule of ..."), else `root` itself, which is a guess. Empty
  /// where it reads none.
  std::string folder() const;

 private:
  const DatasetSubject& subject_;
  mutable std::shared_ptr<const Dataset> dataset_;
};

}  // namespace attnlab::conformance
