// Tensors in files: the safetensors format (https://github.com/huggingface/safetensors).
//
//   u64 N, little-endian | N bytes of JSON | data
//   JSON: {"__metadata__": {text: text}, name: {"dtype", "shape", "data_offsets": [begin, end]},
//   ...}
//
// Offsets count from the start of the data, which they cover without gap or overlap. Data lie
// sorted by size of element, so each tensor is aligned to it; the JSON keeps the caller's order.
#pragma once

#include <map>
#include <string>

#include "framework/tensor/tensor.h"

namespace attnlab {

struct TensorFile {
  NamedTensors tensors;
  std::map<std::string, std::string> metadata;
};

/// Reads a whole file; tensors in the order of the header, on the CPU. Nothing is allocated before
/// the header is found to agree with the size of the file.
/// @throws FileError when it cannot be read, DataError with the path when its content is damaged.
TensorFile read_safetensors(const std::string& path);

/// Writes a file that appears complete or not at all (`AtomicFile`). Dtypes float64, float32,
/// float16, bfloat16, int64, int32, int16, int8, uint8 and bool; tensors may lie on any device.
/// @throws FileError, DataError for a tensor or text that the format cannot hold.
void write_safetensors(const std::string& path, const TensorFile& file);

}  // namespace attnlab
