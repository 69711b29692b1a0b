// Fuzzes the reader of predictions, which come with results of other labs: whatever the bytes, the
// answer is columns of one length, or a DataError that names the file.
// Code: framework/runs/predictions.cpp
#include "framework/runs/predictions.h"

#include <cstring>
#include <filesystem>

#include "framework/base/error.h"
#include "tests/fuzz/files_in_memory.h"
#include "tests/support/kept_predictions.h"

namespace attnlab::fuzz {
namespace {

/// Sets the header's length to where the input's last brace is.
void repair_length(std::string& input) {
  const std::size_t brace = input.find_last_of('}');
  if (brace == std::string::npos || brace < sizeof(std::uint64_t)) return;
  const std::uint64_t length = brace + 1 - sizeof length;
  std::memcpy(input.data(), &length, sizeof length);
}

void check(const Predictions& predictions, std::size_t size) {
  const std::size_t count = predictions.examples.size();
  if (predictions.terms.size() != count) fail("terms of another number of examples");
  for (const auto& [name, scores] : predictions.scores) {
    if (scores.size() != count) fail("scores of another number of examples");
  }
  if (count * sizeof(double) > size) fail("more examples than the file has bytes for");
}

}  // namespace

Target target() {
  const testing::MadePredictions made{
      {4, 7, 9}, {{"accuracy", {1, 0, 1}}, {"nll", {0.5, 2.25, -1e-300}}}, {1, 2, 3}, "print"};
  const std::string whole = testing::bytes_of(made);
  Target target;
  target.seeds = {whole, testing::bytes_of({{}, {}, {}, ""}), whole.substr(0, whole.size() - 8),
                  whole.substr(0, 20), ""};
  target.words = {"\"dtype\":",
                  "\"shape\":[",
                  "\"data_offsets\":[0,0]",
                  "\"F64\"",
                  "\"I64\"",
                  "\"score.accuracy\":",
                  "\"terms\":",
                  "\"example\":",
                  "\"__metadata__\":{",
                  "\"data\":\"\"",
                  "18446744073709551615",
                  "1e300",
                  "-1",
                  "null",
                  "[[[[[[[["};
  target.repair = repair_length;
  return target;
}

}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  static const fuzz::MemoryFolder folder;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::filesystem::create_directories(folder.path() + "/evaluations");
  const std::string path = folder.write("evaluations/swap-0.safetensors", bytes);
  EvaluationRecord record;
  record.entry = "swap";
  record.file = "swap-0.json";
  record.predictions = hex(fingerprint(bytes));
  try {
    fuzz::check(read_predictions(folder.path(), record), size);
    return 0;
  } catch (const DataError& error) {
    fuzz::check_names(path, error);
    return -1;
  }
}
