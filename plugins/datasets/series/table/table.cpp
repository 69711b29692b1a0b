// Your own table: a file of values between commas or tabs, or of arrays (.npz, .safetensors), with
// a label for each case.
//
//   a row a case      F values become a series of F steps and one channel: attention between values
//   `group: patient`  the rows of one value of that column are a series of C channels
//   arrays            [N, F] as rows, [N, L, C] as series
//   series = (x - mean_c) / deviation_c      of the training cases; deviation with n - 1, 1 for 0
//
// Held-out cases are drawn from each class alike, by `split_seed` and not by the run's seed, so
// that all runs are tested on the same cases. Cost: the table is held in memory as float32.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/random.h"
#include "framework/base/text.h"
#include "framework/data/formats/files.h"
#include "framework/data/series/series.h"
#include "framework/plugin.h"
#include "plugins/datasets/series/table/table_file.h"

namespace attnlab {
namespace {

struct TableOptions {
  std::string file;
  std::string test_file;
  std::string label = "label";
  std::string group;
  std::string time;
  std::vector<std::string> columns;
  double test = 0.2;
  double validation = 0;
  std::int64_t split_seed = 0;
  std::string normalise = "train";
  std::string missing = "refuse";

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("file", file, required(),
      "the table: .csv, .tsv (also with .gz), .npz or .safetensors; a path, or one below "
      "$ATTNLAB_DATA");
    v("test_file", test_file, "a second table with the test cases; empty: some of `file`");
    v("label", label, "column, or array, of the class");
    v("group", group, "column whose equal values make rows one series; empty: each row is a case");
    v("time", time, "column that orders the rows of a series; empty: order of the file");
    v("columns", columns, "columns of values, or the array; empty: all but those above");
    v("test", test, range(0, 0.9), "share of each class's cases for testing");
    v("validation", validation, range(0, 0.9),
      "share of each class's other cases held out for validation");
    v("split_seed", split_seed, range(0, 9e15), "seed of the choice of held-out cases");
    v("normalise", normalise, one_of("train", "none"),
      "train: each column by mean and deviation of the training cases");
    v("missing", missing, one_of("refuse", "mean"),
      "values that are missing: an error, or the column's mean of the training cases");
  }
};

/// A file as it is named (`data_path`), or below $ATTNLAB_DATA. @throws DataMissingError with both
/// places.
std::string find_table(const std::string& name, const char* option) {
  std::vector<std::string> places = {data_path(name)};
  const char* const home = std::getenv("ATTNLAB_DATA");
  if (home != nullptr && std::filesystem::path(name).is_relative()) {
    places.push_back(fmt::format("{}/{}", home, name));
  }
  for (const std::string& place : places) {
    std::error_code error;
    if (std::filesystem::is_regular_file(place, error)) return place;
  }
  throw DataMissingError(
      fmt::format("the table '{}' is not here; looked for the files\n  {}\n"
                  "correct the option `{}`",
                  name, join(places, "\n  "), option));
}

/// Numbers in their order, other names by the alphabet.
std::vector<std::string> sorted_classes(const std::vector<std::string>& labels) {
  const std::set<std::string> names(labels.begin(), labels.end());
  std::vector<std::string> classes(names.begin(), names.end());
  const auto number = [](const std::string& name) { return Node::scalar(name).as_int(); };
  if (std::all_of(classes.begin(), classes.end(), number)) {
    std::sort(classes.begin(), classes.end(),
              [&](const auto& a, const auto& b) { return *number(a) < *number(b); });
  }
  return classes;
}

class OwnTable final : public Dataset {
 public:
  OwnTable(const TableOptions& options, const DatasetSetup&) : options_(options) {
    if (!options.time.empty() && options.group.empty()) {
      throw OptionError("time", "orders the rows of a series; say what makes one (`group`)");
    }
    TableColumns columns{options.label, options.group, options.time, options.columns};
    const std::string path = find_table(options.file, "file");
    table_ = read_table(path, columns);
    info_.name = std::filesystem::path(options.file).stem().string();
    info_.source = path;
    std::uint64_t hash = table_.hash;
    const std::int64_t own = table_.count();
    if (!options.test_file.empty()) {
      const std::string test_path = find_table(options.test_file, "test_file");
      columns.values = table_.names;  // whatever their order there
      hash = fingerprint(hex(add_cases(read_table(test_path, columns), test_path)), hash);
    }
    info_.fingerprint = hex(fingerprint(
        fmt::format("{} {} {} {} {} {} {} {} {}", options.test, options.validation,
                    options.split_seed, options.normalise, options.missing, options.label,
                    options.group, options.time, join(options.columns, ",")),
        hash));
    info_.class_names = sorted_classes(table_.labels);
    info_.classes = std::ssize(info_.class_names);
    for (const std::string& label : table_.labels) {
      const auto at = std::find(info_.class_names.begin(), info_.class_names.end(), label);
      classes_.push_back(at - info_.class_names.begin());
    }
    split(own);
    scale();
    describe_fields();
  }

  const DatasetInfo& info() const override { return info_; }

  std::int64_t size(Split split) const override { return std::ssize(cases(split)); }

  NamedTensors make_example(Split split, std::int64_t index, Random*) const override {
    const auto i = static_cast<std::size_t>(cases(split)[static_cast<std::size_t>(index)]);
    const std::int64_t begin = table_.offsets[i], rows = table_.offsets[i + 1] - begin;
    Tensor series = table_.values.narrow(0, begin, rows).clone();
    if (table_.vectors) series = series.view({-1, 1});
    NamedTensors fields = {{"length", at::scalar_tensor(series.size(0), at::kLong)},
                           {"class", at::scalar_tensor(classes_[i], at::kLong)}};
    if (unequal_) fields.set("valid", at::ones({series.size(0)}, at::kBool));
    fields.set("series", std::move(series));
    return fields;
  }

  Batch collate(const std::vector<NamedTensors>& examples) const override {
    return unequal_ ? collate_series(examples, 0) : Dataset::collate(examples);
  }

 private:
  const std::vector<std::int64_t>& cases(Split split) const {
    return split == Split::train ? train_ : split == Split::test ? test_ : held_out_;
  }

  /// Puts the test file's cases behind the others. @returns the file's hash
  std::uint64_t add_cases(const TableCases& test, const std::string& path) {
    if (test.vectors != table_.vectors || test.values.size(1) != table_.values.size(1)) {
      throw DataError(
          fmt::format("{}: has {} columns of values, {} has {}; two tables of one data "
                      "set have the same",
                      path, test.values.size(1), info_.source, table_.values.size(1)));
    }
    for (const std::string& label : test.labels) {
      const auto& known = table_.labels;
      if (std::find(known.begin(), known.begin() + own_labels(), label) != known.end()) continue;
      throw DataError(fmt::format("{}: the class '{}' is in no case of {}", path, one_line(label),
                                  info_.source));
    }
    const std::int64_t rows = table_.offsets.back();
    for (std::size_t i = 1; i < test.offsets.size(); ++i) {
      table_.offsets.push_back(rows + test.offsets[i]);
    }
    table_.labels.insert(table_.labels.end(), test.labels.begin(), test.labels.end());
    table_.values = at::cat({table_.values, test.values});
    return test.hash;
  }
  std::ptrdiff_t own_labels() const { return std::ssize(table_.labels); }

  /// @param own  cases of `file`; what comes behind them is tested on
  void split(std::int64_t own) {
    std::vector<std::vector<std::int64_t>> of_class(info_.class_names.size());
    const RandomStreams streams(static_cast<std::uint64_t>(options_.split_seed));
    for (const std::int64_t i : permutation(own, streams.stream("split"))) {
      of_class[static_cast<std::size_t>(classes_[static_cast<std::size_t>(i)])].push_back(i);
    }
    for (std::vector<std::int64_t>& all : of_class) {
      if (options_.test_file.empty()) take(options_.test, all, test_);
      take(options_.validation, all, held_out_);
      train_.insert(train_.end(), all.begin(), all.end());
    }
    for (std::int64_t i = own; i < table_.count(); ++i) test_.push_back(i);
    for (auto* list : {&train_, &held_out_, &test_}) std::sort(list->begin(), list->end());
    const auto refuse_nothing = [&](const char* option, double share, const auto& list) {
      if (share == 0 || !list.empty()) return;
      throw OptionError(option, fmt::format("holds out no case of {}: no class has two, of which "
                                            "one could go; set it to 0",
                                            info_.source));
    };
    if (options_.test_file.empty()) refuse_nothing("test", options_.test, test_);
    refuse_nothing("validation", options_.validation, held_out_);
  }

  /// Moves a share of a class's cases, at least one and never all.
  static void take(double share, std::vector<std::int64_t>& from, std::vector<std::int64_t>& to) {
    if (share == 0 || from.size() < 2) return;
    const std::int64_t wanted = std::llround(share * double(from.size()));
    const auto count = std::clamp<std::int64_t>(wanted, 1, std::ssize(from) - 1);
    to.insert(to.end(), from.end() - count, from.end());
    from.resize(from.size() - static_cast<std::size_t>(count));
  }

  /// Fills in what is missing, and scales the columns.
  void scale() {
    if (options_.missing == "refuse") {
      const auto missing = at::isnan(table_.values).sum().item<std::int64_t>();
      if (missing > 0) {
        throw DataError(
            fmt::format("{}: {} values are missing; set `missing: mean`, or leave their columns "
                        "out (`columns`)",
                        info_.source, missing));
      }
    }
    std::vector<Tensor> rows;
    for (const std::int64_t i : train_) {
      const std::int64_t begin = table_.offsets[static_cast<std::size_t>(i)];
      const std::int64_t end = table_.offsets[static_cast<std::size_t>(i) + 1];
      rows.push_back(table_.values.narrow(0, begin, end - begin));
    }
    const Tensor train = at::cat(rows).to(at::kDouble), there = at::isnan(train).logical_not();
    const Tensor count = there.sum(0).to(at::kDouble).clamp_min(1);
    const Tensor mean = at::nan_to_num(train, 0.0).sum(0) / count;
    const Tensor off = at::where(there, train - mean, at::zeros_like(train));
    Tensor deviation = ((off * off).sum(0) / (count - 1).clamp_min(1)).sqrt();
    deviation = at::where(deviation > 0, deviation, at::ones_like(deviation));
    Tensor& values = table_.values;
    values = at::where(at::isnan(values), mean.to(at::kFloat).expand_as(values), values);
    if (options_.normalise == "none") return;
    values = ((values.to(at::kDouble) - mean) / deviation).to(at::kFloat).contiguous();
  }

  void describe_fields() {
    std::int64_t shortest = table_.offsets.back(), longest = 0;
    for (std::size_t i = 0; i + 1 < table_.offsets.size(); ++i) {
      const std::int64_t rows = table_.offsets[i + 1] - table_.offsets[i];
      shortest = std::min(shortest, rows);
      longest = std::max(longest, rows);
    }
    unequal_ = shortest < longest;
    const std::int64_t columns = table_.values.size(1);
    const std::int64_t length = table_.vectors ? columns : unequal_ ? -1 : longest;
    info_.fields = {{"series", {length, table_.vectors ? 1 : columns}, at::kFloat},
                    {"length", {}, at::kLong}};
    if (unequal_) info_.fields.push_back({"valid", {length}, at::kBool});
    info_.fields.push_back({"class", {}, at::kLong});
  }

  TableOptions options_;
  DatasetInfo info_;
  TableCases table_;
  std::vector<std::int64_t> classes_, train_, held_out_, test_;
  bool unequal_ = false;
};

}  // namespace

ATTNLAB_PLUGIN(dataset, OwnTable, TableOptions,
               {.id = "attnlab/table",
                .version = "1.0.0",
                .summary = "your own table: CSV, TSV, npz or safetensors, rows or series",
                .licence = "that of your data",
                .gives = {"series", "length", "valid?", "class"}})

}  // namespace attnlab
