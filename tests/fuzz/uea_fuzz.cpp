// Fuzzes the reader of .ts files: whatever the bytes, it answers with series or with a DataError
// that names file and line; what it read hangs together, and written out again it reads as the
// same.
// Code: framework/data/formats/ts_file.cpp
#include <charconv>
#include <cmath>
#include <cstring>

#include "framework/base/error.h"
#include "framework/data/formats/ts_file.h"
#include "tests/fuzz/fuzz.h"

namespace attnlab::fuzz {
namespace {

void check_sound(const TsFile& file, std::size_t size) {
  const std::int64_t cases = file.cases();
  if (cases < 1 || file.channels < 1) fail("a file without cases or channels");
  if (file.values.size() > size) fail("more values than characters");
  if (static_cast<std::int64_t>(file.offsets.size()) != cases * file.channels + 1) {
    fail("offsets do not fit cases and channels");
  }
  if (file.offsets.front() != 0 ||
      file.offsets.back() != static_cast<std::int64_t>(file.values.size())) {
    fail("offsets do not span the values");
  }
  for (std::size_t i = 1; i < file.offsets.size(); ++i) {
    if (file.offsets[i] < file.offsets[i - 1]) fail("offsets fall");
  }
  for (const float value : file.values) {
    if (std::isinf(value)) fail("an infinite value");
  }
  const auto count = static_cast<std::size_t>(cases);
  if (file.labels.size() != (file.classes.empty() ? 0 : count)) fail("labels do not fit the cases");
  if (file.targets.size() != (file.has_targets ? count : 0)) fail("targets do not fit the cases");
  for (const std::int64_t label : file.labels) {
    if (label < 0 || label >= static_cast<std::int64_t>(file.classes.size())) fail("a wild label");
  }
}

template <class T>
std::string digits_of(T value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

std::string written(const TsFile& file) {
  std::string out = "@dimensions " + std::to_string(file.channels) + "\n";
  if (file.has_targets) out += "@targetLabel true\n";
  if (!file.has_targets) out += file.classes.empty() ? "@classLabel false" : "@classLabel true";
  for (const std::string& name : file.classes) out += " " + name;
  out += "\n@data\n";
  for (std::int64_t i = 0; i < file.cases(); ++i) {
    for (std::int64_t c = 0; c < file.channels; ++c) {
      const auto at = static_cast<std::size_t>(i * file.channels + c);
      if (c > 0) out += ':';
      for (std::int64_t t = file.offsets[at]; t < file.offsets[at + 1]; ++t) {
        const float value = file.values[static_cast<std::size_t>(t)];
        if (t > file.offsets[at]) out += ',';
        out += std::isnan(value) ? "?" : digits_of(value);
      }
    }
    const auto k = static_cast<std::size_t>(i);
    if (!file.labels.empty()) out += ":" + file.classes[static_cast<std::size_t>(file.labels[k])];
    if (file.has_targets) out += ":" + digits_of(file.targets[k]);
    out += '\n';
  }
  return out;
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) ? !std::isnan(b[i]) : a[i] != b[i]) return false;
  }
  return true;
}

void check_reads_back(const TsFile& file) {
  const TsFile again = parse_ts(written(file), "again.ts");
  if (!same(file.values, again.values) || file.offsets != again.offsets ||
      file.labels != again.labels || file.targets != again.targets ||
      file.classes != again.classes) {
    fail("reads otherwise than it was written: " + written(file));
  }
}

}  // namespace

Target target() {
  const std::string header =
      "#c\n@problemName p\n@timeStamps false\n@missing true\n@univariate false\n@dimensions 2\n"
      "@equalLength false\n@classLabel true a b\n@data\n";
  Target target;
  target.seeds = {
      header + "1,2,?:3,4,5:a\n0.5:-1e-3:b\n",
      header + ":1:a\r\n 1 , 2 : 3 :b \r\n",
      "@univariate true\n@equalLength true\n@seriesLength 3\n@classLabel true x\n@data\n1,2,3:x\n",
      "@targetLabel true\n@data\n1,2:3:0.25\n",
      "@classLabel false\n@data\n1:2:3\n4,5:6:7\n",
      "@timeStamps true\n@classLabel true a\n@data\n(0,1):a\n",
      "\xef\xbb\xbf@univariate true\n@classLabel true a\n@data\n1e39,1e-60,NaN,inf,+1:a",
      "",
  };
  target.words = {"@data\n",
                  "@dimensions ",
                  "@classLabel true ",
                  "@targetLabel true\n",
                  "@seriesLength 1\n",
                  "@equalLength true\n",
                  "@univariate true\n",
                  "@timeStamps false\n",
                  "@missing false\n",
                  "true",
                  "false",
                  "?",
                  "NaN",
                  ":",
                  ",",
                  ",,",
                  "::",
                  "\r\n",
                  "\n\n",
                  "#",
                  "%",
                  "1e400",
                  "-1e-400",
                  "+-1",
                  "(0,1)",
                  "inf",
                  "99999999999999999999",
                  "\t",
                  ":a\n"};
  return target;
}

}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  TsFile file;
  try {
    file = parse_ts({reinterpret_cast<const char*>(data), size}, "f.ts");
  } catch (const DataError& error) {
    const std::string what = error.what();
    if (what.rfind("f.ts:", 0) != 0 || what.size() < 6 || what[5] < '1' || what[5] > '9') {
      fuzz::fail("an error without file and line: " + what);
    }
    return -1;
  }
  fuzz::check_sound(file, size);
  fuzz::check_reads_back(file);
  return 0;
}
