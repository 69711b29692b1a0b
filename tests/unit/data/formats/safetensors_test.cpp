#include "framework/data/formats/safetensors.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "tests/support/data_files.h"
#include "tests/support/temp_folder.h"

namespace attnlab::safetensors_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempFolder;

std::string file_of(const std::string& header, const std::string& data) {
  const std::uint64_t size = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &size, 8);
  return bytes + header + data;
}

/// A header of so many tensors without elements.
std::string many_empty(int count) {
  std::string header = "{";
  for (int i = 0; i < count; ++i) {
    header += (i == 0 ? "\"t" : ",\"t") + std::to_string(i) +
              R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  return header + "}";
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Safetensors, KeepsEveryDtypeShapeNameOrderAndText) {
  const TempFolder folder;
  TensorFile file;
  const std::vector<at::ScalarType> dtypes = {at::kBool,   at::kByte,     at::kChar, at::kShort,
                                              at::kHalf,   at::kBFloat16, at::kInt,  at::kFloat,
                                              at::kDouble, at::kLong};
  for (const at::ScalarType dtype : dtypes) {
    file.tensors.set(at::toString(dtype), (at::arange(15).view({3, 5}) - 4).to(dtype));
  }
  file.tensors.set("a scalar", at::scalar_tensor(2.5, at::kDouble));
  file.tensors.set("none", at::empty({3, 0, 2}, at::kFloat));
  file.tensors.set("transposed \"ü\"\n", at::arange(6, at::kFloat).view({2, 3}).t());
  file.metadata = {{"step", "12"}, {"", "line\nline \"ü\""}};
  const std::string path = folder / "x.safetensors";
  write_safetensors(path, file);

  const TensorFile back = read_safetensors(path);
  EXPECT_EQ(back.metadata, file.metadata);
  ASSERT_EQ(back.tensors.size(), file.tensors.size());
  auto expected = file.tensors.begin();
  for (const auto& [name, tensor] : back.tensors) {
    EXPECT_EQ(name, expected->first);
    EXPECT_EQ(tensor.scalar_type(), expected->second.scalar_type());
    EXPECT_TRUE(tensor.equal(expected->second)) << name;
    ++expected;
  }
}

TEST(Safetensors, KeepsTensorsThatAreWrittenTogetherAndThoseThatAreNot) {
  const TempFolder folder;
  TensorFile file;
  int count = 0;
  for (const std::int64_t size : {10, 32767, 32768, 3, 200'000, 20'000, 20'000, 1, 32769, 7}) {
    file.tensors.set("t" + std::to_string(++count), at::randint(256, {size}, at::kByte));
  }
  write_safetensors(folder / "x.safetensors", file);

  const TensorFile back = read_safetensors(folder / "x.safetensors");
  ASSERT_EQ(back.tensors.size(), file.tensors.size());
  for (const auto& [name, tensor] : file.tensors) {
    EXPECT_TRUE(at::equal(back.tensors.at(name), tensor)) << name;
  }
}

TEST(Safetensors, KeepsTheOrderOfTheHeader) {
  const TempFolder folder;
  const std::string path = folder.write(
      "x.safetensors", file_of(R"({"z":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},)"
                               R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                               R"("m":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
                               "abc"));
  std::string names;
  for (const auto& [name, tensor] : read_safetensors(path).tensors) names += name;
  EXPECT_EQ(names, "zam");
}

TEST(Safetensors, ReadsThousandsOfTensors) {
  const TempFolder folder;
  const std::string path = folder.write("x.safetensors", file_of(many_empty(20'000), ""));
  EXPECT_EQ(read_safetensors(path).tensors.size(), 20'000U);
}

// Readers that map the file need every tensor aligned to its element.
TEST(Safetensors, AlignsEveryTensorToItsElement) {
  const TempFolder folder;
  const std::string path = folder / "x.safetensors";
  write_safetensors(path, {{{"b", at::ones({3}, at::kBool)},
                            {"d", at::ones({2}, at::kDouble)},
                            {"h", at::ones({1}, at::kHalf)},
                            {"f", at::ones({3}, at::kFloat)}},
                           {}});
  const std::string bytes = bytes_of(path);
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  EXPECT_EQ(header % 8, 0U);
  const std::string text = bytes.substr(8, header);
  EXPECT_EQ(text.substr(0, text.find_last_not_of(' ') + 1),
            R"({"b":{"dtype":"BOOL","shape":[3],"data_offsets":[30,33]},)"
            R"("d":{"dtype":"F64","shape":[2],"data_offsets":[0,16]},)"
            R"("h":{"dtype":"F16","shape":[1],"data_offsets":[28,30]},)"
            R"("f":{"dtype":"F32","shape":[3],"data_offsets":[16,28]}})");
  EXPECT_EQ(bytes.size(), 8 + header + 33);
}

TEST(Safetensors, ReadsAFileWrittenByHand) {
  const TempFolder folder;
  const std::string path = folder.write(
      "x.safetensors", file_of(R"({"__metadata__":{"format":"pt"},"w":{"dtype":"I16","shape":[2],)"
                               R"("data_offsets":[0,4]}}   )",
                               std::string("\x01\x00\xff\xff", 4)));
  const TensorFile file = read_safetensors(path);
  EXPECT_EQ(file.metadata.at("format"), "pt");
  EXPECT_TRUE(file.tensors.at("w").equal(at::tensor({1, -1}, at::kShort)));
}

TEST(Safetensors, ReadsATrainedModel) {
  const char* data = std::getenv("ATTNLAB_DATA");
  const std::string path = std::string(data ? data : "") + "/weights/vit_mnist.safetensors";
  if (data == nullptr || !std::filesystem::exists(path)) {
    GTEST_SKIP() << "needs $ATTNLAB_DATA/weights/vit_mnist.safetensors";
  }
  std::int64_t parameters = 0;
  for (const auto& [name, tensor] : read_safetensors(path).tensors) {
    EXPECT_TRUE(tensor.is_floating_point()) << name;
    EXPECT_TRUE(tensor.isfinite().all().item<bool>()) << name;
    parameters += tensor.numel();
  }
  EXPECT_GT(parameters, 200000);
  EXPECT_LT(parameters * 4, static_cast<std::int64_t>(std::filesystem::file_size(path)));
}

struct Damage {
  const char* name;
  std::string bytes;
  const char* message;
};

std::vector<Damage> damages() {
  const auto one = [](const std::string& fields) { return "{\"w\":{" + fields + "}}"; };
  const std::string good = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  const std::string two = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                          R"("b":{"dtype":"U8","shape":[4],"data_offsets":)";
  const std::string data(8, 'x');
  return {
      {"empty", "", "less than a header"},
      {"short length", "1234567", "less than a header"},
      {"long header", file_of(std::string(20, ' '), "").substr(0, 20), "claims 20 bytes"},
      {"huge header", std::string(8, '\xff') + data, "claims 18446744073709551615"},
      {"no JSON", file_of("{\"w\":", data), "not JSON"},
      {"not UTF-8", file_of("{\"\xff\":{" + good + "}}", data), "not JSON"},
      {"no object", file_of("[1]", ""), "not a JSON object"},
      {"name twice", file_of("{\"w\":{" + good + "},\"w\":{" + good + "}}", data), "'w' twice"},
      {"no map", file_of("{\"w\":3}", data), "'w'"},
      {"colours in a name", file_of(R"({"w\u001b[31m":3})", data), "tensor 'w\\x1b[31m'"},
      {"a long name", file_of("{\"" + std::string(5000, 'w') + "\":3}", data), "www...': its"},
      {"no dtype", file_of(one(R"("shape":[2],"data_offsets":[0,8])"), data), "'dtype'"},
      {"other dtype", file_of(one(R"("dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8])"), data),
       "'F8_E4M3' is not supported"},
      {"no shape", file_of(one(R"("dtype":"F32","data_offsets":[0,8])"), data), "'shape'"},
      {"negative", file_of(one(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), data), "-2"},
      {"fraction", file_of(one(R"("dtype":"F32","shape":[2.5],"data_offsets":[0,8])"), data),
       "2.5"},
      {"no offsets", file_of(one(R"("dtype":"F32","shape":[2])"), data), "'data_offsets'"},
      {"one offset", file_of(one(R"("dtype":"F32","shape":[2],"data_offsets":[8])"), data),
       "two numbers"},
      {"backwards", file_of(one(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), data),
       "not within"},
      {"outside", file_of(one(R"("dtype":"F32","shape":[4],"data_offsets":[0,16])"), data),
       "not within the 8 bytes"},
      {"wrong shape", file_of(one(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"), data),
       "needs 12 bytes"},
      {"overflow",
       file_of(one(R"("dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,8])"),
               data),
       "too many"},
      {"hidden overflow",
       file_of(one(R"("dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0])"), ""),
       "too many"},
      {"overlap", file_of(two + "[2,6]}}", data.substr(2)), "inside another"},
      {"gap", file_of(two + "[5,9]}}", data + "x"), "after a gap"},
      {"cut off", file_of(two + "[4,8]}}", data.substr(1)), "not within the 7 bytes"},
      {"trailing", file_of(two + "[4,8]}}", data + "yyy"), "3 bytes follow"},
      {"no truth", file_of(R"({"m":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", "\1\2"),
       "'m': BOOL data"},
      {"nested", file_of(R"({"w":{"shape":)" + std::string(200'000, '['), data), "too deeply"},
      {"nested map", file_of(R"({"w":{"a":{"b":{}}}})", ""), "too deeply"},
      {"too many", file_of(many_empty(32'769), ""), "more than 32768 tensors"},
      {"metadata no map", file_of(R"({"__metadata__":[]})", ""), "__metadata__"},
      {"metadata no text", file_of(R"({"__metadata__":{"a":1}})", ""), "'a' is not a text"},
  };
}

TEST(Safetensors, RefusesEveryKindOfDamageAndNamesTheFile) {
  const TempFolder folder;
  for (const Damage& damage : damages()) {
    SCOPED_TRACE(damage.name);
    const std::string path = folder.write("x.safetensors", damage.bytes);
    EXPECT_THAT(message_of<DataError>([&] { read_safetensors(path); }),
                AllOf(HasSubstr(path), HasSubstr(damage.message)));
  }
}

// Whatever is cut off or changed in the header, the answer is an error or a file, never a crash.
TEST(Safetensors, SurvivesEveryCutAndEveryChangedByteOfTheHeader) {
  const TempFolder folder;
  const std::string path = folder / "x.safetensors";
  write_safetensors(path,
                    {{{"w", at::ones({2, 3})}, {"b", at::ones({3}, at::kLong)}}, {{"step", "3"}}});
  const std::string good = bytes_of(path);
  for (std::size_t size = 0; size < good.size(); ++size) {
    folder.write("x.safetensors", good.substr(0, size));
    ASSERT_THROW(read_safetensors(path), DataError) << size;
  }
  for (std::size_t at = 0; at < good.size() - 48; ++at) {
    for (const char change : {'\x01', '\x10', '\x80'}) {
      std::string damaged = good;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      folder.write("x.safetensors", damaged);
      try {
        read_safetensors(path);
      } catch (const DataError&) {
      }
    }
  }
}

TEST(Safetensors, RefusesTensorsThatNoMemoryHolds) {
  const TempFolder folder;
  const std::string file = file_of(
      R"({"a":{"dtype":"U8","shape":[1099511627776],"data_offsets":[0,1099511627776]}})", "");
  const std::string path = folder.write("a.safetensors", file);
  std::filesystem::resize_file(path, file.size() + (std::uintmax_t{1} << 40));  // a hole
  EXPECT_THAT(message_of<DataError>([&] { read_safetensors(path); }),
              mentions(path, "1048576 MiB", "this machine"));
}

TEST(Safetensors, RefusesWhatTheFormatCannotHold) {
  const TempFolder folder;
  const std::string path = folder / "x.safetensors";
  const auto refusal = [&](const TensorFile& file) {
    return message_of<DataError>([&] { write_safetensors(path, file); });
  };
  EXPECT_THAT(refusal({{{"z", at::zeros({1}, at::kComplexFloat)}}, {}}), HasSubstr("'z'"));
  EXPECT_THAT(refusal({{{"u", Tensor()}}, {}}), HasSubstr("'u' is undefined"));
  EXPECT_THAT(refusal({{{"__metadata__", at::zeros({1})}}, {}}), HasSubstr("reserved"));
  EXPECT_THAT(refusal({{{"w", at::zeros({1})}, {"w", at::ones({1})}}, {}}), HasSubstr("twice"));
  EXPECT_THAT(refusal({{{"\xff", at::zeros({1})}}, {}}), HasSubstr("UTF-8"));
  TensorFile many;
  for (int i = 0; i < 32'769; ++i) many.tensors.set(std::to_string(i), at::zeros({0}));
  EXPECT_THAT(refusal(many), HasSubstr("32769 tensors are more"));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Safetensors, NamesFilesThatCannotBeReadOrWritten) {
  const TempFolder folder;
  const std::string missing = folder / "missing/x.safetensors";
  EXPECT_THAT(message_of<FileError>([&] { read_safetensors(missing); }),
              AllOf(HasSubstr(missing), HasSubstr("No such file")));
  EXPECT_THAT(message_of<FileError>([&] { read_safetensors(folder.path()); }),
              HasSubstr(folder.path()));
  EXPECT_THAT(message_of<FileError>([&] { write_safetensors(missing, {}); }), HasSubstr(missing));
}

TEST(Safetensors, KeepsTheOldFileWhenWritingFails) {
  const TempFolder folder;
  const std::string path = folder / "x.safetensors";
  write_safetensors(path, {{{"w", at::ones({2})}}, {}});
  EXPECT_THROW(write_safetensors(path, {{{"w", Tensor()}}, {}}), DataError);
  EXPECT_TRUE(read_safetensors(path).tensors.at("w").equal(at::ones({2})));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

}  // namespace
}  // namespace attnlab::safetensors_test
