#include "framework/data/formats/safetensors.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/json_walk.h"

namespace attnlab {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

using Json = nlohmann::json;  // sorted: headers of many names stay cheap to look up
constexpr const char* kMetadata = "__metadata__";
constexpr std::uint64_t kLargestHeader = 100'000'000;  // as in the reference implementation
constexpr std::size_t kMostTensors = 32'768;           // NamedTensors is searched from end to end
constexpr int kDeepest = 3;              // maps and lists around a value: file, tensor, shape
constexpr std::size_t kBlock = 1 << 15;  // what is written together: models have many small tensors

struct DtypeName {
  std::string_view name;
  at::ScalarType dtype;
};
constexpr std::array<DtypeName, 10> kDtypes = {{{"F64", at::kDouble},
                                                {"F32", at::kFloat},
                                                {"F16", at::kHalf},
                                                {"BF16", at::kBFloat16},
                                                {"I64", at::kLong},
                                                {"I32", at::kInt},
                                                {"I16", at::kShort},
                                                {"I8", at::kChar},
                                                {"U8", at::kByte},
                                                {"BOOL", at::kBool}}};

/// What the header says of one tensor.
struct Entry {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;
};

/// A file open for reading, with its size.
class Input {
 public:
  explicit Input(const std::string& path) : path_(path) {
    std::error_code error;
    size_ = std::filesystem::file_size(path, error);
    if (error) throw FileError(fmt::format("{}: cannot read: {}", path, error.message()));
    file_.reset(std::fopen(path.c_str(), "rbe"));
    if (!file_) throw FileError(fmt::format("{}: cannot read: {}", path, std::strerror(errno)));
  }
  std::uint64_t size() const { return size_; }
  void read(std::uint64_t offset, void* out, std::uint64_t count) {
    if (count == 0) return;
    if (::fseeko(file_.get(), static_cast<off_t>(offset), SEEK_SET) == 0 &&
        std::fread(out, 1, count, file_.get()) == count) {
      return;
    }
    throw FileError(
        fmt::format("{}: cannot read {} bytes at byte {}: {}", path_, count, offset,
                    std::ferror(file_.get()) ? std::strerror(errno) : "the file has shrunk"));
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::uint64_t size_ = 0;
  std::unique_ptr<std::FILE, Close> file_;
};

/// Looks through a header before anything is built of it.
class Outline final : public JsonWalk {
 public:
  std::vector<std::string> names;  ///< of the outermost map, in their order
  std::string problem;             ///< why this is not a header; empty: none found

  bool key(string_t& name) override {
    if (depth() != 1) return true;
    if (!seen_.insert(name).second) {
      return refuse(fmt::format("has the name {} twice", excerpt(name)));
    }
    names.push_back(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override {
    return refuse(fmt::format("is not JSON ({})", one_line(error.what())));
  }

 private:
  bool opened(int depth) override { return depth <= kDeepest || refuse("is nested too deeply"); }
  bool refuse(const std::string& why) {
    problem = why;
    return false;
  }

  std::set<std::string> seen_;
};

/// A safetensors header under examination; every refusal names the file.
class Header {
 public:
  Header(std::string path, std::uint64_t data_size)
      : path_(std::move(path)), data_size_(data_size) {}

  /// Fills `entries`, in the order of the header, and `metadata`.
  void parse(const std::string& text) {
    std::vector<std::string> names;
    const Json json = parse_json(text, names);
    if (!json.is_object()) fail("its header is not a JSON object");
    for (const std::string& name : names) {
      if (name == kMetadata) {
        read_metadata(json.at(name));
      } else if (entries.size() < kMostTensors) {
        entries.push_back(read_entry(name, json.at(name)));
      } else {
        fail(fmt::format("it claims more than {} tensors", kMostTensors));
      }
    }
    check_cover();
  }

  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(fmt::format("{}: {}; the file is damaged or not safetensors", path_, what));
  }

  /// @param names  gets the names of the outermost map, in their order.
  Json parse_json(const std::string& text, std::vector<std::string>& names) const {
    Outline outline;
    Json::sax_parse(text, &outline);
    if (!outline.problem.empty()) fail("its header " + outline.problem);
    names = std::move(outline.names);
    return Json::parse(text);
  }

  void read_metadata(const Json& value) {
    if (!value.is_object()) fail("its __metadata__ is not a map");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string())
        fail(fmt::format("the __metadata__ of {} is not a text", excerpt(key)));
      metadata[key] = text.get<std::string>();
    }
  }

  Entry read_entry(const std::string& name, const Json& value) const {
    const std::string where = fmt::format("tensor {}: ", excerpt(name));
    if (!value.is_object()) fail(where + "its description is not a map");
    Entry entry;
    entry.name = name;
    entry.dtype = read_dtype(where, value);
    for (const std::uint64_t size : read_counts(where, value, "shape")) {
      entry.shape.push_back(static_cast<std::int64_t>(size));
    }
    const std::vector<std::uint64_t> offsets = read_counts(where, value, "data_offsets");
    if (offsets.size() != 2) fail(where + "'data_offsets' are not two numbers");
    entry.begin = offsets[0];
    entry.end = offsets[1];
    check_size(where, entry);
    return entry;
  }

  at::ScalarType read_dtype(const std::string& where, const Json& value) const {
    const auto found = value.find("dtype");
    if (found == value.end() || !found->is_string()) fail(where + "it has no 'dtype'");
    for (const auto& [name, dtype] : kDtypes) {
      if (*found == name) return dtype;
    }
    throw DataError(
        fmt::format("{}: {}its dtype {} is not supported; convert it to F32 or another common one",
                    path_, where, excerpt(found->get<std::string>())));
  }

  std::vector<std::uint64_t> read_counts(const std::string& where, const Json& value,
                                         const char* key) const {
    const auto found = value.find(key);
    if (found == value.end() || !found->is_array())
      fail(fmt::format("{}it has no list '{}'", where, key));
    std::vector<std::uint64_t> counts;
    for (const Json& item : *found) {
      const bool fits = item.is_number_unsigned() && item.get<std::uint64_t>() < 1ULL << 62;
      if (!fits)
        fail(
            fmt::format("{}'{}' holds {}, which is not a size", where, key, one_line(item.dump())));
      counts.push_back(item.get<std::uint64_t>());
    }
    return counts;
  }

  void check_size(const std::string& where, const Entry& entry) const {
    if (entry.begin > entry.end || entry.end > data_size_) {
      fail(fmt::format("{}bytes {} to {} are not within the {} bytes of data", where, entry.begin,
                       entry.end, data_size_));
    }
    // A zero among the sizes must not hide others that no tensor can have.
    std::int64_t span = static_cast<std::int64_t>(c10::elementSize(entry.dtype));
    bool overflow = false, empty = false;
    for (const std::int64_t size : entry.shape) {
      overflow |= __builtin_mul_overflow(span, std::max<std::int64_t>(size, 1), &span);
      empty |= size == 0;
    }
    const std::uint64_t bytes = empty ? 0 : static_cast<std::uint64_t>(span);
    if (overflow || bytes != entry.end - entry.begin) {
      fail(fmt::format("{}its shape needs {} bytes, its offsets give {}", where,
                       overflow ? "too many" : std::to_string(bytes), entry.end - entry.begin));
    }
  }

  /// The tensors must cover the data exactly.
  void check_cover() const {
    std::vector<const Entry*> sorted;
    for (const Entry& entry : entries) sorted.push_back(&entry);
    std::stable_sort(sorted.begin(), sorted.end(), [](const Entry* a, const Entry* b) {
      return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
    });
    std::uint64_t reached = 0;
    for (const Entry* entry : sorted) {
      if (entry->begin != reached) {
        fail(fmt::format("tensor {} begins at byte {} of the data, {} another that ends at {}",
                         excerpt(entry->name), entry->begin,
                         entry->begin < reached ? "inside" : "after a gap behind", reached));
      }
      reached = entry->end;
    }
    if (reached != data_size_) {
      fail(fmt::format("{} bytes follow the last tensor", data_size_ - reached));
    }
  }

  std::string path_;
  std::uint64_t data_size_;
};

std::string name_of_dtype(const std::string& name, const Tensor& tensor) {
  if (!tensor.defined())
    throw DataError(fmt::format("tensor {} is undefined and cannot be saved", excerpt(name)));
  for (const auto& [text, dtype] : kDtypes) {
    if (tensor.scalar_type() == dtype) return std::string(text);
  }
  throw DataError(fmt::format("tensor {} is {}, a dtype that safetensors files cannot hold here",
                              excerpt(name), describe(tensor)));
}

using NamedTensor = std::pair<std::string, Tensor>;

/// The tensors in the order of their data: largest elements first, so that all are aligned.
std::vector<const NamedTensor*> data_order(const TensorFile& file) {
  if (file.tensors.size() > kMostTensors) {
    throw DataError(
        fmt::format("{} tensors are more than a file holds here ({}); write several files",
                    file.tensors.size(), kMostTensors));
  }
  std::vector<const NamedTensor*> order;
  for (const NamedTensor& item : file.tensors) {
    name_of_dtype(item.first, item.second);  // refuses what cannot be saved
    order.push_back(&item);
  }
  std::stable_sort(order.begin(), order.end(), [](const NamedTensor* a, const NamedTensor* b) {
    return a->second.element_size() > b->second.element_size();
  });
  return order;
}

std::string header_text(const TensorFile& file, const std::vector<const NamedTensor*>& order) {
  std::map<const Tensor*, std::uint64_t> begins;
  std::uint64_t end = 0;
  for (const NamedTensor* item : order) {
    begins[&item->second] = end;
    end += item->second.nbytes();
  }
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!file.metadata.empty()) json[kMetadata] = file.metadata;
  for (const auto& [name, tensor] : file.tensors) {
    if (name == kMetadata || json.contains(name)) {
      throw DataError(fmt::format("tensor {}: the name is {}", excerpt(name),
                                  name == kMetadata ? "reserved" : "used twice"));
    }
    const std::uint64_t begin = begins.at(&tensor);
    json[name] = {{"dtype", name_of_dtype(name, tensor)},
                  {"shape", tensor.sizes().vec()},
                  {"data_offsets", {begin, begin + tensor.nbytes()}}};
  }
  try {
    std::string text = json.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begin aligned
    return text;
  } catch (const Json::exception& error) {
    throw DataError(std::string("a name or text of the file is not UTF-8: ") + error.what());
  }
}

/// Writes to a file, small pieces together; `hand_on` writes the last of them.
class Blocks {
 public:
  explicit Blocks(AtomicFile& file) : file_(file) { block_.reserve(2 * kBlock); }
  void write(std::string_view bytes) {
    if (bytes.size() < kBlock) {
      block_ += bytes;
      if (block_.size() >= kBlock) hand_on();
      return;
    }
    hand_on();
    file_.write(bytes);  // without a copy
  }
  void hand_on() {
    if (!block_.empty()) file_.write(block_);
    block_.clear();
  }

 private:
  AtomicFile& file_;
  std::string block_;
};

/// A byte of a bool that is neither 0 nor 1 gives wrong answers wherever it is used.
bool holds_truths(const Tensor& tensor) {
  const auto* bytes = static_cast<const std::uint8_t*>(tensor.data_ptr());
  return std::all_of(bytes, bytes + tensor.numel(), [](std::uint8_t byte) { return byte <= 1; });
}

}  // namespace

TensorFile read_safetensors(const std::string& path) {
  Input input(path);
  std::uint64_t header_size = 0;
  const auto damaged = [&](const std::string& what) {
    return DataError(fmt::format("{}: {}; the file is damaged or not safetensors", path, what));
  };
  if (input.size() < 8) {
    throw damaged(fmt::format("holds {} bytes, less than a header's length", input.size()));
  }
  input.read(0, &header_size, 8);
  if (header_size > kLargestHeader || header_size > input.size() - 8) {
    throw damaged(
        fmt::format("its header claims {} bytes of a file of {}", header_size, input.size()));
  }
  std::string text(header_size, '\0');
  input.read(8, text.data(), header_size);
  Header header(path, input.size() - 8 - header_size);
  header.parse(text);
  // A file with holes may be longer than all memory, on a small disk.
  const auto memory = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (input.size() > memory) {
    throw DataError(
        fmt::format("{}: holds {} MiB of tensors, and this machine has {} MiB of memory", path,
                    input.size() >> 20, memory >> 20));
  }

  TensorFile file;
  file.metadata = std::move(header.metadata);
  for (const Entry& entry : header.entries) {
    Tensor tensor = at::empty(entry.shape, entry.dtype);
    input.read(8 + header_size + entry.begin, tensor.data_ptr(), entry.end - entry.begin);
    if (entry.dtype == at::kBool && !holds_truths(tensor)) {
      throw damaged(fmt::format("tensor {}: BOOL data hold a byte that is neither 0 nor 1",
                                excerpt(entry.name)));
    }
    file.tensors.set(entry.name, std::move(tensor));
  }
  return file;
}

void write_safetensors(const std::string& path, const TensorFile& file,
                       const TensorNumbers& numbers) {
  const std::vector<const NamedTensor*> order = data_order(file);
  const std::string header = header_text(file, order);
  const std::uint64_t size = header.size();
  AtomicFile out(path);
  Blocks blocks(out);
  blocks.write({reinterpret_cast<const char*>(&size), sizeof size});
  blocks.write(header);
  for (const NamedTensor* item : order) {
    const Tensor held = numbers ? numbers(item->first, item->second) : item->second;
    const Tensor dense = held.detach().to(at::kCPU).contiguous();
    blocks.write({static_cast<const char*>(dense.data_ptr()), dense.nbytes()});
  }
  blocks.hand_on();
  out.commit();
}

}  // namespace attnlab
