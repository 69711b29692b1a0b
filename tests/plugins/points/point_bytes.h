// Bytes and numbers of small files of points.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "framework/tensor/tensor.h"

namespace attnlab::testing {

template <class T>
std::string raw(std::initializer_list<T> numbers) {
  std::string bytes;
  for (T number : numbers) {
    char part[sizeof(T)];
    std::memcpy(part, &number, sizeof(T));
    bytes.append(part, sizeof(T));
  }
  return bytes;
}

/// The same with each number's bytes in the other order.
template <class T>
std::string turned(std::initializer_list<T> numbers) {
  std::string bytes;
  for (T number : numbers) {
    const std::string part = raw<T>({number});
    bytes.append(part.rbegin(), part.rend());
  }
  return bytes;
}

/// [N, columns] float64
inline Tensor table(std::initializer_list<double> numbers, std::int64_t columns) {
  return at::tensor(std::vector<double>(numbers)).view({-1, columns});
}

/// An array of NumPy's format. @param header  its dictionary
inline std::string npy(const std::string& header, const std::string& data) {
  std::string text = header;
  text.resize(118, ' ');
  return std::string("\x93NUMPY\x01\x00", 8) + raw<std::uint16_t>({118}) + text + data;
}

}  // namespace attnlab::testing
