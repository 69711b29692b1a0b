// Inner loops compiled for several instruction sets; the right one is chosen when the library
// loads.
//
//   ATTNLAB_VECTOR_CLONES
//   void add(float* __restrict__ y, const float* __restrict__ x, std::int64_t n) { ... }
//
// Worth it where a loop computes more than it waits for memory. Functions that such a function
// calls must be inlined into it to be compiled alike: [[gnu::always_inline]].
#pragma once

#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // the choice is made before a sanitizer has begun
#define ATTNLAB_VECTOR_CLONES [[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
#else
#define ATTNLAB_VECTOR_CLONES
#endif

/// Before a loop: no step reads what another step writes. GCC cannot see that where several
/// pointers could overlap, and then computes step by step. Clang has no such promise, only the
/// order to vectorise, with an error where it cannot.
#ifndef __clang__
#define ATTNLAB_INDEPENDENT_STEPS _Pragma("GCC ivdep")
#else
#define ATTNLAB_INDEPENDENT_STEPS
#endif
