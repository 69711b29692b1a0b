// attnlab attention apply: its numbers against plain loops, and what it says of wrong files.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "tests/integration/workspace.h"

namespace attnlab::testing::attention_apply_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The bits of a float16 number that float32 holds with no more than 10 behind the first, and that
/// is not smaller than 2^-14.
std::string half_bytes(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  const std::uint32_t sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
  const auto half = static_cast<std::uint16_t>(sign | (rest == 0 ? 0 : (rest >> 13) - (112 << 10)));
  return {reinterpret_cast<const char*>(&half), 2};
}

double half_value(const char* bytes) {
  std::uint16_t half = 0;
  std::memcpy(&half, bytes, 2);
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  const double size =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return half >> 15 != 0 ? -size : size;
}

/// A tensor as the files hold it, made without the module under test.
struct Raw {
  std::string dtype;
  std::vector<std::size_t> shape;
  std::string bytes;

  std::vector<double> values() const {
    std::vector<double> out;
    const std::size_t size = dtype == "F64" ? 8 : dtype == "F32" ? 4 : 2;
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      double wide = 0;
      float single = 0;
      if (size == 8) {
        std::memcpy(&wide, &bytes[at], 8);
      } else if (dtype == "F16") {
        wide = half_value(&bytes[at]);
      } else {  // bfloat16 is the upper half of a float32
        std::memcpy(reinterpret_cast<char*>(&single) + (4 - size), &bytes[at], size);
        wide = single;
      }
      out.push_back(wide);
    }
    return out;
  }
};
using RawFile = std::map<std::string, Raw>;

Raw raw(const std::string& dtype, const std::vector<std::size_t>& shape,
        const std::vector<double>& values) {
  Raw out{dtype, shape, ""};
  for (const double value : values) {
    const auto single = static_cast<float>(value);
    char bytes[8];
    std::memcpy(bytes, &value, 8);
    if (dtype == "F64") out.bytes.append(bytes, 8);
    std::memcpy(bytes, &single, 4);
    if (dtype == "F32") out.bytes.append(bytes, 4);
    if (dtype == "BF16") out.bytes.append(bytes + 2, 2);
    if (dtype == "F16") out.bytes += half_bytes(single);
    if (dtype == "U8" || dtype == "BOOL") out.bytes += static_cast<char>(value);
  }
  return out;
}

std::string text_of(const RawFile& file) {
  json header = json::object();
  std::string data;
  for (const auto& [name, tensor] : file) {
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  const std::string text = header.dump();
  const std::uint64_t size = text.size();
  return std::string(reinterpret_cast<const char*>(&size), 8) + text + data;
}

RawFile parsed(const std::string& bytes, json* metadata = nullptr) {
  std::uint64_t size = 0;
  std::memcpy(&size, bytes.data(), 8);
  RawFile file;
  const json header = json::parse(bytes.substr(8, size));
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      if (metadata != nullptr) *metadata = entry;
      continue;
    }
    const std::size_t begin = entry.at("data_offsets").at(0), end = entry.at("data_offsets").at(1);
    file[name] = {entry.at("dtype"), entry.at("shape"),
                  bytes.substr(8 + size + begin, end - begin)};
  }
  return file;
}

/// Numbers without pattern in (-1, 1) that float32 and bfloat16 hold exactly.
std::vector<double> numbers(std::size_t count, std::uint64_t seed) {
  std::vector<double> out;
  std::uint64_t state = seed;
  while (out.size() < count) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    out.push_back((static_cast<double>(state >> 57) - 64) / 64 + 1.0 / 128);
  }
  return out;
}

constexpr std::size_t kBatch = 2, kHeads = 3, kQueries = 4, kKeys = 5, kDim = 6, kValueDim = 2;

/// Queries, keys and values [2, 3, 4 or 5, 6 or 2].
RawFile projections(const std::string& dtype = "F64") {
  return {
      {"q",
       raw(dtype, {kBatch, kHeads, kQueries, kDim}, numbers(kBatch * kHeads * kQueries * kDim, 1))},
      {"k", raw(dtype, {kBatch, kHeads, kKeys, kDim}, numbers(kBatch * kHeads * kKeys * kDim, 2))},
      {"v", raw(dtype, {kBatch, kHeads, kKeys, kValueDim},
                numbers(kBatch * kHeads * kKeys * kValueDim, 3))}};
}

struct Expected {
  std::vector<double> out, weights, logits;
};

/// softmax(scale q k + bias) v over what may be seen, one number at a time.
template <class Logit>
Expected expected_of(const RawFile& file, const Logit& logit_of) {
  const std::vector<double> v = file.at("v").values();
  Expected expected;
  for (std::size_t bh = 0; bh < kBatch * kHeads; ++bh) {
    for (std::size_t i = 0; i < kQueries; ++i) {
      std::vector<double> row;
      double sum = 0;
      for (std::size_t j = 0; j < kKeys; ++j) {
        row.push_back(logit_of(bh, i, j));
        sum += std::exp(row.back());
      }
      std::vector<double> out(kValueDim, 0.0);
      for (std::size_t j = 0; j < kKeys; ++j) {
        const double weight = std::exp(row[j]) / sum;
        expected.logits.push_back(row[j]);
        expected.weights.push_back(weight);
        for (std::size_t c = 0; c < kValueDim; ++c) {
          out[c] += weight * v[(bh * kKeys + j) * kValueDim + c];
        }
      }
      expected.out.insert(expected.out.end(), out.begin(), out.end());
    }
  }
  return expected;
}

double product(const RawFile& file, std::size_t bh, std::size_t i, std::size_t j) {
  const std::vector<double> q = file.at("q").values(), k = file.at("k").values();
  double sum = 0;
  for (std::size_t c = 0; c < kDim; ++c) {
    sum += q[(bh * kQueries + i) * kDim + c] * k[(bh * kKeys + j) * kDim + c];
  }
  return sum;
}

void expect_near(const Raw& found, const std::vector<double>& expected, double error) {
  const std::vector<double> values = found.values();
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isinf(expected[i])) {
      EXPECT_EQ(values[i], expected[i]) << i;
    } else {
      EXPECT_NEAR(values[i], expected[i], error) << i;
    }
  }
}

class AttentionApply : public Workspace {
 protected:
  Ended apply(const RawFile& file, Words more) {
    folder_.write("in.safetensors", text_of(file));
    Words words = {"attention", "apply", "--in", "in.safetensors", "--out", "out.safetensors"};
    if (std::find(more.begin(), more.end(), "--use") == more.end()) {
      words.insert(words.end(), {"--use", "standard"});
    }
    words.insert(words.end(), more.begin(), more.end());
    return attnlab(words);
  }
  RawFile applied(const RawFile& file, Words more = {}) {
    const Ended ended = apply(file, std::move(more));
    EXPECT_EQ(ended.exit_code, 0) << ended.story();
    return parsed(file_text(at("out.safetensors")), &metadata_);
  }
  void expect_refused(const RawFile& file, Words more, const Words& said) {
    const Ended ended = apply(file, std::move(more));
    EXPECT_EQ(ended.exit_code, 2) << ended.story();
    EXPECT_THAT(ended.err, AllOf(HasSubstr("attnlab attention: "), mentions(said)));
    EXPECT_FALSE(exists("out.safetensors"));
  }

  json metadata_;
};

TEST_F(AttentionApply, EqualsPlainLoops) {
  RawFile file = projections();
  file["mask"] = raw("BOOL", {1, 1, kQueries, kKeys},
                     {1, 1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1});
  file["bias"] = raw("F64", {kHeads, 1, kKeys}, numbers(kHeads * kKeys, 4));
  const std::vector<double> mask(file["mask"].bytes.begin(), file["mask"].bytes.end());
  const std::vector<double> bias = file["bias"].values();
  const Expected expected = expected_of(file, [&](std::size_t bh, std::size_t i, std::size_t j) {
    if (mask[i * kKeys + j] == 0) return -std::numeric_limits<double>::infinity();
    return product(file, bh, i, j) / std::sqrt(6.0) + bias[bh % kHeads * kKeys + j];
  });
  const RawFile found = applied(file);
  ASSERT_EQ(found.size(), 3U);
  expect_near(found.at("out"), expected.out, 1e-12);
  expect_near(found.at("weights"), expected.weights, 1e-12);
  expect_near(found.at("logits"), expected.logits, 1e-12);
  EXPECT_THAT(found.at("out").shape, ElementsAre(kBatch, kHeads, kQueries, kValueDim));
  EXPECT_THAT(found.at("weights").shape, ElementsAre(kBatch, kHeads, kQueries, kKeys));
}

TEST_F(AttentionApply, TakesOptionsAndCausalRuleAndSaysWithWhat) {
  const RawFile file = projections();
  const auto norm = [&](std::size_t bh, std::size_t j) {
    const std::vector<double> k = file.at("k").values();
    double sum = 0;
    for (std::size_t c = 0; c < kDim; ++c) sum += std::pow(k[(bh * kKeys + j) * kDim + c], 2);
    return std::sqrt(sum);
  };
  const Expected expected = expected_of(file, [&](std::size_t bh, std::size_t i, std::size_t j) {
    // The last query is aligned with the last key.
    if (j > i + kKeys - kQueries) return -std::numeric_limits<double>::infinity();
    return product(file, bh, i, j) / std::max(norm(bh, j), 0.99);
  });
  const RawFile found =
      applied(file, {"--use", "attnlab/quest", "--option", "eps=0.99", "--causal", "--seed", "4"});
  expect_near(found.at("out"), expected.out, 1e-12);
  expect_near(found.at("logits"), expected.logits, 1e-12);
  EXPECT_EQ(metadata_.at("attention"), "attnlab/quest");
  EXPECT_EQ(metadata_.at("options"), "{eps: 0.99}");
  EXPECT_EQ(metadata_.at("seed"), "4");
}

TEST_F(AttentionApply, KeepsTheDtypeOfTheFile) {
  for (const auto& [dtype, error] :
       {std::pair("F32", 1e-6), std::pair("BF16", 4e-3), std::pair("F16", 5e-4)}) {
    const RawFile file = projections(dtype);
    const Expected expected = expected_of(file, [&](std::size_t bh, std::size_t i, std::size_t j) {
      return product(file, bh, i, j) / std::sqrt(6.0);
    });
    const RawFile found = applied(file);
    for (const char* name : {"out", "weights", "logits"}) EXPECT_EQ(found.at(name).dtype, dtype);
    expect_near(found.at("out"), expected.out, error);
    expect_near(found.at("weights"), expected.weights, error);
  }
}

TEST_F(AttentionApply, AddsUpNumbersOf16BitsInFloat32WhateverOneDnnIsHeldTo) {
  const auto filled = [](const std::string& dtype, std::size_t rows, double value) {
    return raw(dtype, {rows, 1}, std::vector<double>(rows, value));
  };
  const auto out_of = [&](const std::string& dtype, std::size_t queries, std::size_t keys,
                          const Environment& environment) {
    folder_.write("in.safetensors", text_of({{"q", filled(dtype, queries, 0)},
                                             {"k", filled(dtype, keys, 0)},
                                             {"v", filled(dtype, keys, 1)}}));
    must({"attention", "apply", "--use", "standard", "--in", "in.safetensors", "--out",
          "out.safetensors"},
         environment);
    return parsed(file_text(at("out.safetensors"))).at("out").values();
  };
  // Even weights over ones; LibTorch multiplies the small ones itself, and asks oneDNN for others.
  const std::vector<double> one = {1};
  EXPECT_EQ(out_of("BF16", 1, 4000, {}), one);
  EXPECT_EQ(out_of("F16", 1, 4000, {}), one);
  EXPECT_EQ(out_of("BF16", 32, 4000, {{"ONEDNN_MAX_CPU_ISA", "SSE41"}}),
            std::vector<double>(32, 1.0));
#if defined(__x86_64__)
  EXPECT_EQ(out_of("BF16", 32, 4000, {{"ATTNLAB_CPU", "sse4"}}), std::vector<double>(32, 1.0));
#endif
}

TEST_F(AttentionApply, TakesOneExampleAndOneHead) {
  const RawFile file = projections();
  const RawFile whole = applied(file);
  // The first example, and the first head of it, lie first.
  for (const std::size_t dims : {3U, 2U}) {
    RawFile part;
    for (const auto& [name, tensor] : file) {
      const std::size_t share = dims == 3 ? kBatch : kBatch * kHeads;
      Raw first{tensor.dtype,
                {tensor.shape.end() - static_cast<std::ptrdiff_t>(dims), tensor.shape.end()},
                tensor.bytes.substr(0, tensor.bytes.size() / share)};
      part[name] = first;
    }
    const RawFile found = applied(part);
    for (const char* name : {"out", "weights", "logits"}) {
      EXPECT_EQ(found.at(name).shape.size(), dims) << name;
      const std::vector<double> all = whole.at(name).values();
      const std::size_t count = found.at(name).values().size();
      expect_near(found.at(name), {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)},
                  1e-12);
    }
  }
}

TEST_F(AttentionApply, AnyByteOfAMaskButZeroMeansMaySee) {
  RawFile file = projections();
  file["mask"] = raw("U8", {kKeys}, {255, 0, 1, 2, 0});
  const RawFile bytes = applied(file);
  file["mask"] = raw("BOOL", {kKeys}, {1, 0, 1, 1, 0});
  EXPECT_EQ(bytes.at("out").bytes, applied(file).at("out").bytes);
  EXPECT_EQ(bytes.at("logits").values()[1], -std::numeric_limits<double>::infinity());
}

TEST_F(AttentionApply, ParametersOfTheFileReplaceThoseOfTheMechanism) {
  RawFile file = projections();
  const Words use = {"--use", "qknorm_hs"};
  const auto logits = [&] { return applied(file, use).at("logits").values(); };
  const std::vector<double> before = logits();
  const std::vector<double> scales = {0, std::log(2.0), std::log(3.0)};  // of each head
  file["parameters.scale.log_scale"] = raw("F64", {kHeads}, scales);
  const std::vector<double> after = logits();
  ASSERT_EQ(after.size(), before.size());
  const std::size_t pairs = kQueries * kKeys;
  for (std::size_t i = 0; i < after.size(); ++i) {
    const double scale = std::exp(scales[i / pairs % kHeads]);
    EXPECT_NEAR(after[i], before[i] * scale / 10, 1e-6) << i;  // 10 is what the paper starts with
  }
  file["parameters.scale.log_scale"] = raw("F64", {2}, {0, 0});
  std::filesystem::remove(at("out.safetensors"));
  expect_refused(file, use,
                 {"in.safetensors: ", "'parameters.scale.log_scale'", "shape [3]", "found [2]"});
  file.erase("parameters.scale.log_scale");
  file["parameters.scale"] = raw("F64", {kHeads}, {0, 0, 0});
  expect_refused(file, use,
                 {"in.safetensors: ", "'parameters.scale'", "'qknorm_hs' has no such parameter",
                  "scale.log_scale [3] float64"});
}

TEST_F(AttentionApply, WritesWhatTheMechanismHasAndRefusesWhatItLacks) {
  RawFile file = projections();
  file["bias"] = raw("F64", {kKeys}, numbers(kKeys, 5));
  expect_refused(file, {"--use", "linear"},
                 {"in.safetensors: ", "'linear' does not honour 'bias'", "tensor 'bias'",
                  "another attention"});
  file.erase("bias");
  file["mask"] = raw("BOOL", {kKeys}, {1, 1, 1, 1, 0});
  expect_refused(file, {"--use", "linear"},
                 {"in.safetensors: ", "'linear' does not honour 'pair_mask'", "tensor 'mask'"});
  file.erase("mask");
  EXPECT_TRUE(applied(file, {"--use", "linear"}).count("out"));
}

TEST_F(AttentionApply, NamesWhatIsWrongWithAFile) {
  const auto with = [](const std::string& name, const Raw& tensor) {
    RawFile file = projections();
    file[name] = tensor;
    return file;
  };
  const auto zeros = [](const std::string& dtype, const std::vector<std::size_t>& shape) {
    std::size_t count = 1;
    for (const std::size_t size : shape) count *= size;
    return raw(dtype, shape, std::vector<double>(count, 0.0));
  };
  RawFile lacks_v = projections();
  lacks_v.erase("v");
  const std::string in = "in.safetensors: ";
  expect_refused(lacks_v, {}, {in, "no tensor 'v'"});
  expect_refused(with("q", zeros("F64", {6})), {},
                 {in, "'q' must be", "bfloat16", "[B, H, L, C]", "found [6] float64"});
  expect_refused(with("q", zeros("U8", {4, 6})), {}, {in, "'q' must be float32"});
  expect_refused(with("v", zeros("F64", {2, 3, 5, 0})), {},
                 {in, "'v' must be float32", "no size of 0"});
  expect_refused(with("k", zeros("F64", {2, 3, 5, 7})), {},
                 {in, "'k' must be", "[B, H, Lk, D] = [2, 3, *, 6]", "dtype of 'q'",
                  "found [2, 3, 5, 7] float64"});
  expect_refused(with("k", zeros("F32", {2, 3, 5, 6})), {},
                 {in, "'k' must be", "found [2, 3, 5, 6] float32"});
  expect_refused(with("v", zeros("F64", {2, 3, 6, 2})), {},
                 {in, "'v' must be", "[B, H, Lk, Dv] = [2, 3, 5, *]"});
  expect_refused(with("mask", zeros("BOOL", {2, 4, 5})), {},
                 {in, "'mask' must be", "[B, H, Lq, Lk] = [2, 3, 4, 5]", "found [2, 4, 5] bool"});
  expect_refused(with("mask", zeros("F64", {4, 5})), {}, {in, "'mask' must be bool"});
  expect_refused(with("bias", zeros("F32", {4, 5})), {}, {in, "'bias' must be", "dtype of 'q'"});
  expect_refused(with("bias", zeros("F64", {3, 5})), {}, {in, "'bias' must be"});
  const double hidden = -std::numeric_limits<double>::infinity();
  expect_refused(with("bias", raw("F64", {1, 1}, {hidden})), {},
                 {in, "tensor 'bias'", "not finite", "with 'mask'"});
  const double none = std::numeric_limits<double>::quiet_NaN();
  expect_refused(with("k", raw("F64", {1, 1}, {none})), {},
                 {in, "tensor 'k'", "not finite", "replace"});
  expect_refused(with("maks", zeros("BOOL", {4, 5})), {}, {in, "'maks'", "did you mean 'mask'?"});
  expect_refused(with("parameters.scale", zeros("F64", {3})), {},
                 {in, "'parameters.scale'", "'standard' has no such parameter"});
}

TEST_F(AttentionApply, NamesWhatIsWrongWithTheCommandLine) {
  const RawFile file = projections();
  expect_refused(file, {"--use", "qwest"}, {"attention 'qwest'", "did you mean 'quest'?"});
  expect_refused(file, {"--use", "quest", "--option", "epps=1"},
                 {"argument 'epps=1'", "key 'epps'", "attention 'quest'", "did you mean 'eps'?"});
  expect_refused(file, {"--use", "quest", "--option", "eps=2"},
                 {"argument 'eps=2'", "attention.eps", "2 is out of range"});
  expect_refused(file, {"--use", "quest", "--option", "eps"}, {"argument 'eps'", "key=value"});
  expect_refused(file, {"--seed", "-1"}, {"--seed: ", "integer >= 0", "found -1"});
  expect_refused(file, {"--cusal"}, {"unrecognised option '--cusal'"});
  Ended ended = attnlab({"attention", "apply", "--use", "quest"});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err,
              mentions("attnlab attention: --in", "missing", "usage: attnlab attention "));
  ended = attnlab({"attention", "aply"});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, mentions("'attention aply'", "did you mean 'apply'?"));
  EXPECT_THAT(must({"attention", "apply", "--help"}).out, HasSubstr("--option KEY=VALUE"));
}

TEST_F(AttentionApply, WritesWhereItIsToldWhereverTheMechanismGoes) {
  folder_.write("in.safetensors", text_of(projections()));
  const auto apply_to = [&](const std::string& out) {
    return attnlab({"attention", "apply", "--use", "changes_folder_in_forward", "--in",
                    "in.safetensors", "--out", out},
                   {{"ATTNLAB_PLUGIN_PATH", broken_plugins()}});
  };
  const Ended ended = apply_to("x.safetensors");
  EXPECT_EQ(ended.exit_code, 0) << ended.story();
  EXPECT_THAT(ended.out, ::testing::StartsWith("x.safetensors: ")) << "the path as it was given";
  ASSERT_TRUE(exists("x.safetensors"));
  EXPECT_EQ(parsed(file_text(at("x.safetensors"))).at("out").bytes,
            applied(projections()).at("out").bytes);
  const Ended nowhere = apply_to("gone/x.safetensors");
  EXPECT_EQ(nowhere.exit_code, 2) << nowhere.story();
  EXPECT_THAT(nowhere.err, mentions("gone/x.safetensors: ", "cannot create"));
}

TEST_F(AttentionApply, WritesToDevicesAndPipesAndThroughLinks) {
  namespace fs = std::filesystem;
  applied(projections());
  const std::string expected = file_text(at("out.safetensors"));
  const auto apply_to = [&](const std::string& out) {
    return attnlab(
        {"attention", "apply", "--use", "standard", "--in", "in.safetensors", "--out", out});
  };
  const Ended null = apply_to("/dev/null"), full = apply_to("/dev/full");
  EXPECT_EQ(null.exit_code, 0) << null.story();
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_EQ(full.exit_code, 2) << full.story();
  EXPECT_THAT(full.err, mentions("/dev/full: ", "No space left"));
  ASSERT_EQ(::mkfifo(at("fifo").c_str(), 0600), 0);
  const int reader = ::open(at("fifo").c_str(), O_RDWR | O_NONBLOCK);  // waits for no writer
  ASSERT_GE(reader, 0);
  const Ended piped = apply_to("fifo");
  std::string bytes(65536, '\0');  // as much as a pipe holds
  const ssize_t count = ::read(reader, bytes.data(), bytes.size());
  ::close(reader);
  bytes.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  EXPECT_EQ(piped.exit_code, 0) << piped.story();
  EXPECT_TRUE(bytes == expected) << "other bytes come out of the pipe";
  EXPECT_TRUE(fs::is_fifo(at("fifo")));
  folder_.write("real/out.safetensors", "old");
  fs::create_symlink("real/out.safetensors", at("link"));
  const Ended linked = apply_to("link");
  EXPECT_EQ(linked.exit_code, 0) << linked.story();
  EXPECT_TRUE(fs::is_symlink(at("link")));
  EXPECT_TRUE(file_text(at("real/out.safetensors")) == expected);
  EXPECT_THAT(files_like(".tmp-"), ::testing::IsEmpty());
}

TEST_F(AttentionApply, NeverLeavesHalfAFileNorItsOwnInputOverwritten) {
  const RawFile file = projections();
  const std::string bytes = text_of(file);
  folder_.write("in.safetensors", bytes);
  const auto apply_to = [&](const std::string& out) {
    return attnlab(
        {"attention", "apply", "--use", "quest", "--in", "in.safetensors", "--out", out});
  };
  EXPECT_THAT(apply_to("./in.safetensors").err,
              mentions("in.safetensors", "input file", "another"));
  EXPECT_EQ(file_text(at("in.safetensors")), bytes);
  const Ended nowhere = apply_to("gone/out.safetensors");
  EXPECT_EQ(nowhere.exit_code, 2);
  EXPECT_THAT(nowhere.err, HasSubstr("gone/out.safetensors: "));
  folder_.write("in.safetensors", bytes.substr(0, bytes.size() - 1));
  folder_.write("out.safetensors", "old");
  const Ended cut = apply_to("out.safetensors");
  EXPECT_EQ(cut.exit_code, 2);
  EXPECT_THAT(cut.err, HasSubstr("in.safetensors: "));
  EXPECT_EQ(file_text(at("out.safetensors")), "old");
  Invocation full = invocation({"attention", "apply", "--use", "quest", "--in", "big.safetensors",
                                "--out", "out.safetensors"});
  folder_.write("big.safetensors", bytes);
  full.largest_file = 512;  // a full disk
  EXPECT_EQ(run(full).exit_code, 2);
  EXPECT_EQ(file_text(at("out.safetensors")), "old");
  EXPECT_THAT(files_like(".tmp"), ::testing::IsEmpty());
}

}  // namespace
}  // namespace attnlab::testing::attention_apply_test
