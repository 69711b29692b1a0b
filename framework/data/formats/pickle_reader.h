// The machine that reads pickles, for framework/data/formats/pickle.h alone.
//
// It has a stack and a memo, as Python's: docs of `pickletools` have every operation. Those are in
// pickle_operations.cpp; what calls make (arrays, tensors) is in pickle_arrays.cpp.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <unordered_map>

#include "framework/data/formats/pickle.h"

namespace attnlab {

class PickleReader {
 public:
  /// @param inner  of a tensor within a pickle, which holds no further ones
  PickleReader(std::string_view bytes, const std::string& path, bool inner = false,
               const PickleStorages* storages = nullptr)
      : bytes_(bytes), path_(path), inner_(inner), storages_(storages), size_(bytes.size()) {
    if (storages == nullptr) return;
    for (const auto& [key, storage] : *storages) size_ += storage.size();
  }

  /// The next pickle of the bytes.
  const PickleValue* read() {
    stack_.clear();
    marks_.clear();
    memo_.clear();
    while (true) {
      const auto code = static_cast<unsigned char>(take(1)[0]);
      if (code == '.') return pop();
      step(code);
    }
  }
  std::string_view rest() const { return bytes_.substr(at_); }

 private:
  using ValueKind = PickleValue::Kind;
  using Content = PickleValue::Content;

  /// Of what stands for a storage of PyTorch, which lies outside the pickle.
  static constexpr const char* kPersistent = "a persistent object";

  [[noreturn]] void fail(const std::string& what) const;

  // -- bytes --

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) fail("the pickle is cut off");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  template <class Number>
  Number number() {
    Number value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string line();
  std::int64_t decimal(std::string text) const;

  // -- values --

  /// A kept value costs a few bytes to copy, however large it is: a file of a megabyte could ask
  /// for all memory there is.
  void made(std::uint64_t bytes) {
    constexpr std::uint64_t kAlways = std::uint64_t{1} << 28, kMostPacking = 100;
    made_ += bytes;
    if (made_ > std::max<std::uint64_t>(kAlways, kMostPacking * size_)) {
      fail("it makes far more of its bytes than data do");
    }
  }
  PickleValue* make(ValueKind kind) {
    PickleValue& value = values_.emplace_back();
    value.kind_ = kind;
    value.path_ = &path_;
    if (kind >= ValueKind::text) value.content_ = std::make_unique<Content>();
    return &value;
  }
  void push(PickleValue* value) { stack_.push_back(value); }
  void push_integer(std::int64_t integer) {
    push(make(ValueKind::integer));
    stack_.back()->integer_ = integer;
  }
  void push_real(double real) {
    push(make(ValueKind::real));
    stack_.back()->real_ = real;
  }
  void push_text(std::string_view text) {
    made(text.size());
    push(make(ValueKind::text));
    stack_.back()->content_->text = text;
  }
  void push_boolean(bool truth) {
    push(make(ValueKind::boolean));
    stack_.back()->integer_ = truth ? 1 : 0;
  }
  PickleValue* top() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail("its stack is empty");
    return stack_.back();
  }
  PickleValue* pop() {
    PickleValue* value = top();
    stack_.pop_back();
    return value;
  }
  /// What lies above the last mark.
  std::vector<PickleValue*> pop_to_mark() {
    if (marks_.empty()) fail("a mark is missing");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<PickleValue*> values(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return values;
  }
  void push_list(const std::vector<PickleValue*>& items) {
    made(sizeof(void*) * items.size());
    push(make(ValueKind::list));
    stack_.back()->content_->items.assign(items.begin(), items.end());
  }
  void push_tuple(std::size_t count) {
    std::vector<PickleValue*> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    push_list(items);
  }
  PickleValue* top_of(ValueKind kind) {
    if (top()->kind_ != kind) fail("an operation meets a value of another kind");
    return top();
  }
  void append(const std::vector<PickleValue*>& items) {
    auto& all = top_of(ValueKind::list)->content_->items;
    all.insert(all.end(), items.begin(), items.end());
  }
  void set_items(const std::vector<PickleValue*>& items) {
    if (items.size() % 2 != 0) fail("a map has a key without a value");
    PickleValue* map = top();
    if (map->kind_ == ValueKind::object) return;  // of a class derived from dict
    map = top_of(ValueKind::map);
    for (std::size_t i = 0; i < items.size(); i += 2) {
      map->content_->entries.emplace_back(items[i], items[i + 1]);
    }
  }
  void push_object(const std::string& name, const std::vector<const PickleValue*>& arguments) {
    made(name.size() + sizeof(void*) * arguments.size());
    push(make(ValueKind::object));
    stack_.back()->content_->text = name;
    stack_.back()->content_->items = arguments;
  }
  void recall(std::int64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) fail("it asks for a value that was not kept");
    push(found->second);
  }

  void step(unsigned char code);
  void reduce();
  void build();
  void build_array(PickleValue& array, const PickleValue& state);
  void fill_array(PickleValue& array, const std::string& bytes, const PickleValue& dtype,
                  const PickleValue& shape, bool by_columns);
  std::vector<std::int64_t> sizes_of(const PickleValue& shape);
  Tensor storage_of(const std::string& bytes);
  Tensor storage_beside(const PickleValue& id);
  Tensor strided(const std::vector<const PickleValue*>& arguments);
  at::ScalarType numpy_dtype(const PickleValue& dtype);
  at::ScalarType torch_dtype(const std::string& type) const;
  Tensor tensor_of(std::string_view bytes, at::ScalarType dtype);
  void push_scalar(const PickleValue& dtype, const std::string& bytes);

  std::string_view bytes_;
  const std::string path_;
  bool inner_;
  const PickleStorages* storages_;
  std::uint64_t size_;  ///< of the pickle and the storages
  std::size_t at_ = 0;
  std::uint64_t made_ = 0;  ///< bytes of values, which are kept to the end
  std::deque<PickleValue> values_;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::int64_t, PickleValue*> memo_;
  std::unordered_map<std::string, Tensor> beside_;  ///< storages that were asked for
};

}  // namespace attnlab
