// What the calls in a pickle make: see pickle_reader.h.
#include <c10/util/accumulate.h>
#include <fmt/format.h>

#include <algorithm>

#include "framework/data/formats/pickle_reader.h"

namespace attnlab {
namespace {

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

/// A call of a function or a class: the few that are known give values, others objects.
void PickleReader::reduce() {
  const PickleValue* arguments = pop();
  const std::string name = pop()->class_name();
  if (name == kPersistent) fail("it calls a storage");
  const auto& given = arguments->content(ValueKind::list, "arguments").items;
  const auto argument = [&](std::int64_t i) -> const PickleValue& { return arguments->item(i); };
  if (name.ends_with("multiarray._reconstruct")) {
    push(make(ValueKind::tensor));                     // filled by BUILD
  } else if (name.ends_with("numeric._frombuffer")) {  // (bytes, dtype, shape, "C" or "F")
    PickleValue* array = make(ValueKind::tensor);
    fill_array(*array, argument(0).text(), argument(1), argument(2), argument(3).text() == "F");
    push(array);
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
  } else if (name == "torch.jit._pickle.restore_type_tag" && !given.empty()) {
    push(const_cast<PickleValue*>(given.front()));  // LibTorch's: (value, "List[Any]")
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
    made(sizeof(void*) * data.content_->items.size());
    array.kind_ = ValueKind::list;
    array.content_->items = data.content_->items;
    return;
  }
  fill_array(array, data.text(), state.item(2), shape, state.item(3).integer() != 0);
}

/// Sizes that a tensor can have.
std::vector<std::int64_t> PickleReader::sizes_of(const PickleValue& shape) {
  constexpr std::int64_t kMostDimensions = 64;  // LibTorch reduces over no more
  if (shape.length() > kMostDimensions) fail("an array has an impossible shape");
  std::vector<std::int64_t> sizes;
  std::int64_t span = 1;  // a zero must not hide other sizes that no tensor can have
  for (std::int64_t d = 0; d < shape.length(); ++d) {
    sizes.push_back(shape.item(d).integer());
    const bool overflow =
        sizes.back() < 0 ||
        __builtin_mul_overflow(span, std::max<std::int64_t>(sizes.back(), 1), &span);
    if (overflow) fail("an array has an impossible shape");
  }
  return sizes;
}

void PickleReader::fill_array(PickleValue& array, const std::string& bytes,
                              const PickleValue& dtype, const PickleValue& shape, bool by_columns) {
  Tensor values = tensor_of(bytes, numpy_dtype(dtype));
  std::vector<std::int64_t> sizes = sizes_of(shape);
  const std::int64_t count = c10::multiply_integers(sizes);
  if (count != values.numel()) {
    fail(fmt::format("an array holds {} values, its shape needs {}", values.numel(), count));
  }
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
  made(bytes.size());
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
  if (storage->class_name() != kPersistent || storage->content_->items.size() != 1)
    fail("a tensor's storage is of an unknown layout");
  const std::string type = storage->content_->items.front()->item(1).class_name();
  if (file.read()->length() != 1) fail("a tensor has several storages");
  const std::string_view values = file.rest();
  if (values.size() < 8) fail("a tensor's storage is cut off");
  return tensor_of(values.substr(8), torch_dtype(type));
}

/// ("storage", class, key, device, length): what stands under that key in the file that the pickle
/// is part of.
Tensor PickleReader::storage_beside(const PickleValue& id) {
  const std::string &type = id.item(1).class_name(), &key = id.item(2).text();
  const auto found = storages_->find(key);
  if (found == storages_->end()) fail("a tensor's storage is not in the file");
  Tensor& storage = beside_[type + "/" + key];
  if (!storage.defined()) storage = tensor_of(found->second, torch_dtype(type));
  return storage;
}

at::ScalarType PickleReader::torch_dtype(const std::string& type) const {
  for (const auto& [known, dtype] : kTorch) {
    if (type == known) return dtype;
  }
  fail(fmt::format("a tensor is a {}, which is not read here", type));
}

/// (storage, offset, sizes, strides, ...)
Tensor PickleReader::strided(const std::vector<const PickleValue*>& arguments) {
  if (arguments.size() < 4) fail("a tensor lacks its shape");
  const Tensor& storage = arguments[0]->tensor();
  const std::int64_t offset = arguments[1]->integer();
  const PickleValue& strides = *arguments[3];
  const std::vector<std::int64_t> size = sizes_of(*arguments[2]);
  const std::int64_t count = c10::multiply_integers(size);
  std::vector<std::int64_t> stride;
  std::int64_t last = offset;
  bool fits = offset >= 0 && std::int64_t(size.size()) == strides.length();
  for (std::size_t d = 0; fits && d < size.size(); ++d) {
    stride.push_back(strides.item(std::int64_t(d)).integer());
    std::int64_t span = 0;
    fits = stride.back() >= 0 && !__builtin_mul_overflow(size[d] - 1, stride.back(), &span) &&
           !__builtin_add_overflow(last, span, &last);
  }
  if (!fits || count > storage.numel() || (count > 0 && last >= storage.numel())) {
    fail("a tensor reaches beyond its storage");
  }
  if (count == 0) return at::empty(size, storage.options());
  const Tensor view = storage.as_strided(size, stride, offset);
  if (count == storage.numel() && view.is_contiguous()) return view;  // as most are
  made(std::uint64_t(count) * storage.element_size());
  return view.clone(at::MemoryFormat::Contiguous);
}

}  // namespace attnlab
