#include "framework/train/optimizer_shares.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <map>

namespace attnlab {

OptimizerShares::OptimizerShares(std::shared_ptr<World> world,
                                 const std::vector<SharedParameter>& parameters)
    : world_(std::move(world)), begins_{0} {
  for (const SharedParameter& one : parameters) begins_.push_back(begins_.back() + one.length);
  const std::int64_t all = begins_.back();
  for (std::int64_t rank = 0; rank <= world_->size(); ++rank) {
    std::int64_t cut = all / world_->size() * rank + all % world_->size() * rank / world_->size();
    const auto end = std::upper_bound(begins_.begin(), begins_.end(), cut);
    const auto cut_one = static_cast<std::size_t>(end - begins_.begin()) - 1;  // where the cut lies
    if (cut_one < parameters.size() && parameters[cut_one].whole) {
      const std::int64_t begin = begins_[cut_one], after = begins_[cut_one + 1];
      cut = cut - begin <= after - cut ? begin : after;
    }
    cuts_.push_back(cut);
  }
}

ParameterShare OptimizerShares::piece(std::size_t parameter, std::int64_t rank) const {
  const auto process = static_cast<std::size_t>(rank);
  const std::int64_t begin = std::max(begins_[parameter], cuts_[process]);
  const std::int64_t end = std::min(begins_[parameter + 1], cuts_[process + 1]);
  if (end <= begin) return {};
  return {begin - begins_[parameter], end - begin};
}

void OptimizerShares::spread(const std::vector<std::size_t>& changed,
                             const std::vector<Tensor>& tensors) const {
  if (world_->size() == 1) return;
  const c10::NoGradGuard no_gradients;
  std::map<at::ScalarType, std::vector<std::size_t>> by_dtype;  // places in `changed`
  for (std::size_t i = 0; i < changed.size(); ++i) {
    by_dtype[tensors[i].scalar_type()].push_back(i);
  }
  for (const auto& [dtype, places] : by_dtype) {
    std::vector<Tensor> rows;
    for (const std::size_t i : places) {
      rows.push_back(tensors[i].detach().to(at::kCPU).reshape(-1));
    }
    std::vector<std::int64_t> cuts = {0};
    for (std::int64_t rank = 0; rank < world_->size(); ++rank) {
      cuts.push_back(cuts.back());
      for (const std::size_t i : places) cuts.back() += piece(changed[i], rank).size;
    }
    const Tensor flat = at::cat(rows);
    rows.clear();
    all_gather(*world_, flat, cuts);
    std::int64_t begin = 0;
    for (const std::size_t i : places) {
      const Tensor& tensor = tensors[i];
      if (own(changed[i]).size < tensor.numel()) {
        tensor.detach().copy_(flat.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
      }
      begin += tensor.numel();
    }
  }
}

Tensor OptimizerShares::whole(std::size_t parameter, const Tensor& mine, const Tensor& like) const {
  const auto on_cpu = [&] { return mine.detach().to(at::kCPU).reshape(-1).contiguous(); };
  const Tensor none = at::empty({0}, like.scalar_type());
  if (!world_->first()) {
    if (own(parameter).size > 0) world_->exchange(on_cpu(), none, 0);
    return {};
  }
  Tensor all = at::empty(like.sizes(), like.scalar_type());
  for (std::int64_t rank = 0; rank < world_->size(); ++rank) {
    const ParameterShare theirs = piece(parameter, rank);
    if (theirs.size == 0) continue;
    const Tensor place = theirs.of(all);
    if (rank == 0) {
      place.copy_(on_cpu());
    } else {
      world_->exchange(none, place, rank);
    }
  }
  return all;
}

}  // namespace attnlab
