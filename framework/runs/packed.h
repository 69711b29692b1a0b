// Values one behind another in bytes, for files that this very build reads again. Texts are kept
// once in a table, since most of many records have the same ones.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "framework/base/error.h"

namespace attnlab {

/// Texts, each with a number.
class TextTable {
 public:
  std::uint32_t number_of(std::string_view text) {
    const auto found = numbers_.find(text);
    if (found != numbers_.end()) return found->second;
    const auto number = static_cast<std::uint32_t>(texts_.size());
    numbers_.emplace(texts_.emplace_back(text), number);
    return number;
  }
  const std::deque<std::string>& texts() const { return texts_; }

 private:
  std::deque<std::string> texts_;  // whose elements stay where they are
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

/// Appends values to bytes.
class Packer {
 public:
  explicit Packer(TextTable& table) : table_(table) {}

  /// Of a number, its bytes.
  template <class T>
  void number(T value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    const std::size_t size = bytes_.size();
    bytes_.resize(size + sizeof value);
    std::memcpy(bytes_.data() + size, &value, sizeof value);
  }
  /// In seven bits a byte: most are small.
  void count(std::size_t value) {
    for (; value >= 128; value >>= 7) bytes_ += static_cast<char>(value | 128);
    bytes_ += static_cast<char>(value);
  }
  void text(std::string_view value) { count(table_.number_of(value)); }
  /// A text that no other record has: it is not worth a place in the table.
  void own_text(std::string_view value) {
    count(value.size());
    bytes_ += value;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  TextTable& table_;
  std::string bytes_;
};

/// Takes them out again. @throws DataError where the bytes end too early.
class Unpacker {
 public:
  Unpacker(std::string_view bytes, const std::vector<std::string_view>& table)
      : bytes_(bytes), table_(table) {}

  template <class T>
  T number() {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  /// Of what takes at least a byte each.
  std::size_t count() {
    const std::size_t value = whole();
    if (value > bytes_.size()) throw DataError("damaged");
    return value;
  }
  /// Of one of so many.
  std::size_t place(std::size_t size) {
    const std::size_t value = whole();
    if (value >= size) throw DataError("damaged");
    return value;
  }
  std::string_view text() { return table_[place(table_.size())]; }
  std::string_view own_text() { return take(whole()); }
  std::string_view take(std::size_t size) {
    if (size > bytes_.size()) throw DataError("damaged");
    const std::string_view out = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return out;
  }

 private:
  std::size_t whole() {
    std::size_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1).front());
      value |= static_cast<std::size_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
    throw DataError("damaged");
  }

  std::string_view bytes_;
  const std::vector<std::string_view>& table_;
};

// The same words write a record and read it: `way` is one of these two.

class Saver {
 public:
  static constexpr bool kLoads = false;
  explicit Saver(Packer& packer) : packer_(packer) {}

  void text(const std::string& value) { packer_.text(value); }
  template <class T>
  void number(const T& value) {
    packer_.number(value);
  }
  std::size_t count(std::size_t value) {
    packer_.count(value);
    return value;
  }

 protected:
  Packer& packer_;
};

class Loader {
 public:
  static constexpr bool kLoads = true;
  explicit Loader(Unpacker& unpacker) : unpacker_(unpacker) {}

  void text(std::string& value) { value = unpacker_.text(); }
  template <class T>
  void number(T& value) {
    value = unpacker_.number<T>();
  }
  std::size_t count(std::size_t /*known*/) { return unpacker_.count(); }

 protected:
  Unpacker& unpacker_;
};

/// @param each  called with every value
template <class Way, class List, class Each>
void pack_list(Way& way, List& values, const Each& each) {
  const std::size_t count = way.count(values.size());
  if constexpr (Way::kLoads) values.resize(count);
  for (auto& value : values) each(value);
}

template <class Way, class Texts>
void pack_texts(Way& way, Texts& texts) {
  pack_list(way, texts, [&](auto& text) { way.text(text); });
}

template <class Way, class Numbers>
void pack_numbers(Way& way, Numbers& numbers) {
  pack_list(way, numbers, [&](auto& number) { way.number(number); });
}

/// Of texts to values.
template <class Way, class Map, class Each>
void pack_map(Way& way, Map& values, const Each& each) {
  const std::size_t count = way.count(values.size());
  if constexpr (Way::kLoads) {
    for (std::size_t i = 0; i < count; ++i) {
      std::string key;
      way.text(key);
      each(values.emplace_hint(values.end(), std::move(key), typename Map::mapped_type{})->second);
    }
  } else {
    for (const auto& [key, value] : values) {
      way.text(key);
      each(value);
    }
  }
}

}  // namespace attnlab
