// A schema of options from JSON that is parsed already: hundreds of manifests are read at a time.
#pragma once

#include "framework/base/json.h"
#include "framework/manifest/schema.h"

namespace attnlab {

/// @param json  a list as `write_schema` makes it. @throws Error when it is none.
Schema schema_from(const nlohmann::json& json);

}  // namespace attnlab
