// Leaks: bytes that a call takes and does not give back.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace attnlab::conformance {

/// Bytes that the C library has handed out; a number that stays where it does not count them.
std::int64_t bytes_in_use();

/// Whether the count moves with what is handed out. It does not before glibc 2.33, in other C
/// libraries, and where a sanitizer or another allocator stands in for the C library's.
/// @param in_use  gives the count
bool counts_memory(const std::function<std::int64_t()>& in_use = bytes_in_use);

/// Counts what the C library has handed out, so that other processes and the machine's speed do not
/// matter. What is kept by the first calls alone is not a leak.
/// @throws Failure where each further call keeps some, Skipped where memory is not counted.
void expect_no_leak(const std::string& what, const std::function<void()>& call,
                    const std::function<std::int64_t()>& in_use = bytes_in_use);

}  // namespace attnlab::conformance
