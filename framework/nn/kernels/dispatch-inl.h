// One source, several instruction sets: the best that the processor has is chosen as the program
// runs (Google Highway).
//
//   #define HWY_TARGET_INCLUDE "framework/nn/kernels/FILE.cpp"   // the file itself
//   #include "framework/nn/kernels/dispatch-inl.h"               // before vectors
//   ...
//   HWY_BEFORE_NAMESPACE();
//   namespace attnlab::HWY_NAMESPACE { void add(...) {...} }      // compiled for each set
//   HWY_AFTER_NAMESPACE();
//   #if HWY_ONCE
//   namespace attnlab { HWY_EXPORT(add); ... ATTNLAB_DISPATCH(add)(...); }
//   #endif
//
// Lambdas inside need HWY_ATTR before their body: GCC compiles them for the plain set else.
// ATTNLAB_CPU holds the choice to one set: framework/base/processor.h.

// Sets that no processor is left with, and those whose vectors have no constant length (tiles of
// registers are arrays): those processors have SSE4 and NEON.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#include <hwy/foreach_target.h>
// (Above: it must come first.)
#include <hwy/highway.h>

#include "framework/nn/kernels/dispatch.h"

// A pointer to the best form of a function; newer releases of Highway have a name for it.
#ifndef ATTNLAB_BEST_FORM
#ifdef HWY_DYNAMIC_POINTER
#define ATTNLAB_BEST_FORM(name) (HWY_DYNAMIC_POINTER(name))
#else
#define ATTNLAB_BEST_FORM(name) (&HWY_DYNAMIC_DISPATCH(name))
#endif
#endif

// Chosen once for each place that calls: rows of a few numbers cost less than the choice.
#ifndef ATTNLAB_DISPATCH
#define ATTNLAB_DISPATCH(name)                                                       \
  ([]() -> const auto& {                                                             \
    static const auto kernel = (::attnlab::hold_kernels(), ATTNLAB_BEST_FORM(name)); \
    return kernel;                                                                   \
  }())
#endif
