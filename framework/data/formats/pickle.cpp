#include "framework/data/formats/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <unordered_map>

namespace attnlab {

using ValueKind = PickleValue::Kind;

namespace {

constexpr const char* kPersistent = "a persistent object";

struct Dtype {
  std::string_view name;
  at::ScalarType dtype;
};
constexpr Dtype kNumpy[] = {{"b1", at::kBool},  {"u1", at::kByte},  {"i1", at::kChar},
                            {"i2", at::kShort}, {"i4", at::kInt},   {"i8", at::kLong},
                            {"f2", at::kHalf},  {"f4", at::kFloat}, {"f8", at::kDouble}};
constexpr Dtype kTorch[] = {{"torch.BoolStorage", at::kBool},    {"torch.ByteStorage", at::kByte},
                            {"torch.CharStorage", at::kChar},    {"torch.ShortStorage", at::kShort},
                            {"torch.IntStorage", at::kInt},      {"torch.LongStorage", at::kLong},
                            {"torch.HalfStorage", at::kHalf},    {"torch.FloatStorage", at::kFloat},
                            {"torch.DoubleStorage", at::kDouble}};

/// The bytes whose code points the text holds.
std::string latin1_of(const std::string& utf8) {
  std::string bytes;
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    const auto byte = static_cast<unsigned char>(utf8[i]);
    const bool two = (byte == 0xc2 || byte == 0xc3) && i + 1 < utf8.size();
    bytes += two ? static_cast<char>((byte & 3) << 6 | (utf8[++i] & 0x3f)) : utf8[i];
  }
  return bytes;
}

}  // namespace

// --- reading ------------------------------------------------------------------------------------

/// A machine with a stack and a memo, as Python's: docs of `pickletools` have every operation.
class PickleReader {
 public:
  /// @param inner  of a tensor within a pickle, which holds no further ones
  PickleReader(std::string_view bytes, const std::string& path, bool inner = false)
      : bytes_(bytes), path_(path), inner_(inner) {}

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
  using Content = PickleValue::Content;

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(
        fmt::format("{}: byte {}: {}; the file is damaged, or no pickle of the kind "
                    "that is read here",
                    path_, at_, what));
  }

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
  std::string line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) fail("a line does not end");
    std::string text(take(end - at_));
    take(1);
    return text;
  }
  std::int64_t decimal(std::string text) {
    if (!text.empty() && text.back() == 'L') text.pop_back();
    char* end = nullptr;
    const long long value = std::strtoll(text.c_str(), &end, 10);
    if (text.empty() || *end != '\0') fail("'" + text + "' is no number");
    return value;
  }

  // -- values --

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
  Tensor storage_of(const std::string& bytes);
  Tensor strided(const std::vector<const PickleValue*>& arguments);
  at::ScalarType numpy_dtype(const PickleValue& dtype);
  Tensor tensor_of(std::string_view bytes, at::ScalarType dtype);
  void push_scalar(const PickleValue& dtype, const std::string& bytes);

  std::string_view bytes_;
  const std::string path_;
  bool inner_;
  std::size_t at_ = 0;
  std::deque<PickleValue> values_;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::int64_t, PickleValue*> memo_;
};

void PickleReader::step(unsigned char code) {
  switch (code) {
    case 0x80:
      take(1);
      return;  // PROTO
    case 0x95:
      take(8);
      return;  // FRAME
    case '(':
      marks_.push_back(stack_.size());
      return;  // MARK
    case '0':
      pop();
      return;  // POP
    case '1':
      pop_to_mark();
      return;  // POP_MARK
    case '2':
      push(top());
      return;  // DUP
    case 'N':
      push(make(ValueKind::none));
      return;  // NONE
    case 0x88:
      push_boolean(true);
      return;  // NEWTRUE
    case 0x89:
      push_boolean(false);
      return;  // NEWFALSE
    case 'J':
      push_integer(number<std::int32_t>());
      return;  // BININT
    case 'K':
      push_integer(number<std::uint8_t>());
      return;  // BININT1
    case 'M':
      push_integer(number<std::uint16_t>());
      return;    // BININT2
    case 'I': {  // INT, and protocol 0's booleans
      const std::string text = line();
      text == "00" || text == "01" ? push_boolean(text == "01") : push_integer(decimal(text));
      return;
    }
    case 'L':
      push_integer(decimal(line()));
      return;     // LONG
    case 0x8a:    // LONG1
    case 0x8b: {  // LONG4
      const std::string_view digits =
          take(code == 0x8a ? number<std::uint8_t>() : number<std::uint32_t>());
      if (digits.size() > 8) return push_text(digits);  // no such number is needed
      const bool negative = !digits.empty() && (digits.back() & 0x80) != 0;
      std::int64_t value = negative ? -1 : 0;
      std::memcpy(&value, digits.data(), digits.size());
      return push_integer(value);
    }
    case 'F':
      push_real(std::strtod(line().c_str(), nullptr));
      return;    // FLOAT
    case 'G': {  // BINFLOAT, big-endian
      const auto bits = __builtin_bswap64(number<std::uint64_t>());
      double value;
      std::memcpy(&value, &bits, sizeof value);
      return push_real(value);
    }
    case 'S': {  // STRING, in quotes
      const std::string text = line();
      if (text.size() < 2) fail("a text has no quotes");
      return push_text(std::string_view(text).substr(1, text.size() - 2));
    }
    case 'V':
      push_text(line());
      return;  // UNICODE
    case 'U':  // SHORT_BINSTRING
    case 'C':  // SHORT_BINBYTES
    case 0x8c:
      push_text(take(number<std::uint8_t>()));
      return;  // SHORT_BINUNICODE
    case 'T':  // BINSTRING
    case 'B':  // BINBYTES
    case 'X':
      push_text(take(number<std::uint32_t>()));
      return;   // BINUNICODE
    case 0x8d:  // BINUNICODE8
    case 0x8e:  // BINBYTES8
    case 0x96:
      push_text(take(number<std::uint64_t>()));
      return;  // BYTEARRAY8
    case ']':  // EMPTY_LIST
    case ')':  // EMPTY_TUPLE
    case 0x8f:
      push_list({});
      return;    // EMPTY_SET
    case 'a': {  // APPEND
      PickleValue* item = pop();
      return append({item});
    }
    case 'e':  // APPENDS
    case 0x90:
      append(pop_to_mark());
      return;  // ADDITEMS
    case 'l':  // LIST
    case 't':  // TUPLE
    case 0x91:
      push_list(pop_to_mark());
      return;   // FROZENSET
    case 0x85:  // TUPLE1
    case 0x86:  // TUPLE2
    case 0x87:
      push_tuple(code - 0x84u);
      return;  // TUPLE3
    case '}':
      push(make(ValueKind::map));
      return;    // EMPTY_DICT
    case 'd': {  // DICT
      const std::vector<PickleValue*> items = pop_to_mark();
      push(make(ValueKind::map));
      return set_items(items);
    }
    case 's': {  // SETITEM
      PickleValue* value = pop();
      PickleValue* key = pop();
      return set_items({key, value});
    }
    case 'u':
      set_items(pop_to_mark());
      return;    // SETITEMS
    case 'c': {  // GLOBAL
      const std::string module = line();
      return push_object(module + "." + line(), {});
    }
    case 0x93: {  // STACK_GLOBAL
      const std::string name = pop()->text();
      return push_object(pop()->text() + "." + name, {});
    }
    case 'R':  // REDUCE
    case 0x81:
      reduce();
      return;  // NEWOBJ
    case 0x92:
      pop();
      reduce();
      return;  // NEWOBJ_EX, without the named arguments
    case 'b':
      build();
      return;  // BUILD
    case 'p':
      memo_[decimal(line())] = top();
      return;  // PUT
    case 'q':
      memo_[number<std::uint8_t>()] = top();
      return;  // BINPUT
    case 'r':
      memo_[number<std::uint32_t>()] = top();
      return;     // LONG_BINPUT
    case 0x94: {  // MEMOIZE
      const auto next = static_cast<std::int64_t>(memo_.size());
      memo_[next] = top();
      return;
    }
    case 'g':
      recall(decimal(line()));
      return;  // GET
    case 'h':
      recall(number<std::uint8_t>());
      return;  // BINGET
    case 'j':
      recall(number<std::uint32_t>());
      return;    // LONG_BINGET
    case 'Q': {  // BINPERSID
      const PickleValue* id = pop();
      return push_object(kPersistent, {id});
    }
    default:
      fail(fmt::format("operation 0x{:02x} is not known", code));
  }
}

/// A call of a function or a class: the few that are known give values, others objects.
void PickleReader::reduce() {
  const PickleValue* arguments = pop();
  const std::string name = pop()->class_name();
  const auto& given = arguments->content(ValueKind::list, "arguments").items;
  const auto argument = [&](std::int64_t i) -> const PickleValue& { return arguments->item(i); };
  if (name.ends_with("multiarray._reconstruct")) {
    push(make(ValueKind::tensor));  // filled by BUILD
  } else if (name.ends_with("multiarray.scalar")) {
    push_scalar(argument(0), argument(1).text());
  } else if (name == "_codecs.encode") {
    push_text(latin1_of(argument(0).text()));
  } else if (name == "collections.defaultdict" || name == "collections.OrderedDict") {
    push(make(ValueKind::map));
  } else if (name == "torch.storage._load_from_bytes") {
    push(make(ValueKind::tensor));
    stack_.back()->content_->tensor = storage_of(argument(0).text());
  } else if (name == "torch._utils._rebuild_tensor_v2" || name == "torch._utils._rebuild_tensor") {
    const Tensor tensor = strided(given);
    push(make(ValueKind::tensor));
    stack_.back()->content_->tensor = tensor;
  } else {
    push_object(name, given);
  }
}

/// Gives an object its state.
void PickleReader::build() {
  const PickleValue* state = pop();
  PickleValue* object = top();
  if (object->kind_ == ValueKind::tensor && !object->content_->tensor.defined()) {
    build_array(*object, *state);
  } else if (object->kind_ == ValueKind::object) {
    object->content_->state = state;
  }
}

/// NumPy's state: (version, shape, dtype, whether columns lie together, bytes or a list of
/// objects).
void PickleReader::build_array(PickleValue& array, const PickleValue& state) {
  const PickleValue &shape = state.item(1), &data = state.item(4);
  if (data.kind() == ValueKind::list) {  // of objects
    array.kind_ = ValueKind::list;
    array.content_->items = data.content_->items;
    return;
  }
  Tensor values = tensor_of(data.text(), numpy_dtype(state.item(2)));
  std::vector<std::int64_t> sizes;
  std::int64_t count = 1;
  for (std::int64_t d = 0; d < shape.length(); ++d) {
    sizes.push_back(shape.item(d).integer());
    const bool overflow = sizes.back() < 0 || __builtin_mul_overflow(count, sizes.back(), &count);
    if (overflow) fail("an array has an impossible shape");
  }
  if (count != values.numel()) {
    fail(fmt::format("an array holds {} values, its shape needs {}", values.numel(), count));
  }
  const bool by_columns = state.item(3).integer() != 0;
  if (by_columns) std::reverse(sizes.begin(), sizes.end());
  values = values.view(sizes);
  if (by_columns)
    values = values.permute([&] {
      std::vector<std::int64_t> order;
      for (std::int64_t d = values.dim(); d-- > 0;) order.push_back(d);
      return order;
    }());
  array.content_->tensor = values.contiguous();
}

at::ScalarType PickleReader::numpy_dtype(const PickleValue& dtype) {
  const auto& content = dtype.content(ValueKind::object, "a dtype");
  const std::string name = content.items.empty() ? "" : content.items.front()->text();
  const std::string order = content.state == nullptr ? "<" : content.state->item(1).text();
  for (const auto& [known, type] : kNumpy) {
    if (name == known && order != ">") return type;
  }
  fail(fmt::format("an array of dtype '{}{}' is not read here", order, name));
}

Tensor PickleReader::tensor_of(std::string_view bytes, at::ScalarType dtype) {
  const std::size_t size = c10::elementSize(dtype);
  if (bytes.size() % size != 0) fail("an array ends within a value");
  const Tensor tensor = at::empty({std::int64_t(bytes.size() / size)}, dtype);
  if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  if (dtype == at::kBool && bytes.find_first_not_of(std::string_view("\0\1", 2)) != bytes.npos) {
    fail("an array of truths holds other bytes");
  }
  return tensor;
}

void PickleReader::push_scalar(const PickleValue& dtype, const std::string& bytes) {
  const Tensor value = tensor_of(bytes, numpy_dtype(dtype));
  if (value.numel() != 1) fail("a number has no value");
  value.is_floating_point() ? push_real(value.item<double>())
                            : push_integer(value.to(at::kLong).item<std::int64_t>());
}

/// A PyTorch storage, pickled as the bytes of a file of its own: four pickles (a magic number, a
/// version, the system, the storage's name), a list of names, and for each a length and the values.
Tensor PickleReader::storage_of(const std::string& bytes) {
  if (inner_) fail("a tensor's storage holds a tensor");
  PickleReader file(bytes, path_, /*inner=*/true);
  for (int i = 0; i < 3; ++i) file.read();
  const PickleValue* storage = file.read();
  if (storage->class_name() != kPersistent) fail("a tensor's storage is of an unknown layout");
  const std::string type = storage->content_->items.front()->item(1).class_name();
  if (file.read()->length() != 1) fail("a tensor has several storages");
  const std::string_view values = file.rest();
  for (const auto& [known, dtype] : kTorch) {
    if (type == known && values.size() >= 8) return tensor_of(values.substr(8), dtype);
  }
  fail("a tensor is a " + type + ", which is not read here");
}

/// (storage, offset, sizes, strides, ...)
Tensor PickleReader::strided(const std::vector<const PickleValue*>& arguments) {
  if (arguments.size() < 4) fail("a tensor lacks its shape");
  const Tensor& storage = arguments[0]->tensor();
  const std::int64_t offset = arguments[1]->integer();
  const PickleValue &sizes = *arguments[2], &strides = *arguments[3];
  std::vector<std::int64_t> size, stride;
  std::int64_t last = offset, count = 1;
  bool fits = offset >= 0 && sizes.length() == strides.length();
  for (std::int64_t d = 0; fits && d < sizes.length(); ++d) {
    size.push_back(sizes.item(d).integer());
    stride.push_back(strides.item(d).integer());
    std::int64_t span = 0;
    fits = size.back() >= 0 && stride.back() >= 0 &&
           !__builtin_mul_overflow(size.back() - 1, stride.back(), &span) &&
           !__builtin_add_overflow(last, span, &last) &&
           !__builtin_mul_overflow(count, size.back(), &count);
  }
  if (!fits || count > storage.numel() || (count > 0 && last >= storage.numel())) {
    fail("a tensor reaches beyond its storage");
  }
  if (count == 0) return at::empty(size, storage.options());
  return storage.as_strided(size, stride, offset).clone(at::MemoryFormat::Contiguous);
}

// --- values -------------------------------------------------------------------------------------

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

Pickle::Pickle(std::string_view bytes, const std::string& path)
    : reader_(std::make_unique<PickleReader>(bytes, path)), root_(reader_->read()) {}
Pickle::~Pickle() = default;

}  // namespace attnlab
