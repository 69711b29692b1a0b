// An attention that a model in Python was handed: Python calls it, C++ or Python computes.
#pragma once

#include <cstdint>
#include <memory>

#include "framework/contracts/attention.h"
#include "plugins/python/interpreter.h"

namespace attnlab::python {

/// What the layers of one forward pass share; null between passes.
struct Pass {
  ForwardState* state = nullptr;
  AttentionTrace* trace = nullptr;
};

/// `_attnlab.Attention`, behind attnlab._host.HandedAttention.
class Handed {
 public:
  Handed(std::shared_ptr<Attention> attention, std::shared_ptr<const Pass> pass)
      : attention_(std::move(attention)), pass_(std::move(pass)) {}

  const std::shared_ptr<Attention>& attention() const { return attention_; }
  /// Of parameters, then of buffers: (names, tensor, whether it is a parameter).
  py::list tensors() const;
  /// All traits by name: whether each is declared.
  py::dict traits() const;
  void train(bool on) { attention_->train(on); }
  /// @param tensors  fields of the input by name: "queries", "key_valid", "relative.keys"
  /// @throws ShapeError, TraitError, which Python sees as RuntimeError.
  py::object call(const py::dict& tensors, bool causal, std::int64_t window,
                  bool values_from_elsewhere) const;

 private:
  std::shared_ptr<Attention> attention_;
  std::shared_ptr<const Pass> pass_;
};

/// Adds the class to the module that attnlab._host imports. With the lock.
void add_handed(py::module_& module);

}  // namespace attnlab::python
