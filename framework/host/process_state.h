// State of the process that loading a plugin must leave alone.
#pragma once

#include <string>
#include <vector>

#include "framework/host/process_settings.h"
#include "framework/tensor/tensor.h"

namespace attnlab {

/// A snapshot of floating-point mode, default dtype, thread counts, random numbers, surroundings.
class ProcessState {
 public:
  /// Takes the snapshot.
  ProcessState();
  /// What differs now, in words; empty when nothing does.
  std::vector<std::string> changes() const;
  /// Puts everything back.
  void restore() const;

 private:
  int rounding_;
  unsigned float_control_;
  caffe2::TypeMeta default_dtype_;
  int threads_, inter_op_threads_;
  Tensor random_;
  ProcessSettings surroundings_;
};

}  // namespace attnlab
