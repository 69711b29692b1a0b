// Matrices and heads in plain memory, as the kernels see them: pointers and distances.
#pragma once

#include <c10/core/CPUAllocator.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "framework/tensor/tensor.h"

namespace attnlab {

/// A matrix of any layout: number (i, j) is data[i * row + j * column].
template <class T>
struct Matrix {
  T* data;
  std::int64_t row, column = 1;

  T* at(std::int64_t i, std::int64_t j) const { return data + i * row + j * column; }
  Matrix from_row(std::int64_t i) const { return {data + i * row, row, column}; }
  Matrix transposed() const { return {data, column, row}; }
  Matrix<const T> fixed() const { return {data, row, column}; }
};

/// The heads of a [B, H, L, C] tensor as matrices [L, C].
template <class T>
struct Heads {
  T* data = nullptr;  ///< null: there is no such tensor
  std::int64_t heads = 1, example = 0, head = 0, row = 0, column = 0;

  Heads() = default;
  explicit Heads(const Tensor& x) {
    if (!x.defined()) return;
    data = x.data_ptr<std::remove_const_t<T>>();
    heads = x.size(1), example = x.stride(0), head = x.stride(1);
    row = x.stride(2), column = x.stride(3);
  }

  /// Head number b * H + h.
  Matrix<T> at(std::int64_t i) const {
    return {data + i / heads * example + i % heads * head, row, column};
  }
};

/// Numbers that scratch is cut by: a multiple of every instruction set's vector (64 bytes).
template <class T>
inline constexpr std::int64_t kPadding = 64 / sizeof(T);

/// `count` rounded up to a multiple of kPadding.
template <class T>
constexpr std::int64_t padded(std::int64_t count) {
  return (count + kPadding<T> - 1) / kPadding<T> * kPadding<T>;
}

/// Numbers of a matrix [depth, columns] in panels at most, on any instruction set (product-inl.h).
template <class T>
constexpr std::int64_t panel_room(std::int64_t depth, std::int64_t columns) {
  return depth * padded<T>(columns);
}

/// Numbers on whole lines of cache, uninitialised, from LibTorch's allocator: what measures memory
/// sees them.
template <class T>
class Room {
 public:
  explicit Room(std::int64_t count)
      : bytes_(c10::GetCPUAllocator()->allocate(static_cast<std::size_t>(count) * sizeof(T))) {}
  T* get() const { return static_cast<T*>(bytes_.get()); }

 private:
  c10::DataPtr bytes_;
};

/// Room for matrices, one after another. A copy of it takes the same room again.
template <class T>
struct Scratch {
  T* next;

  T* take(std::int64_t count) {
    T* taken = next;
    next += padded<T>(count);
    return taken;
  }
  Matrix<T> matrix(std::int64_t rows, std::int64_t columns) {
    return {take(rows * padded<T>(columns)), padded<T>(columns)};
  }
};

}  // namespace attnlab
