#include "framework/sharing/expected.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>

#include "framework/base/foreign_text.h"
#include "framework/base/json.h"
#include "framework/base/random.h"
#include "framework/sharing/foreign_json.h"

namespace attnlab::sharing {
namespace {

using nlohmann::json;

constexpr std::string_view kFolder = "expected/";
constexpr std::uint64_t kLargestHeader = 1 << 20;

struct Tensor {
  std::string dtype, shape;
  std::string_view bytes;
};

using Tensors = std::map<std::string, Tensor>;

/// (framework/data/formats/safetensors.h reads them for LibTorch, which is not loaded here.)
Tensors read_tensors(std::string_view file) {
  std::uint64_t header = 0;
  if (file.size() < sizeof header) throw BundleError("expected numbers: a file is cut short");
  std::memcpy(&header, file.data(), sizeof header);
  if (header > kLargestHeader || header > file.size() - sizeof header) {
    throw BundleError("expected numbers: a file is damaged");
  }
  const std::string_view data = file.substr(sizeof header + header);
  Tensors all;
  try {
    const json root = parse_json(file.substr(sizeof header, header));
    for (const auto& [name, entry] : root.items()) {
      if (name == "__metadata__") continue;
      const std::uint64_t begin = entry.at("data_offsets").at(0),
                          end = entry.at("data_offsets").at(1);
      if (begin > end || end > data.size())
        throw BundleError("expected numbers: a file is cut short");
      all[name] = {entry.at("dtype"), entry.at("shape").dump(), data.substr(begin, end - begin)};
    }
  } catch (const json::exception& damage) {
    throw BundleError("expected numbers: " + one_line(damage.what(), 200));
  }
  return all;
}

template <class Number>
Number at(std::string_view bytes, std::size_t i) {
  Number number;
  std::memcpy(&number, bytes.data() + i * sizeof number, sizeof number);
  return number;
}

std::size_t size_of(const std::string& dtype) {
  return dtype == "F64" ? 8 : dtype == "F32" ? 4 : dtype == "BF16" ? 2 : 0;
}

double value_at(const Tensor& tensor, std::size_t i) {
  if (tensor.dtype == "F64") return at<double>(tensor.bytes, i);
  if (tensor.dtype == "F32") return at<float>(tensor.bytes, i);
  const std::uint32_t bits = std::uint32_t{at<std::uint16_t>(tensor.bytes, i)} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// @returns whether two values count as equal.
bool near(const std::string& dtype, double expected, double found) {
  if (std::isnan(expected) || std::isnan(found)) return std::isnan(expected) && std::isnan(found);
  if (std::isinf(expected) || std::isinf(found)) return expected == found;
  const double relative = dtype == "F64" ? 1e-8 : dtype == "F32" ? 1e-4 : 2e-2;
  const double absolute = dtype == "F64" ? 1e-10 : dtype == "F32" ? 1e-5 : 2e-2;
  return std::abs(expected - found) <= absolute + relative * std::abs(expected);
}

void compare_one(const std::string& name, const Tensor& expected, const Tensor& found,
                 Deviation& out) {
  const std::size_t size = size_of(expected.dtype);
  if (size == 0) {
    out.problem = fmt::format("tensor '{}' is {}, which is not compared; give F64, F32 or BF16",
                              one_line(name, 100), one_line(expected.dtype, 20));
    return;
  }
  if (expected.dtype != found.dtype || expected.shape != found.shape ||
      expected.bytes.size() != found.bytes.size()) {
    out.problem =
        fmt::format("tensor '{}' is {} {}, expected {} {}", one_line(name, 100),
                    one_line(found.dtype, 20), found.shape, expected.dtype, expected.shape);
    return;
  }
  for (std::size_t i = 0; i < expected.bytes.size() / size; ++i) {
    const double want = value_at(expected, i), have = value_at(found, i);
    if (std::isfinite(want) && std::isfinite(have)) {
      out.largest = std::max(out.largest, std::abs(want - have));
    }
    if (near(expected.dtype, want, have)) continue;
    out.problem = fmt::format("tensor '{}' holds {:.8g} at place {}, expected {:.8g}",
                              one_line(name, 100), have, i, want);
    return;
  }
}

}  // namespace

std::vector<std::string> expected_cases(const Bundle& bundle) {
  std::set<std::string> folders, paths;  // sorted: a bundle's list may have any length
  for (const ArchiveFile& file : bundle.files) {
    if (!file.path.starts_with(kFolder)) continue;
    paths.insert(file.path);
    const std::size_t end = file.path.find('/', kFolder.size());
    if (end != std::string::npos) folders.insert(file.path.substr(0, end));
  }
  for (const std::string& folder : folders) {  // files beside them, a README, are not cases
    for (const char* name : {"in.safetensors", "out.safetensors", "options.json"}) {
      const std::string path = fmt::format("{}/{}", folder, name);
      if (paths.count(path) == 0) static_cast<void>(bundle.file(path));  // throws
    }
  }
  return {folders.begin(), folders.end()};
}

Deviation compare_tensors(std::string_view expected, std::string_view found) {
  const Tensors want = read_tensors(expected), have = read_tensors(found);
  Deviation out;
  if (want.empty()) {
    out.problem = "the expected file holds no tensor";
    return out;
  }
  for (const auto& [name, tensor] : want) {
    const auto other = have.find(name);
    if (other == have.end()) {
      out.problem = fmt::format("tensor '{}' is missing", one_line(name, 100));
    } else {
      compare_one(name, tensor, other->second, out);
    }
    if (!out.problem.empty()) return out;
  }
  for (const auto& [name, tensor] : have) {
    if (want.count(name) > 0) continue;
    out.problem = fmt::format("tensor '{}' is there, and is not expected", one_line(name, 100));
    return out;
  }
  return out;
}

std::string made_up_tensors() {
  constexpr std::size_t kNumbers = 2 * 2 * 6 * 8;
  constexpr std::size_t kBytes = kNumbers * sizeof(float);
  json header = json::object();
  std::string data;
  Random random(22);
  std::size_t begin = 0;
  for (const char* name : {"q", "k", "v"}) {
    header[name] = {
        {"dtype", "F32"}, {"shape", {2, 2, 6, 8}}, {"data_offsets", {begin, begin + kBytes}}};
    begin += kBytes;
    for (std::size_t i = 0; i < kNumbers; ++i) {
      const auto value = static_cast<float>(random.uniform() * 4 - 2);
      data.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t size = text.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + text + data;
}

}  // namespace attnlab::sharing
