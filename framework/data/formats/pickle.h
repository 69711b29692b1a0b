// Python's pickles, as far as published datasets need them: numbers, texts, lists, tuples, maps,
// arrays of NumPy, sparse matrices of SciPy (as objects with a state), tensors of PyTorch.
//
// Protocols 2 to 5 (and 0 and 1 but for escapes in their texts). Nothing is called and nothing
// imported: a class or a function is a name, and what it would make is an object of that name with
// its arguments and its state. Numbers are given as they are stored, those that are not finite,
// too: whether data may hold such is for their reader to say. A damaged or hostile file ends in a
// DataError. Source: https://docs.python.org/3/library/pickletools.html; PyTorch's
// torch/serialization.py ("legacy" files, which storages are pickled as).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "framework/tensor/tensor.h"

namespace attnlab {

class PickleReader;

/// One value of a pickle; it lives as long as its `Pickle`.
class PickleValue {
 public:
  enum class Kind { none, boolean, integer, real, text, list, map, tensor, object };

  Kind kind() const { return kind_; }
  /// The values themselves. Each throws a DataError that names the file where it is of another
  /// kind.
  std::int64_t integer() const;     ///< a boolean, too, or a tensor of one whole number
  double number() const;            ///< an integer or a real, or a tensor of one number
  const std::string& text() const;  ///< texts and bytes
  const Tensor& tensor() const;     ///< arrays and tensors
  std::int64_t length() const;      ///< of a list, a tuple, or a map
  const PickleValue& item(std::int64_t index) const;  ///< of a list or a tuple
  /// Of a map, by its text.
  const PickleValue& entry(std::string_view key) const;
  const std::vector<std::pair<const PickleValue*, const PickleValue*>>& entries() const;
  /// Of an object: "scipy.sparse.csr.csr_matrix", and what it was given.
  const std::string& class_name() const;
  const PickleValue& state() const;

 private:
  friend class PickleReader;
  using Entry = std::pair<const PickleValue*, const PickleValue*>;

  /// What only some kinds have.
  struct Content {
    std::string text;  ///< of an object: its class
    Tensor tensor;
    std::vector<const PickleValue*> items;  ///< of an object: its arguments
    std::vector<Entry> entries;
    const PickleValue* state = nullptr;
  };

  [[noreturn]] void refuse(const std::string& expected) const;
  /// @throws DataError where it is of another kind.
  const Content& content(Kind kind, const char* expected) const;

  Kind kind_ = Kind::none;
  std::int64_t integer_ = 0;
  double real_ = 0;
  std::unique_ptr<Content> content_;
  const std::string* path_ = nullptr;
};

/// Bytes of PyTorch's storages that lie beside a pickle, by their keys.
using PickleStorages = std::unordered_map<std::string, std::string_view>;

class Pickle {
 public:
  /// @param path      for messages
  /// @param storages  must live as long; null: storages lie within the pickle
  /// @throws DataError with path and offset.
  Pickle(std::string_view bytes, const std::string& path, const PickleStorages* storages = nullptr);
  ~Pickle();
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;

  const PickleValue& root() const { return *root_; }

 private:
  std::unique_ptr<PickleReader> reader_;
  const PickleValue* root_ = nullptr;
};

}  // namespace attnlab
