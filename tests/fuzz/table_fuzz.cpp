// Fuzzes the reader of tables: the first letter says of which kind the file is (c: .csv, t: .tsv,
// z: .csv.gz, n: .npz, s: .safetensors), the rest is the file. Whatever the bytes, it answers with
// cases that lie one behind the other, or with an error that names the file or the option.
// Code: plugins/datasets/series/table/table_file.cpp framework/data/formats/csv.cpp
#include "plugins/datasets/series/table/table_file.h"

#include <cmath>
#include <string>
#include <string_view>

#include "framework/base/error.h"
#include "framework/config/options.h"
#include "tests/fuzz/files_in_memory.h"

namespace attnlab::fuzz {
namespace {

void check_sound(const TableCases& cases) {
  if (cases.count() < 1) fail("a table without cases");
  if (cases.offsets.size() != cases.labels.size() + 1 || cases.offsets.front() != 0 ||
      cases.offsets.back() != cases.values.size(0)) {
    fail("offsets that do not span the values");
  }
  for (std::size_t i = 1; i < cases.offsets.size(); ++i) {
    if (cases.offsets[i] <= cases.offsets[i - 1]) fail("a case without rows");
  }
  if (cases.values.dim() != 2 || cases.values.isinf().any().item<bool>()) {
    fail("values that are infinite, or no rows");
  }
}

std::string path_of(const MemoryFolder& folder, std::string_view input) {
  if (input.empty()) return folder.write("in.csv", "");
  const std::string_view rest = input.substr(1);
  switch (input.front()) {
    case 't':
      return folder.write("in.tsv", rest);
    case 'z':
      return folder.write("in.csv.gz", rest);
    case 'n':
      return folder.write("in.npz", rest);
    case 's':
      return folder.write("in.safetensors", rest);
    default:
      return folder.write("in.csv", rest);
  }
}

}  // namespace

Target target() {
  Target target;
  const std::string header = R"({"x":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                             R"("label":{"dtype":"I64","shape":[2],"data_offsets":[8,24]}})";
  const std::string length(1, static_cast<char>(header.size()));
  target.seeds = {"clabel,x,y\na,1,2\nb,3,4\n",
                  "clabel,group,time,x\r\na,g,2,1.5\r\na,g,1,\r\nb,h,0,\"-2e3\"\r\n",
                  "tlabel\tx\na\t1\nb\t\n",
                  "s" + length + std::string(7, '\0') + header + std::string(24, '\0'),
                  "c\xef\xbb\xbflabel,x\n\"a\"\"b\",1e39\n",
                  "nPK\x03\x04",
                  "z\x1f\x8b",
                  ""};
  target.words = {"label",
                  "group",
                  "time",
                  ",",
                  "\"",
                  "\"\"",
                  "\r\n",
                  "NaN",
                  "inf",
                  "1e39",
                  "\"label\":{",
                  "\"dtype\":\"F32\"",
                  "\"I64\"",
                  "\"shape\":[",
                  "\"data_offsets\":[",
                  "PK\x01\x02",
                  "PK\x05\x06",
                  "x.npy",
                  "\x93NUMPY",
                  "'descr': '<f4'"};
  return target;
}

}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  static const fuzz::MemoryFolder folder;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string path = fuzz::path_of(folder, input);
  TableColumns columns;
  columns.label = "label";
  if (input.find("group") != input.npos) columns.group = "group";
  if (input.find("time") != input.npos) columns.time = "time";
  try {
    fuzz::check_sound(read_table(path, columns));
    return 0;
  } catch (const OptionError&) {
    return -1;  // a column that the file does not have
  } catch (const DataError& error) {
    fuzz::check_names(path, error);
    return -1;
  }
}
