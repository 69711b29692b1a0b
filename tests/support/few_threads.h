// Lets threads fail to start, as on a machine that has none left. Include it in one file of a
// program: it takes the place of pthread_create for all of it, libraries included.
#pragma once

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <limits>

namespace attnlab::testing {

/// How many more threads can start.
inline std::atomic<int> threads_left{std::numeric_limits<int>::max()};

/// While it lives, so many threads start and no more.
class FewThreads {
 public:
  explicit FewThreads(int count) { threads_left = count; }
  ~FewThreads() { threads_left = std::numeric_limits<int>::max(); }
  FewThreads(const FewThreads&) = delete;
  FewThreads& operator=(const FewThreads&) = delete;
};

}  // namespace attnlab::testing

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*work)(void*), void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  if (attnlab::testing::threads_left.fetch_sub(1) <= 0) return EAGAIN;
  return create(thread, attributes, work, argument);
}
