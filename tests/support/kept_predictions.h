// Files of predictions of made-up evaluations, written here byte by byte.
#pragma once

#include <bit>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "framework/base/files.h"
#include "framework/base/json.h"
#include "framework/runs/evaluations.h"

namespace attnlab::testing {

struct MadePredictions {
  std::vector<std::int64_t> examples;
  std::map<std::string, std::vector<double>> scores;
  std::vector<double> terms = {};  ///< empty: 1 of each
  std::string data = "data";
};

/// In the format of safetensors, whose header is filled up with spaces to a multiple of 8 bytes.
inline std::string bytes_of(const MadePredictions& made) {
  static_assert(std::endian::native == std::endian::little);
  nlohmann::json header = {{"__metadata__", {{"data", made.data}}}};
  std::string data;
  const auto add = [&](const std::string& name, const char* dtype, const auto& numbers) {
    const std::size_t begin = data.size();
    for (const auto number : numbers) {
      data.append(reinterpret_cast<const char*>(&number), sizeof(number));
    }
    header[name] = {{"dtype", dtype}, {"shape", {numbers.size()}}};
    header[name]["data_offsets"] = {begin, data.size()};
  };
  add("example", "I64", made.examples);
  add("terms", "F64",
      made.terms.empty() ? std::vector<double>(made.examples.size(), 1.0) : made.terms);
  for (const auto& [name, scores] : made.scores) add("score." + name, "F64", scores);
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text + data;
}

/// Writes a result with its predictions into a run's folder.
inline void keep(const std::string& run_folder, EvaluationRecord record, const std::string& bytes) {
  record.predictions = hex(fingerprint(bytes));
  write_evaluation(run_folder, record);  // makes the folder
  write_file(run_folder + "/evaluations/" + record.entry + "-" + record.hash + ".safetensors",
             bytes);
}

}  // namespace attnlab::testing
