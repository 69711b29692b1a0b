// What an optimiser remembers, in shares over the processes of a run: ZeRO, stage 1
// (Rajbhandari et al., SC 2020, arXiv:1910.02054).
//
// Of W processes, process r has numbers [r n / W, (r + 1) n / W) of the n in all parameters, in
// their order. It keeps the moments of these, and updates these. Then each gets the others'
// parameters. Gradients and parameters are whole in all processes, so that norms, averages of
// weights and what follows a step are computed as without shares, and no number changes. A
// parameter whose update is not a function of single numbers is not cut: where a share would end
// within it, it ends at its nearer end.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "framework/train/world.h"

namespace attnlab {

/// Consecutive numbers of a tensor.
struct ParameterShare {
  std::int64_t begin = 0, size = 0;

  /// @param tensor  contiguous; @returns [size], of the same memory
  Tensor of(const Tensor& tensor) const { return tensor.reshape(-1).narrow(0, begin, size); }
  bool operator==(const ParameterShare&) const = default;
};

/// A parameter, as its numbers are shared out.
struct SharedParameter {
  std::int64_t length = 0;
  bool whole = false;  ///< it must not be cut
};

/// All processes make the calls of `World` below in the same order. @throws WorldError.
class OptimizerShares {
 public:
  OptimizerShares(std::shared_ptr<World> world, const std::vector<SharedParameter>& parameters);

  World& world() const { return *world_; }
  /// What process `rank` has of a parameter; perhaps nothing.
  ParameterShare piece(std::size_t parameter, std::int64_t rank) const;
  ParameterShare own(std::size_t parameter) const { return piece(parameter, world_->rank()); }

  /// Parameters that each process has changed in its own pieces become the same in all.
  /// @param changed  which they are, rising; @param tensors  each of them
  void spread(const std::vector<std::size_t>& changed, const std::vector<Tensor>& tensors) const;

  /// Process 0 gets what the processes remember of a parameter, piece by piece.
  /// @param mine  this process's piece; @param like  the whole's shape and dtype
  /// @returns the whole, on the CPU; in others than process 0: undefined
  Tensor whole(std::size_t parameter, const Tensor& mine, const Tensor& like) const;

 private:
  std::shared_ptr<World> world_;
  std::vector<std::int64_t> begins_;  ///< where each parameter begins; then where the last ends
  std::vector<std::int64_t> cuts_;    ///< where each process's share begins; then the end
};

}  // namespace attnlab
