#include "framework/host/process_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <c10/core/DefaultDtype.h>

#include <cfenv>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace attnlab {
namespace {

/// The control part of the floating-point unit: flush-to-zero, denormals-are-zero, exception masks.
/// (Its lower bits only record what happened so far.)
unsigned float_control() {
#if defined(__x86_64__)
  return _mm_getcsr() & ~0x3FU;
#else
  return 0;
#endif
}

void set_float_control(unsigned control) {
#if defined(__x86_64__)
  _mm_setcsr(control);
#else
  (void)control;
#endif
}

/// An int or a size_t in LibTorch, by version.
int interop_threads() { return static_cast<int>(at::get_num_interop_threads()); }

Tensor random_state() { return at::detail::getDefaultCPUGenerator().get_state(); }

}  // namespace

ProcessState::ProcessState()
    : rounding_(std::fegetround()),
      float_control_(float_control()),
      default_dtype_(c10::get_default_dtype()),
      threads_(at::get_num_threads()),
      inter_op_threads_(interop_threads()),
      random_(random_state()) {}

std::vector<std::string> ProcessState::changes() const {
  std::vector<std::string> changed;
  if (std::fegetround() != rounding_ || float_control() != float_control_) {
    changed.emplace_back("the floating-point mode (is it linked with -ffast-math?)");
  }
  if (c10::get_default_dtype() != default_dtype_) {
    changed.emplace_back("LibTorch's default dtype");
  }
  if (at::get_num_threads() != threads_ || interop_threads() != inter_op_threads_) {
    changed.emplace_back("LibTorch's number of threads");
  }
  if (!at::equal(random_state(), random_)) changed.emplace_back("LibTorch's random numbers");
  for (std::string& change : surroundings_.changes()) changed.push_back(std::move(change));
  return changed;
}

void ProcessState::restore() const {
  std::fesetround(rounding_);
  set_float_control(float_control_);
  c10::set_default_dtype(default_dtype_);
  if (at::get_num_threads() != threads_) at::set_num_threads(threads_);
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_state(random_);
  surroundings_.restore();
}

}  // namespace attnlab
