// Tensors in files: the safetensors format (https://github.com/huggingface/safetensors).
//
//   u64 N, little-endian | N bytes of JSON | data
//   JSON: {"__metadata__": {text: text}, name: {"dtype", "shape", "data_offsets": [begin, end]},
//   ...}
//
// Offsets count from the start of the data, which they cover without gap or overlap. Data lie
// sorted by size of element, so each tensor is aligned to it; the JSON keeps the caller's order.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "framework/tensor/tensor.h"

namespace attnlab {

struct TensorFile {
  NamedTensors tensors;
  std::map<std::string, std::string> metadata;
};

/// What has the numbers of a tensor of a file, in its shape and dtype.
using TensorNumbers = std::function<Tensor(const std::string& name, const Tensor& tensor)>;

/// Reads a whole file; tensors in the order of the header, on the CPU. Nothing is allocated before
/// the header is found to agree with the size of the file.
/// @throws FileError when it cannot be read, DataError with the path when its content is damaged.
TensorFile read_safetensors(const std::string& path);

/// Writes a file that appears complete or not at all (`AtomicFile`). Dtypes float64, float32,
/// float16, bfloat16, int64, int32, int16, int8, uint8 and bool; tensors may lie on any device.
/// @param numbers  what holds the numbers of a tensor of the file, asked for when they are written:
///                 that of the file may be on the device `meta`, which takes no memory; null: the
///                 file's own do
/// @throws FileError, DataError for a tensor or text that the format cannot hold.
void write_safetensors(const std::string& path, const TensorFile& file,
                       const TensorNumbers& numbers = nullptr);

}  // namespace attnlab
