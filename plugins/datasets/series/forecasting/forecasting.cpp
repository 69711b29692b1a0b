// Forecasting: windows of one long table of series, which a model continues.
//
//   NAME.csv   a column `date` and one for each channel, a row a time step, gzipped or not
//   window i   series = rows [i, i + lookback), future = rows [i + lookback, i + lookback +
//   horizon) x = (raw - mean_c) / deviation_c      of the training part's rows; deviation with n, 1
//   for 0
//
//   split         training, validation and test part of n rows
//   ett_hours     [0, 8640), [8640, 11520), [11520, 14400): 12, 4 and 4 months of 30 days
//   ett_quarters  the same of quarters of an hour: times four; what comes behind is not used
//   shares        [0, a), [a, n - b), [n - b, n) with a = 0.7 n and b = 0.2 n, rounded down
//
// Windows of validation and test begin `lookback` rows before their part, so that the first
// `future` row is the part's first. All windows of a part count: published code left out a last
// test batch that was not full, and so other windows for other batch sizes. Parts, borders and
// scale as that code has them: zhouhaoyi/Informer2020, yuqinie98/PatchTST (204c21ef),
// thuml/iTransformer (c2426e68). Cost: the table is held in memory as float32; while it is opened,
// as text beside it.
#include <fmt/format.h>

#include <array>

#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/data/formats/files.h"
#include "framework/data/made_up.h"
#include "framework/plugin.h"
#include "plugins/datasets/series/forecasting/series_rows.h"

namespace attnlab {
namespace {

constexpr const char* kMadeUp = "made_up";

struct ForecastingOptions {
  std::string name;
  std::string root;
  std::int64_t lookback = 96;
  std::int64_t horizon = 96;
  std::string target;
  std::string split = "auto";
  std::string normalise = "train";
  bool calendar = false;
  MadeSeriesOptions made;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("name", name, required(),
      "the set, as its file is called: ETTh1, weather; made_up: generated series");
    v("root", root, "folder with the file, or the one above it; empty: $ATTNLAB_DATA");
    v("lookback", lookback, range(1, 1e6), "time steps that a model reads");
    v("horizon", horizon, range(1, 1e6), "next time steps, which it forecasts");
    v("target", target, "the only channel that is read (univariate: OT); empty: all of them");
    v("split", split, one_of("auto", "ett_hours", "ett_quarters", "shares"),
      "rows of training, validation and test; auto: ett_hours for ETTh*, ett_quarters for ETTm*, "
      "else shares of 70, 10 and 20 %");
    v("normalise", normalise, one_of("train", "none"),
      "train: each channel by mean and deviation of the training part");
    v("calendar", calendar,
      "also give hour, weekday, day of the month and of the year of each step");
    v("made", made, "the series of made_up");
  }
};

/// Where a part's rows begin and end.
struct RowRange {
  std::int64_t begin = 0, end = 0;
};

std::string folder_of(const ForecastingOptions& options) {
  if (options.name.empty() || options.name.find('/') != std::string::npos) {
    throw OptionError("name", fmt::format("expected the name of a set, as its file is called "
                                          "(ETTh1), or made_up, found '{}'",
                                          options.name));
  }
  DataSearch search;
  search.name = options.name.starts_with("ETT") ? "ETT-small" : options.name;
  search.files = {options.name + ".csv"};
  search.root = options.root;
  search.hint = fmt::format(
      "fetch {}.csv: ETT from https://github.com/zhouhaoyi/ETDataset, others from the collection "
      "that https://github.com/thuml/Autoformer names",
      options.name);
  return find_data_folder(search);
}

class Forecasting final : public Dataset {
 public:
  Forecasting(const ForecastingOptions& options, const DatasetSetup&) : options_(options) {
    SeriesRows rows;
    if (options.name == kMadeUp) {
      info_.source = "sums of periods, a trend and noise, made by rule";
      rows = made_series_rows(options.made, options.target, options.calendar);
    } else {
      info_.source = folder_of(options);
      const std::string path = with_or_without_gz(info_.source + "/" + options.name + ".csv");
      rows = read_series_rows(path, options.target, options.calendar);
    }
    divide(rows.values.size(0));
    calendar_ = rows.calendar;
    FieldInfo series{.name = "series", .shape = {options.lookback, rows.values.size(1)}};
    scale(rows, series);
    FieldInfo future = series;
    future.name = "future";
    future.shape[0] = options.horizon;
    info_.name = options.name;
    info_.fields = {series, future};
    if (options.calendar)
      info_.fields.push_back({.name = "calendar", .shape = {options.lookback, 4}});
    ForecastingOptions anywhere = options;
    anywhere.root.clear();
    info_.fingerprint = hex(fingerprint(OptionText::of(anywhere), rows.hash));
  }

  const DatasetInfo& info() const override { return info_; }

  std::int64_t size(Split split) const override {
    const RowRange& part = part_of(split);
    return part.end - first_row(split) - options_.lookback - options_.horizon + 1;
  }

  NamedTensors make_example(Split split, std::int64_t index, Random*) const override {
    const std::int64_t begin = first_row(split) + index;
    NamedTensors fields = {
        {"series", values_.narrow(0, begin, options_.lookback).clone()},
        {"future", values_.narrow(0, begin + options_.lookback, options_.horizon).clone()}};
    if (options_.calendar) {
      fields.set("calendar", calendar_.narrow(0, begin, options_.lookback).clone());
    }
    return fields;
  }

 private:
  const RowRange& part_of(Split split) const { return parts_[static_cast<std::size_t>(split)]; }
  /// The first row of the first window.
  std::int64_t first_row(Split split) const {
    return part_of(split).begin - (split == Split::train ? 0 : options_.lookback);
  }

  /// @param rows  n
  void divide(std::int64_t rows) {
    constexpr std::int64_t kHours = 30 * 24;
    std::string split = options_.split;
    if (split == "auto") {
      split = options_.name.starts_with("ETTh")   ? "ett_hours"
              : options_.name.starts_with("ETTm") ? "ett_quarters"
                                                  : "shares";
    }
    if (split == "shares") {
      const auto train = static_cast<std::int64_t>(double(rows) * 0.7);
      const auto test = static_cast<std::int64_t>(double(rows) * 0.2);
      parts_ = {RowRange{0, train}, RowRange{train, rows - test}, RowRange{rows - test, rows}};
    } else {
      const std::int64_t month = split == "ett_hours" ? kHours : 4 * kHours;
      parts_ = {RowRange{0, 12 * month}, RowRange{12 * month, 16 * month},
                RowRange{16 * month, 20 * month}};
      if (rows < 20 * month) {
        throw OptionError(
            "split", fmt::format("{} takes {} rows, and {} of {} has {}; fetch the whole file, or "
                                 "set it to shares",
                                 split, 20 * month, options_.name, info_.source, rows));
      }
    }
    for (const Split one : {Split::train, Split::validation, Split::test}) {
      if (size(one) > 0) continue;
      throw OptionError(
          one == Split::train ? "lookback" : "horizon",
          fmt::format(
              "the {} part of {} ({}) has {} rows, too few for a window of {} and {} behind "
              "it; make lookback or horizon smaller",
              name_of(one), options_.name, info_.source, part_of(one).end - part_of(one).begin,
              options_.lookback, options_.horizon));
    }
  }

  void scale(const SeriesRows& rows, FieldInfo& series) {
    if (options_.normalise == "none") {
      values_ = rows.values.to(at::kFloat);
      return;
    }
    const Tensor train = rows.values.narrow(0, 0, part_of(Split::train).end);
    const Tensor mean = train.mean(0);
    const Tensor spread = (train - mean).square().mean(0).sqrt();
    // A constant channel: rounding is not a deviation.
    const Tensor deviation = at::where(spread > 1e-12 * mean.abs(), spread, at::ones_like(spread));
    values_ = ((rows.values - mean) / deviation).to(at::kFloat);
    const auto list = [](const Tensor& x) {
      return std::vector<double>(x.data_ptr<double>(), x.data_ptr<double>() + x.numel());
    };
    series.mean = list(mean);
    series.deviation = list(deviation);
  }

  ForecastingOptions options_;
  DatasetInfo info_;
  std::array<RowRange, 3> parts_;  ///< by split
  Tensor values_;                  ///< [n, C] float32
  Tensor calendar_;                ///< [n, 4] float32; undefined without
};

}  // namespace

ATTNLAB_PLUGIN(dataset, Forecasting, ForecastingOptions,
               {.id = "attnlab/forecasting",
                .version = "1.0.0",
                .summary = "windows of long series and their continuations: ETT, weather, your own",
                .citation = "ETT: Zhou et al., Informer, AAAI 2021, arXiv:2012.07436",
                .licence = "as each set's",
                .gives = {"series", "future", "calendar?"}})

}  // namespace attnlab
