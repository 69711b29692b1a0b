// Leaks: bytes that a call takes and does not give back.
#pragma once

#include <functional>
#include <string>

namespace attnlab::conformance {

/// Counts what the C library has handed out, so that other processes and the machine's speed do not
/// matter. What is kept by the first calls alone is no leak.
/// @throws Failure where each further call keeps some.
void expect_no_leak(const std::string& what, const std::function<void()>& call);

}  // namespace attnlab::conformance
