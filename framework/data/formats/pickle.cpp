#include "framework/data/formats/pickle.h"

#include <fmt/format.h>

#include "framework/data/formats/pickle_reader.h"

namespace attnlab {

using ValueKind = PickleValue::Kind;

void PickleValue::refuse(const std::string& expected) const {
  static constexpr const char* kNames[] = {"None",   "a boolean", "an integer",
                                           "a real", "a text",    "a list",
                                           "a map",  "an array",  "an object"};
  throw DataError(fmt::format("{}: holds {} where {} is expected; it is another file, or damaged",
                              *path_, kNames[static_cast<std::size_t>(kind_)], expected));
}

const PickleValue::Content& PickleValue::content(ValueKind kind, const char* expected) const {
  if (kind_ != kind) refuse(expected);
  return *content_;
}

std::int64_t PickleValue::integer() const {
  if (kind_ == ValueKind::integer || kind_ == ValueKind::boolean) return integer_;
  const bool whole =
      kind_ == ValueKind::tensor && tensor().numel() == 1 && !tensor().is_floating_point();
  if (!whole) refuse("an integer");
  return tensor().to(at::kLong).item<std::int64_t>();
}

double PickleValue::number() const {
  if (kind_ == ValueKind::real) return real_;
  if (kind_ == ValueKind::tensor && tensor().numel() == 1)
    return tensor().to(at::kDouble).item<double>();
  return static_cast<double>(integer());
}

const std::string& PickleValue::text() const { return content(ValueKind::text, "a text").text; }

const Tensor& PickleValue::tensor() const {
  const Tensor& tensor = content(ValueKind::tensor, "an array").tensor;
  if (!tensor.defined()) refuse("an array with values");
  return tensor;
}

std::int64_t PickleValue::length() const {
  if (kind_ == ValueKind::map) return static_cast<std::int64_t>(content_->entries.size());
  return static_cast<std::int64_t>(content(ValueKind::list, "a list").items.size());
}

const PickleValue& PickleValue::item(std::int64_t index) const {
  const auto& items = content(ValueKind::list, "a list").items;
  if (index >= 0 && index < static_cast<std::int64_t>(items.size())) {
    return *items[static_cast<std::size_t>(index)];
  }
  refuse(fmt::format("a list of at least {} values", index + 1));
}

const PickleValue& PickleValue::entry(std::string_view key) const {
  for (const auto& [name, value] : content(ValueKind::map, "a map").entries) {
    if (name->kind_ == ValueKind::text && name->text() == key) return *value;
  }
  refuse(fmt::format("a map with '{}'", key));
}

const std::vector<std::pair<const PickleValue*, const PickleValue*>>& PickleValue::entries() const {
  return content(ValueKind::map, "a map").entries;
}

const std::string& PickleValue::class_name() const {
  return content(ValueKind::object, "an object").text;
}

const PickleValue& PickleValue::state() const {
  const PickleValue* state = content(ValueKind::object, "an object").state;
  if (state == nullptr) refuse("an object with a state");
  return *state;
}

Pickle::Pickle(std::string_view bytes, const std::string& path, const PickleStorages* storages)
    : reader_(std::make_unique<PickleReader>(bytes, path, /*inner=*/false, storages)),
      root_(reader_->read()) {}
Pickle::~Pickle() = default;

}  // namespace attnlab
