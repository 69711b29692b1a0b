// Fuzzes the reader of Python's pickles: values that can be asked for all that they have, or a
// DataError that names the file.
// Code: framework/data/formats/pickle.cpp framework/data/formats/pickle_operations.cpp
// Code: framework/data/formats/pickle_arrays.cpp framework/data/formats/pickle_reader.h
#include "framework/data/formats/pickle.h"

#include "tests/fuzz/pickle_walk.h"
#include "tests/support/pickles.h"

namespace attnlab::fuzz {
namespace {

namespace pickles = testing::pickles;

/// A tensor of PyTorch: its storage is a file of several pickles within this one.
std::string tensor() {
  using pickles::raw;
  using pickles::text;
  const std::string inner = "N.N.N.(" + text("storage") + "ctorch\nFloatStorage\n" + text("0") +
                            text("cpu") + "K\x02NtQ.]" + text("0") + "a." + raw(std::int64_t{2}) +
                            raw(1.0F) + raw(2.0F);
  return "ctorch._utils\n_rebuild_tensor_v2\n(ctorch.storage\n_load_from_bytes\nB" +
         raw(static_cast<std::int32_t>(inner.size())) + inner + "\x85RK" + std::string(1, '\0') +
         "K\x02\x85K\x01\x85\x89" + "ccollections\nOrderedDict\n)RtR";
}

}  // namespace

Target target() {
  using pickles::array;
  Target target;
  const std::string plain = pickles::list(
      {pickles::integer(-3), pickles::text("a"), "N", "\x88", "G?\xf8" + std::string(6, '\0')});
  target.seeds = {
      pickles::file(plain),
      pickles::file(pickles::map({{pickles::text("x"), array<float>("f4", {2, 1}, {1, 2})},
                                  {pickles::text("y"), array<std::int64_t>("i8", {1}, {3})}})),
      pickles::file(pickles::sparse(3, {{0, 2}, {1}})),
      pickles::file(tensor()),
      "(lp0\nI1\naL2L\naF0.5\naS'text'\na(dp1\nVkey\ng0\ns.",
      "\x80\x04\x95\x0b" + std::string(7, '\0') + "]\x94(K\x01\x8c\x01" + "a\x94h\x01" + "e.",
      pickles::file(plain).substr(0, 9),
      ""};
  target.words = {"\x80\x02",
                  "cnumpy\ndtype\n",
                  "cnumpy.core.multiarray\n_reconstruct\n",
                  "cnumpy.core.multiarray\nscalar\n",
                  "ctorch._utils\n_rebuild_tensor_v2\n",
                  "ctorch.storage\n_load_from_bytes\n",
                  "ctorch\nFloatStorage\n",
                  "ccollections\nOrderedDict\n",
                  "c_codecs\nencode\n",
                  pickles::integer(-1),
                  pickles::text("f8"),
                  pickles::text("O8"),
                  "(",
                  "t",
                  "R",
                  "b",
                  "\x81",
                  "q\x01h\x01",
                  "\x94",
                  "]",
                  "}",
                  "u.",
                  "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f",
                  "G\x7f\xf0" + std::string(6, '\0')};
  return target;
}

}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  const std::string path = "f.pkl";
  try {
    const Pickle pickle({reinterpret_cast<const char*>(data), size}, path);
    fuzz::Walk().visit(pickle.root());
    return 0;
  } catch (const DataError& error) {
    fuzz::check_names(path, error);
    return -1;
  }
}
