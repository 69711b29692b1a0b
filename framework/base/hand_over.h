// What one thread gives to others through oneTBB, said in a way that ThreadSanitizer sees.
//
// oneTBB shows its tasks what was written before they were given to it, and whoever waits for them
// what they wrote. It is not built with ThreadSanitizer, which therefore knows neither.
#pragma once

#include <atomic>

namespace attnlab {

/// Not a member of anything: where it lies must not be handed over itself.
inline std::atomic<unsigned> handed_over{0};

/// What this thread has written is seen by threads that call `take_over` from now on.
inline void hand_over() { handed_over.fetch_add(1, std::memory_order_release); }
inline void take_over() { (void)handed_over.load(std::memory_order_acquire); }

}  // namespace attnlab
