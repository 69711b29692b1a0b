// CSV series: labelled series of unequal length, one per line.
//
//   train.csv, test.csv:   label,value,value,...          each may be gzipped
//
// Classes are the labels of train.csv in the order in which they first stand there.
// Source: the tutorial. Cost: the series are held in memory as float32.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "framework/base/files.h"
#include "framework/data/formats/encoding.h"
#include "framework/data/formats/files.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct CsvSeriesOptions {
  std::string root;
  std::int64_t longest = 100000;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("root", root, "folder with train.csv and test.csv (empty: search the usual places)");
    v("longest", longest, at_least(1), "values that a series may have");
  }
};

struct Series {
  std::int64_t label = 0;
  std::vector<float> values;
};

/// The values of one line behind its label. @param place  "file:line", for messages
std::vector<float> read_values(const std::string& place, std::istringstream& line) {
  std::vector<float> values;
  for (std::string word; std::getline(line, word, ',');) {
    char* end = nullptr;
    const double value = std::strtod(word.c_str(), &end);
    if (word.empty() || end != word.c_str() + word.size() || !std::isfinite(value)) {
      throw DataError(place + ": '" + word + "' is not a number; repair the line");
    }
    values.push_back(static_cast<float>(value));
  }
  if (values.empty()) throw DataError(place + ": has no values behind its label");
  return values;
}

/// @param classes  known labels; new ones are added where `adds` says so, else refused
std::vector<Series> read_series(const std::string& path, bool adds, std::int64_t longest,
                                std::vector<std::string>& classes) {
  std::istringstream lines(std::string(without_mark(read_data_file(path), path)));
  std::vector<Series> all;
  std::size_t number = 0;
  for (std::string text; std::getline(lines, text);) {
    const std::string place = path + ":" + std::to_string(++number);
    std::istringstream line(text);
    std::string label;
    std::getline(line, label, ',');
    auto known = std::find(classes.begin(), classes.end(), label);
    if (known == classes.end() && !adds) {
      throw DataError(place + ": the label '" + label + "' does not stand in train.csv");
    }
    if (known == classes.end()) known = classes.insert(known, label);
    all.push_back({known - classes.begin(), read_values(place, line)});
    if (std::int64_t(all.back().values.size()) > longest) {
      throw DataError(place + ": has " + std::to_string(all.back().values.size()) +
                      " values; raise the option `longest` if that is right");
    }
  }
  if (all.empty()) throw DataError(path + ": holds no series");
  return all;
}

class CsvSeries final : public Dataset {
 public:
  CsvSeries(const CsvSeriesOptions& options, const DatasetSetup&) {
    const DataSearch search{"csv_series",
                            {"train.csv", "test.csv"},
                            options.root,
                            "write one line `label,value,value,...` a series"};
    info_.name = "csv_series";
    info_.source = find_data_folder(search);
    std::uint64_t hash = 0;
    for (const bool training : {true, false}) {
      const std::string path =
          with_or_without_gz(info_.source + (training ? "/train.csv" : "/test.csv"));
      hash = content_fingerprint(read_data_file(path), hash);
      (training ? train_ : test_) =
          read_series(path, /*adds=*/training, options.longest, info_.class_names);
    }
    info_.fingerprint = hex(hash);
    info_.classes = static_cast<std::int64_t>(info_.class_names.size());
    info_.fields = {{"series", {-1, 1}, at::kFloat},
                    {"valid", {-1}, at::kBool},
                    {"length", {}, at::kLong},
                    {"class", {}, at::kLong}};
  }

  const DatasetInfo& info() const override { return info_; }

  std::int64_t size(Split split) const override {
    return split == Split::validation ? 0 : static_cast<std::int64_t>(series(split).size());
  }

  NamedTensors make_example(Split split, std::int64_t index, Random*) const override {
    const Series& one = series(split)[static_cast<std::size_t>(index)];
    const auto length = static_cast<std::int64_t>(one.values.size());
    return {{"series", at::tensor(one.values).view({length, 1})},
            {"valid", at::ones({length}, at::kBool)},
            {"length", at::scalar_tensor(length, at::kLong)},
            {"class", at::scalar_tensor(one.label, at::kLong)}};
  }

 private:
  const std::vector<Series>& series(Split split) const {
    return split == Split::train ? train_ : test_;
  }

  DatasetInfo info_;
  std::vector<Series> train_, test_;
};

}  // namespace

ATTNLAB_PLUGIN(dataset, CsvSeries, CsvSeriesOptions,
               {.id = "attnlab/csv_series",
                .version = "1.0.0",
                .summary = "labelled series of unequal length from CSV files",
                .citation = "none",
                .licence = "that of your data",
                .gives = {"series", "valid", "length", "class"}})

}  // namespace attnlab
