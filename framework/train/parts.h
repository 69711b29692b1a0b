// The parts of a batch (`train.parts`): what one run's processes share out among themselves.
//
// A part is made, drawn for and computed by itself: its examples are collated without the others,
// its dropout has a stream of its own, and what couples rows (batch normalisation, mixed images,
// padding) couples those of a part. So nothing of it depends on which process has it, nor on what
// the process computed before. Part p of P holds examples [ceil(p n / P), ceil((p + 1) n / P)) of a
// batch of n; of a small batch some parts are empty, and never the first.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "framework/contracts/dataset.h"
#include "framework/train/world.h"

namespace attnlab {

/// Consecutive parts: those of one process.
struct OwnParts {
  std::int64_t first = 0, count = 1;
};

/// @param parts  a multiple of the world's size
OwnParts own_parts(const World& world, std::int64_t parts);

/// Where a part begins in a batch of so many examples; of part `parts`: the batch's end.
std::int64_t part_begin(std::int64_t size, std::int64_t part, std::int64_t parts);

/// An epoch, cut into parts.
struct PartPlan {
  EpochPlan plan;                   ///< each part that is not empty is a batch of it
  std::vector<std::int64_t> own;    ///< which of its batches a process makes, rising
  std::vector<std::int64_t> parts;  ///< of each of these: which part of its step it is
  std::vector<std::int64_t> ends;   ///< where each step ends in `own`
};
PartPlan cut_into_parts(const EpochPlan& plan, std::int64_t parts, const OwnParts& own);

/// What parts leave in buffers (running statistics): each begins with those of before the step, and
/// the step ends with the mean over its parts, summed in tree order in float64. So a running mean
/// moves as that of one batch would; a running variance by the mean of the parts' variances.
class PartBuffers {
 public:
  /// Of modules in training, before the step.
  explicit PartBuffers(const std::vector<torch::nn::Module*>& modules);

  /// After a part's backward pass, which may use them: notes what the part changed, by value (an
  /// operation may change a buffer and not its version), and puts back what was there before.
  void end_part(std::int64_t part);
  /// Places of the buffers that a part of this process changed, rising.
  std::vector<std::int64_t> changed() const;
  /// What this process adds to the sums of these buffers, in float64; -0 where it had no part.
  std::vector<Tensor> sums(const std::vector<std::int64_t>& places) const;
  /// @param sums  over all parts of all processes; they become the means
  void set_means(const std::vector<std::int64_t>& places, const std::vector<Tensor>& sums,
                 std::int64_t parts);

 private:
  struct Buffer {
    Tensor live, before;
    std::map<std::int64_t, Tensor> after;  ///< by part
  };
  std::vector<Buffer> buffers_;
  std::vector<std::int64_t> parts_;  ///< those that ended
};

}  // namespace attnlab
