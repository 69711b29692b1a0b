// Which state of the framework this is.
#pragma once

#include <string>

namespace attnlab {

/// 16 hexadecimal digits of the sources of all that computes (tensors, building blocks, data,
/// training): two programs with equal revisions, on one machine, give a run the same numbers.
std::string framework_revision();

}  // namespace attnlab
