// Fuzzes the reader of safetensors files: whatever the bytes, it answers with the tensors or with a
// DataError that names the file, and what it read is written and read again to the same.
// Code: framework/data/formats/safetensors.cpp
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <set>

#include "framework/data/formats/safetensors.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/temp_folder.h"

namespace attnlab::fuzz {
namespace {

/// A file that is only in memory.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    if (descriptor_ < 0) fail("memfd_create: no file in memory");
    path_ = "/proc/self/fd/" + std::to_string(descriptor_);
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void hold(const std::uint8_t* data, std::size_t size) const {
    if (::ftruncate(descriptor_, 0) != 0 ||
        ::pwrite(descriptor_, data, size, 0) != static_cast<ssize_t>(size)) {
      fail("cannot write the file in memory");
    }
  }
  const std::string& path() const { return path_; }

 private:
  int descriptor_;
  std::string path_;
};

void check_sound(const TensorFile& file, std::size_t size) {
  std::size_t bytes = 0;
  std::set<std::string> names;
  for (const auto& [name, tensor] : file.tensors) {
    bytes += tensor.nbytes();
    if (!names.insert(name).second) fail("two tensors have one name");
    if (!tensor.is_contiguous()) fail("'" + name + "' is not contiguous");
    if (tensor.scalar_type() != at::kBool) continue;
    const auto* truths = static_cast<const std::uint8_t*>(tensor.data_ptr());
    for (std::int64_t i = 0; i < tensor.numel(); ++i) {
      if (truths[i] > 1) fail("a truth that is neither 0 nor 1");
    }
  }
  if (bytes > size) fail("more bytes in tensors than in the file");
}

void check_equal(const TensorFile& expected, const TensorFile& found) {
  if (expected.metadata != found.metadata) fail("other metadata after writing");
  if (expected.tensors.size() != found.tensors.size()) fail("other tensors after writing");
  auto other = found.tensors.begin();
  for (const auto& [name, tensor] : expected.tensors) {
    const auto& [other_name, other_tensor] = *other++;
    const bool same =
        name == other_name && tensor.sizes() == other_tensor.sizes() &&
        tensor.scalar_type() == other_tensor.scalar_type() &&
        (tensor.nbytes() == 0 ||
         std::memcmp(tensor.data_ptr(), other_tensor.data_ptr(), tensor.nbytes()) == 0);
    if (!same) fail("'" + name + "' differs after writing");
  }
}

std::string file_of(const std::string& header, const std::string& data) {
  const std::uint64_t size = header.size();
  std::string bytes(sizeof size, '\0');
  std::memcpy(bytes.data(), &size, sizeof size);
  return bytes + header + data;
}

/// Sets the header's length to where its outermost brace closes, with the spaces behind it.
void repair_length(std::string& input) {
  std::size_t end = sizeof(std::uint64_t);
  int depth = 0;
  bool quoted = false;
  for (; end < input.size(); ++end) {
    const char c = input[end];
    if (quoted) {
      if (c == '\\') ++end;
      quoted = c != '"';
    } else {
      quoted = c == '"';
      depth += c == '{' ? 1 : c == '}' ? -1 : 0;
      if (c == '}' && depth == 0) break;
    }
  }
  if (end >= input.size()) return;
  do {
    ++end;
  } while (end < input.size() && input[end] == ' ');
  const std::uint64_t length = end - sizeof length;
  std::memcpy(input.data(), &length, sizeof length);
}

}  // namespace

Target target() {
  const std::string all = R"({"__metadata__":{"format":"pt","a":"\u00fc\n"},)"
                          R"("d":{"dtype":"F64","shape":[1,2],"data_offsets":[0,16]},)"
                          R"("i":{"dtype":"I64","shape":[],"data_offsets":[16,24]},)"
                          R"("f":{"dtype":"F32","shape":[2],"data_offsets":[24,32]},)"
                          R"("h":{"dtype":"BF16","shape":[2,1],"data_offsets":[32,36]},)"
                          R"("b":{"dtype":"BOOL","shape":[3],"data_offsets":[36,39]},)"
                          R"("none":{"dtype":"F16","shape":[3,0,7],"data_offsets":[39,39]}}  )";
  const std::string one = R"({"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  const auto nested = [](std::size_t depth) {
    return R"({"w":{"dtype":"F32","data_offsets":[0,0],"shape":)" + std::string(depth, '[') +
           std::string(depth, ']') + "}}";
  };
  Target target;
  target.seeds = {
      file_of(all, std::string(36, '\x3f') + std::string("\1\0\1", 3)),
      file_of(one, "abcd"),
      file_of("{}", ""),
      file_of(one, "abc"),
      file_of(R"({"m":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", "\1\2"),
      file_of(nested(3), ""),
      file_of(nested(30'000), ""),
      file_of(R"({"w":{"dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}})",
              ""),
      std::string(8, '\xff'),
      "",
  };
  target.words = {"\"dtype\":",
                  "\"shape\":[",
                  "\"data_offsets\":[0,0]",
                  "\"__metadata__\":{",
                  "\"F32\"",
                  "\"BOOL\"",
                  "\"F8_E4M3\"",
                  "null",
                  "true",
                  "{}",
                  "[]",
                  "[[[[[[[[",
                  "{\"a\":{\"b\":{",
                  "\"\\ud800\"",
                  "\xc3\xbc",
                  "\xed\xa0\x80",
                  ",\"z\":{\"dtype\":\"I8\",\"shape\":[0],\"data_offsets\":[0,0]}"};
  target.repair = repair_length;
  return target;
}

}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  static const fuzz::MemoryFile input;
  static const testing::TempFolder folder;
  input.hold(data, size);
  TensorFile file;
  try {
    file = read_safetensors(input.path());
  } catch (const DataError& error) {
    if (std::string(error.what()).rfind(input.path() + ": ", 0) != 0) {
      fuzz::fail(std::string("an error that does not name the file: ") + error.what());
    }
    return -1;
  }
  fuzz::check_sound(file, size);
  const std::string copy = folder / "copy.safetensors";
  write_safetensors(copy, file);
  fuzz::check_equal(file, read_safetensors(copy));
  return 0;
}
