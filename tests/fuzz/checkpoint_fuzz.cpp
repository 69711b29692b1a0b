// Fuzzes the reader of weights, as runs write them, into modules: whatever the bytes, they are read
// whole or refused with a DataError that names the file, and what is refused changes nothing.
// Code: framework/train/checkpoint.cpp framework/data/formats/safetensors.cpp
#include <cstring>

#include "framework/train/checkpoint.h"
#include "tests/fuzz/files_in_memory.h"

namespace attnlab::fuzz {
namespace {

class Small : public torch::nn::Module {
 public:
  Small() : weight(register_parameter("weight", at::ones({2, 3}))) {
    register_buffer("steps", at::ones({1}, at::kLong));
  }
  Tensor weight;
};

const MemoryFolder& folder() {
  static const MemoryFolder made;
  return made;
}

std::string sound() {
  Small small;
  const std::string path = folder().path() + "/sound";
  write_weights(path, {{"model.", &small}}, {"hash"});
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Without a checksum, as earlier versions wrote it: changes reach what comes after that.
std::string unsealed() {
  TensorFile file = read_sealed(folder().path() + "/sound");
  file.metadata.erase("checksum");
  const std::string path = folder().path() + "/unsealed";
  write_safetensors(path, file);
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

Target target() {
  Target target;
  const std::string whole = sound();
  target.seeds = {whole, unsealed(), whole.substr(0, whole.size() - 1), ""};
  target.words = {"model.weight",      "model.steps", "__metadata__", "checksum", "\"F32\"",
                  "\"I64\"",           "[2,3]",       "data_offsets", "{",        "}",
                  std::string(8, '\0')};
  return target;
}

}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  const std::string path =
      fuzz::folder().write("input", {reinterpret_cast<const char*>(data), size});
  fuzz::Small small;
  const Tensor before = small.weight.detach().clone();
  try {
    read_weights(path, {{"model.", &small}}, {"hash"});
    return 0;
  } catch (const DataError& error) {
    if (!small.weight.equal(before)) fuzz::fail("a file that is refused changed the module");
    if (std::string(error.what()).rfind(path, 0) == 0) return -1;
    fuzz::fail(std::string("an error that does not name the file: ") + error.what());
  }
}
