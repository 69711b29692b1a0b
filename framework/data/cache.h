// Tensors that took long to make, kept for the next start in a folder of the user.
//
//   $XDG_CACHE_HOME/attnlab, else $HOME/.cache/attnlab;   KIND-HASH.safetensors
//
// A file holds the whole key that it was made from and a hash of its content, so a damaged file, or
// one of another key, is made anew. Files appear whole or not at all; the folder may be removed at
// any time. Without a folder that can be written, nothing is kept.
#pragma once

#include <functional>
#include <string>

#include "framework/tensor/tensor.h"

namespace attnlab {

/// The tensors of that key: from the folder, else made, and kept if that took long.
/// @param kind  what they are, for the file's name: "rwse"
/// @param key   all that they depend on: content, settings, versions of the code that makes them
/// @param make  must give the same tensors for the same key
/// @param worth  seconds: what is made faster is not kept
NamedTensors cached(const std::string& kind, const std::string& key,
                    const std::function<NamedTensors()>& make, double worth = 1);

/// One number that changes whenever a name, a shape, a dtype or a byte of the tensors does.
std::uint64_t content_of(const NamedTensors& tensors);

}  // namespace attnlab
