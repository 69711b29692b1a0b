// Classes by their names, for people.
#pragma once

#include <string>

#include "framework/contracts/dataset.h"

namespace attnlab {

/// The class's name; its number where the dataset has no names.
inline std::string class_name(const DatasetInfo& info, std::int64_t index) {
  const bool named = index >= 0 && index < static_cast<std::int64_t>(info.class_names.size());
  return named ? info.class_names[static_cast<std::size_t>(index)] : std::to_string(index);
}

}  // namespace attnlab
