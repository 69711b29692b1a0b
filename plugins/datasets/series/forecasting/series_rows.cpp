#include "plugins/datasets/series/forecasting/series_rows.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numbers>
#include <vector>

#include "framework/base/error.h"
#include "framework/base/foreign_text.h"
#include "framework/base/random.h"
#include "framework/base/text.h"
#include "framework/data/formats/csv.h"
#include "framework/data/formats/files.h"

namespace attnlab {
namespace {

constexpr const char* kDate = "date";

using Hours = std::chrono::sys_time<std::chrono::hours>;

/// Hour, weekday (from Monday on), day of the month and of the year, each in [-0.5, 0.5]: features
/// of hourly data as GluonTS and the published code make them.
void write_calendar(Hours time, float* out) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const auto new_year = std::chrono::sys_days(date.year() / std::chrono::January / 1);
  *out++ = float(double((time - day).count()) / 23 - 0.5);
  *out++ = float((std::chrono::weekday(day).iso_encoding() - 1) / 6.0 - 0.5);
  *out++ = float((unsigned(date.day()) - 1) / 30.0 - 0.5);
  *out = float(double((day - new_year).count()) / 365 - 0.5);
}

Hours hours_of(const CsvTable& table, std::size_t row, std::size_t column) {
  const std::string text(trimmed(table.rows[row].values[column]));
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, day_ends = 0;
  const int found = std::sscanf(text.c_str(), "%4d%*1[-/]%2d%*1[-/]%2d%n%*1[ T]%2d:%2d", &year,
                                &month, &day, &day_ends, &hour, &minute);
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(unsigned(month)),
                                         std::chrono::day(unsigned(day))};
  const bool whole = found == 5 || (found == 3 && day_ends == std::ssize(text));
  if (whole && date.ok() && hour >= 0 && hour < 24 && minute >= 0 && minute < 60) {
    return std::chrono::sys_days(date) + std::chrono::hours(hour);
  }
  throw DataError(fmt::format(
      "{}: column '{}': {} is not a date such as 2016-07-01 13:00:00; correct it, or set "
      "`calendar: false`",
      table.place(row), kDate, excerpt(text)));
}

double value_at(const CsvTable& table, std::size_t row, std::size_t column) {
  const std::string_view text = trimmed(table.rows[row].values[column]);
  const auto refuse = [&](const std::string& what) {
    throw DataError(fmt::format("{}: column '{}': {}", table.place(row),
                                one_line(table.columns[column]), what));
  };
  if (text.empty() || text == "NA" || text == "NaN" || text == "nan") {
    refuse("a value is missing; fill it in, or leave the column out");
  }
  const auto number = parsed_number<double>(text);
  if (!number || !std::isfinite(*number)) {
    refuse(fmt::format("{} is not a number; correct it, or leave the column out", excerpt(text)));
  }
  if (std::abs(*number) > std::numeric_limits<float>::max()) {
    refuse(fmt::format("{} is beyond float32; write the column in a larger unit", excerpt(text)));
  }
  return *number;
}

/// The place of the target among the channels, or all places.
std::vector<std::size_t> chosen(const std::vector<std::string>& channels, const std::string& target,
                                const std::string& source) {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < channels.size(); ++i) {
    if (target.empty() || channels[i] == target) all.push_back(i);
  }
  if (!all.empty()) return all;
  throw OptionError("target", fmt::format("{} has no channel '{}'{}", source, one_line(target),
                                          suggestion(target, channels)));
}

}  // namespace

SeriesRows read_series_rows(const std::string& path, const std::string& target, bool calendar) {
  const std::string bytes = read_data_file(path);
  CsvTable table = parse_csv(bytes, path);
  for (std::string& name : table.columns) name = std::string(trimmed(name));
  const std::size_t date = table.column(kDate);
  std::vector<std::string> channels;
  std::vector<std::size_t> columns;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (i == date) continue;
    if (table.columns[i].empty()) {
      throw DataError(fmt::format(
          "{}: column {} has no name; name it in the first row, or leave the column out", path,
          i + 1));
    }
    channels.push_back(table.columns[i]);
    columns.push_back(i);
  }
  if (channels.empty()) {
    throw DataError(fmt::format("{}: has no column beside '{}'; add one per channel", path, kDate));
  }
  SeriesRows out;
  out.hash = content_fingerprint(bytes);
  std::vector<std::size_t> read;
  for (const std::size_t i : chosen(channels, target, path)) read.push_back(columns[i]);
  out.values = at::empty({std::ssize(table.rows), std::ssize(read)}, at::kDouble);
  auto* value = out.values.data_ptr<double>();
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    for (const std::size_t column : read) *value++ = value_at(table, row, column);
  }
  if (!calendar) return out;
  out.calendar = at::empty({std::ssize(table.rows), 4});
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    write_calendar(hours_of(table, row, date), out.calendar.data_ptr<float>() + 4 * row);
  }
  return out;
}

SeriesRows made_series_rows(const MadeSeriesOptions& options, const std::string& target,
                            bool calendar) {
  std::vector<std::string> channels;
  for (std::int64_t c = 0; c < options.channels; ++c) channels.push_back(std::to_string(c));
  SeriesRows out;
  std::vector<Tensor> columns;
  const RandomStreams streams(static_cast<std::uint64_t>(options.seed));
  for (const std::size_t c : chosen(channels, target, "the made-up series")) {
    Random random = streams.stream("synthetic", c);
    const double turn = 2 * std::numbers::pi;
    const double day = random.uniform(0.5, 1), day_phase = random.uniform(0, turn);
    const double week = random.uniform(0.5, 1), week_phase = random.uniform(0, turn);
    const double slope = random.uniform(-1, 1);
    columns.push_back(at::empty({options.steps}, at::kDouble));
    auto* value = columns.back().data_ptr<double>();
    for (std::int64_t t = 0; t < options.steps; ++t) {
      *value++ = day * std::sin(turn * double(t) / 24 + day_phase) +
                 week * std::sin(turn * double(t) / 168 + week_phase) +
                 slope * double(t) / double(options.steps) + options.noise * random.normal();
    }
  }
  out.values = at::stack(columns, 1);
  if (!calendar) return out;
  constexpr Hours kFirst = std::chrono::sys_days(std::chrono::year(2016) / std::chrono::July / 1);
  out.calendar = at::empty({options.steps, 4});
  for (std::int64_t t = 0; t < options.steps; ++t) {
    write_calendar(kFirst + std::chrono::hours(t), out.calendar.data_ptr<float>() + 4 * t);
  }
  return out;
}

}  // namespace attnlab
