#include "framework/runs/predictions.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>

#include "framework/base/error.h"
#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/parsed_json.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kEnding = ".safetensors";
constexpr std::size_t kNumber = 8;  // bytes of each

/// The columns of a file, whose numbers are all of 8 bytes.
class Columns {
 public:
  /// @throws DataError, nlohmann::json::exception.
  explicit Columns(std::string_view bytes) {
    std::uint64_t length = 0;
    if (bytes.size() < sizeof(length)) throw DataError("it ends before its header");
    std::memcpy(&length, bytes.data(), sizeof(length));
    if (length > bytes.size() - sizeof(length)) throw DataError("it ends in its header");
    header_ = parsed_json(bytes.substr(sizeof(length), length));
    data_ = bytes.substr(sizeof(length) + length);
    if (!header_.is_object()) throw DataError("its header is not a map");
  }

  const json& header() const { return header_; }

  template <class T>
  std::vector<T> numbers(const std::string& name, const char* dtype) const {
    static_assert(sizeof(T) == kNumber);
    const json& column = header_.at(name);
    const auto shape = column.at("shape").get<std::vector<std::uint64_t>>();
    const auto ends = column.at("data_offsets").get<std::vector<std::uint64_t>>();
    const bool sound = column.at("dtype") == dtype && shape.size() == 1 && ends.size() == 2 &&
                       ends[0] <= ends[1] && ends[1] <= data_.size() &&
                       (ends[1] - ends[0]) % kNumber == 0 &&
                       (ends[1] - ends[0]) / kNumber == shape[0];
    if (!sound)
      throw DataError(fmt::format("its '{}' is not a column of {}", one_line(name), dtype));
    std::vector<T> out(shape[0]);
    if (!out.empty()) std::memcpy(out.data(), data_.data() + ends[0], out.size() * kNumber);
    return out;
  }

 private:
  json header_;
  std::string_view data_;
};

Predictions predictions_in(std::string_view bytes) {
  const Columns columns(bytes);
  Predictions out;
  out.examples = columns.numbers<std::int64_t>(kPredictedExamples, "I64");
  out.terms = columns.numbers<double>(kPredictedTerms, "F64");
  const std::string_view score = kPredictedScore;
  for (const auto& [name, column] : columns.header().items()) {
    if (name.starts_with(score)) {
      out.scores[name.substr(score.size())] = columns.numbers<double>(name, "F64");
    }
  }
  const auto fits = [&](const std::vector<double>& all) {
    return all.size() == out.examples.size();
  };
  bool whole = fits(out.terms);
  for (const auto& [name, values] : out.scores) whole = whole && fits(values);
  if (!whole) throw DataError("its columns are not of one length");
  out.data = columns.header().at("__metadata__").at("data").get<std::string>();
  return out;
}

}  // namespace

std::string predictions_file(const std::string& entry, const std::string& hash) {
  return fs::path(evaluation_file(entry, hash)).replace_extension(kEnding).string();
}

Predictions read_predictions(const std::string& run_folder, const EvaluationRecord& record) {
  if (record.predictions.empty()) {
    throw ConfigError(
        fmt::format("{}: evaluation '{}' kept no predictions; give it "
                    "predictions: true and evaluate it again",
                    run_folder, record.entry));
  }
  const std::string path =
      (fs::path(run_folder) / "evaluations" / fs::path(record.file).replace_extension(kEnding))
          .string();
  const auto damaged = [&](const std::string& why) {
    return DataError(fmt::format("{}: damaged: {}; attnlab eval {} {} --again makes it again", path,
                                 why, run_folder, record.entry));
  };
  if (!is_there(path)) throw damaged("it is missing");
  const std::string bytes = read_text(path, kLargestRecord);
  if (hex(fingerprint(bytes)) != record.predictions) {
    throw damaged("it is not what its result was written with");
  }
  try {
    return predictions_in(bytes);
  } catch (const json::exception& error) {
    throw damaged(error.what());
  } catch (const DataError& error) {
    throw damaged(error.what());
  }
}

}  // namespace attnlab
