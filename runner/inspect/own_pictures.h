// Pictures of a user's own, for commands that ask a run about them. They are read by the dataset
// `pictures`: the engine needs no image library.
#pragma once

#include <string>

#include "framework/data/image/pixels.h"
#include "framework/host/registry.h"
#include "runner/arguments.h"
#include "runner/engine/output_path.h"

namespace attnlab {

/// As a value of an option.
Node list_of(const Words& words);

/// A picture to draw on: as it is stored, or smaller where that is enormous.
/// @param longer_side  of the stored picture in pixels   @throws DataError, FileError.
Pixels stored_picture(const std::string& path, std::int64_t longer_side, Registry& registry);
/// The same where its size is not known yet.
Pixels stored_picture(const std::string& path, Registry& registry);

/// @throws ConfigError where a drawing would take the place of a picture that is read.
/// @param given    of --out, as the user wrote it
/// @param remedy   "choose another folder"
void check_writes_over_none(const std::string& given, const OutputPath& drawing,
                            const Words& pictures, const char* remedy);

}  // namespace attnlab
