// Loads the engine library, which brings LibTorch with it, and sees to it that a start with too
// little memory or too few threads ends with words.
#pragma once

#include <memory>
#include <string>

#include "runner/hang_watch.h"

namespace attnlab {

/// The function `attnlab_commands` of a library of commands. The program may begin again (see
/// base/blas.h).
/// @param path  of `Installation`
/// @throws LimitError where memory or threads are too few; PluginError where the library is not
/// there or not whole.
void* load_engine(const std::string& path);

/// Where memory may be refused, so that a call of OpenBLAS asks for it for ever: looks whether one
/// does, while it lives. Null: it is not refused here.
std::unique_ptr<WorkWatch> watch_work();

}  // namespace attnlab
