// NumPy's arrays: .npy, and .npz, a zip of them.
//
//   "\x93NUMPY" | version | length | {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
//
// Numbers of either byte order: bool, whole numbers of 8 to 64 bits, floating point of 16 to 64
// bits; unsigned ones of more than 8 bits become int64. Zips with members stored or deflated; each
// member's checksum is compared.
// Source: numpy.lib.format; PKWARE APPNOTE 6.3.
#pragma once

#include <string>
#include <string_view>

#include "framework/tensor/tensor.h"

namespace attnlab {

/// @throws DataError "path: what is wrong".
Tensor parse_npy(std::string_view bytes, const std::string& path);

/// Arrays by name, without ".npy". @throws DataError, also where the members are 100 times the
/// file's size and above 256 MiB.
NamedTensors read_npz(std::string_view bytes, const std::string& path);

}  // namespace attnlab
