// MNIST, Fashion-MNIST and whatever else comes in the same four files.
//
//   {train,t10k}-images-idx3-ubyte  be32: 0x00000803, images N, rows R, columns C; N R C bytes
//   {train,t10k}-labels-idx1-ubyte  be32: 0x00000801, labels N; N bytes
//
// Each file may be gzipped. Source: http://yann.lecun.com/exdb/mnist (LeCun, Cortes, Burges 1998)
// and https://github.com/zalandoresearch/fashion-mnist (Xiao, Rasul, Vollgraf 2017).
// Cost: the pixels are held in memory as bytes.
#pragma once

#include <cstdint>
#include <string>

#include "framework/data/image/image.h"

namespace attnlab {

/// @param name  of the folder: "mnist", "fashion-mnist", or one of the same layout
/// @param root  the folder or the one above it; empty: the usual places
/// @throws DataMissingError, DataError with path and byte.
ImageSet read_idx_images(const std::string& name, std::int64_t classes, const std::string& root);

}  // namespace attnlab
