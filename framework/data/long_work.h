// Work that people wait for: done by all cores, with its progress shown.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace attnlab {

/// Calls `work` for 0, ..., count - 1 on all cores that the process may use, in any order. What is
/// made must depend on the index alone. Whoever listens (`on_long_work`) is told how far it is.
/// @param what  for people: "reading 15535 SMILES"
/// @throws what `work` threw for the lowest of the indices for which it threw.
void in_parallel(const std::string& what, std::int64_t count,
                 const std::function<void(std::int64_t)>& work);

/// Sets who is told of long work, by text: "reading 15535 SMILES: 34 %, 12 s left". Told every two
/// seconds, from the third second on, and at the end if it was told before. By default nobody.
/// Called by one thread at a time. For programs; libraries never print.
void on_long_work(std::function<void(const std::string& text)> listener);

}  // namespace attnlab
