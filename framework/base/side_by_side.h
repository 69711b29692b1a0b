// Pieces of work that do not depend on each other, done by several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace attnlab {

/// Calls `work` with every number below `count`, in any order, on as many cores as there are and
/// are worth it. Where the system has no threads left, fewer do it.
/// @param worth  as many calls as are worth a thread of their own
/// What a call throws is thrown once all threads have ended; calls that have not begun are left
/// out.
void side_by_side(std::size_t count, std::size_t worth,
                  const std::function<void(std::size_t)>& work);

}  // namespace attnlab
