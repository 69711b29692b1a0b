// Names of metrics that are made of names in the data.
#pragma once

#include <string>

namespace attnlab {

/// A class's name as part of a metric's: "traffic sign" is "traffic_sign".
std::string word_of(std::string name);

}  // namespace attnlab
