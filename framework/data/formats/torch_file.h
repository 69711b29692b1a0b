// Files of PyTorch's torch.save, from 1.6 on: a zip of a pickle, NAME/data.pkl, and of what tensors
// hold, NAME/data/0, NAME/data/1, ...
//
// Read without LibTorch's own reader, which trusts such a file: it nests values without end and
// believes a storage's length. Source: PyTorch's torch/serialization.py.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "framework/data/formats/pickle.h"

namespace attnlab {

class TorchFile {
 public:
  /// @param bytes  of the file; they must live as long
  /// @param path   for messages
  /// @throws DataError with path where it is no such file, or damaged.
  TorchFile(std::string_view bytes, const std::string& path);
  TorchFile(const TorchFile&) = delete;
  TorchFile& operator=(const TorchFile&) = delete;

  const PickleValue& root() const { return pickle_->root(); }

 private:
  PickleStorages storages_;
  std::optional<Pickle> pickle_;
};

}  // namespace attnlab
