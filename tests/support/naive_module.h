// Maps and norms of a module by its parameters' names, written out in double precision.
#pragma once

#include <string>

#include "framework/contracts/model.h"

namespace attnlab::testing {

class NaiveModule {
 public:
  explicit NaiveModule(const torch::nn::Module& module) {
    for (const auto& item : module.named_parameters()) {
      parameters_.set(item.key(), item.value().detach().to(at::kDouble));
    }
  }

 protected:
  const Tensor& p(const std::string& name) const { return parameters_.at(name); }
  Tensor linear(const Tensor& x, const std::string& name) const {
    return x.matmul(p(name + ".weight").t()) + p(name + ".bias");
  }
  Tensor norm(const Tensor& x, const std::string& name) const {
    const Tensor centred = x - x.mean(-1, true);
    return centred / (centred.pow(2).mean(-1, true) + 1e-5).sqrt() * p(name + ".weight") +
           p(name + ".bias");
  }

 private:
  NamedTensors parameters_;
};

}  // namespace attnlab::testing
