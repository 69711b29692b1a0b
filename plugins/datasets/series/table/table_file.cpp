#include "plugins/datasets/series/table/table_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>

#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/data/formats/csv.h"
#include "framework/data/formats/files.h"
#include "framework/data/formats/npy.h"
#include "framework/data/formats/safetensors.h"

namespace attnlab {
namespace {

bool is_missing(std::string_view text) {
  return text.empty() || text == "NA" || text == "NaN" || text == "nan";
}

/// @returns false if the text is not a number.
bool read_number(std::string_view text, double& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(number);
}

/// Rows of each case, in order; each row a case where there is no group.
std::vector<std::vector<std::size_t>> rows_of_cases(const CsvTable& table,
                                                    const TableColumns& columns) {
  std::vector<std::vector<std::size_t>> cases;
  std::map<std::string, std::size_t> known;
  const std::size_t group = columns.group.empty() ? 0 : table.column(columns.group);
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    std::size_t at = cases.size();
    if (!columns.group.empty()) at = known.emplace(table.rows[row].values[group], at).first->second;
    if (at == cases.size()) cases.emplace_back();
    cases[at].push_back(row);
  }
  return cases;
}

/// Sorts the rows of a series by their time: numbers as such, else as texts (2026-01-31).
void sort_by_time(const CsvTable& table, std::size_t column, std::vector<std::size_t>& rows) {
  const auto text = [&](std::size_t row) { return trimmed(table.rows[row].values[column]); };
  double number = 0;
  const bool numbers = std::all_of(rows.begin(), rows.end(),
                                   [&](std::size_t row) { return read_number(text(row), number); });
  const auto before = [&](std::size_t a, std::size_t b) {
    if (!numbers) return text(a) < text(b);
    double left = 0, right = 0;
    read_number(text(a), left);
    read_number(text(b), right);
    return left < right;
  };
  std::stable_sort(rows.begin(), rows.end(), before);
  for (std::size_t i = 0; i + 1 < rows.size(); ++i) {
    if (before(rows[i], rows[i + 1])) continue;
    throw DataError(
        fmt::format("{}: has the time {} of {} again, in the same series; correct one "
                    "of the two, or leave `time` out",
                    table.place(rows[i + 1]), text(rows[i]), table.place(rows[i])));
  }
}

std::vector<std::size_t> value_columns(const CsvTable& table, const TableColumns& columns) {
  std::vector<std::size_t> out;
  for (const std::string& name : columns.values) out.push_back(table.column(name));
  if (!columns.values.empty()) return out;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const std::string& name = table.columns[i];
    if (name.empty()) {
      throw DataError(fmt::format(
          "{}: column {} has no name; name it in the first row, or name the columns of values "
          "(`columns`)",
          table.path, i + 1));
    }
    if (name != columns.label && name != columns.group && name != columns.time) out.push_back(i);
  }
  if (out.empty()) {
    throw DataError(
        fmt::format("{}: has no column of values beside the label's; add some", table.path));
  }
  return out;
}

float value_at(const CsvTable& table, std::size_t row, std::size_t column) {
  const std::string_view text = trimmed(table.rows[row].values[column]);
  if (is_missing(text)) return std::numeric_limits<float>::quiet_NaN();
  double number = 0;
  if (read_number(text, number)) {
    if (std::abs(number) <= std::numeric_limits<float>::max()) return static_cast<float>(number);
    throw DataError(fmt::format(
        "{}: column '{}': '{}' is beyond float32; correct it, or write the column in a larger unit",
        table.place(row), table.columns[column], one_line(text)));
  }
  throw DataError(
      fmt::format("{}: column '{}': '{}' is not a number; correct it, or name the columns of "
                  "values (`columns`)",
                  table.place(row), table.columns[column], one_line(text)));
}

TableCases cases_of_text(const std::string& bytes, const std::string& path,
                         const TableColumns& columns, char separator) {
  CsvTable table = parse_csv(bytes, path, separator);
  for (std::string& name : table.columns) name = std::string(trimmed(name));
  const std::size_t label = table.column(columns.label);
  const std::vector<std::size_t> from = value_columns(table, columns);
  TableCases out;
  out.vectors = columns.group.empty();
  out.offsets = {0};
  for (const std::size_t column : from) out.names.push_back(table.columns[column]);
  out.values = at::empty({std::ssize(table.rows), std::ssize(from)}, at::kFloat);
  auto* value = out.values.data_ptr<float>();
  for (std::vector<std::size_t>& rows : rows_of_cases(table, columns)) {
    if (!columns.time.empty()) sort_by_time(table, table.column(columns.time), rows);
    const auto label_of = [&](std::size_t row) { return trimmed(table.rows[row].values[label]); };
    const std::string_view own = label_of(rows.front());
    for (const std::size_t row : rows) {
      if (label_of(row) != own) {
        throw DataError(fmt::format("{}: the label is '{}', that of the same series in {} is '{}'",
                                    table.place(row), one_line(label_of(row)),
                                    table.place(rows.front()), one_line(own)));
      }
      for (const std::size_t column : from) *value++ = value_at(table, row, column);
    }
    if (is_missing(own)) {
      throw DataError(
          fmt::format("{}: column '{}': a label is missing ('{}'); write it, remove the row, or "
                      "name another column (`label`)",
                      table.place(rows.front()), columns.label, own));
    }
    out.labels.emplace_back(own);
    out.offsets.push_back(out.offsets.back() + std::ssize(rows));
  }
  return out;
}

const Tensor& array_named(const NamedTensors& arrays, const std::string& name,
                          const std::string& path) {
  if (const Tensor* found = arrays.find(name)) return *found;
  std::vector<std::string> names;
  for (const auto& [known, tensor] : arrays) names.push_back(known);
  throw DataError(fmt::format("{}: has no array '{}'{}", path, name, suggestion(name, names)));
}

/// Name of the array of values: the one that is named, else the only one beside the labels.
std::string array_of_values(const NamedTensors& arrays, const TableColumns& columns,
                            const std::string& path) {
  if (columns.values.size() > 1) {
    throw OptionError("columns",
                      "of arrays names one, that of the values; `file` and `test_file` are both "
                      "text or both arrays");
  }
  if (columns.values.size() == 1) return columns.values.front();
  const std::string* found = nullptr;
  for (const auto& [name, tensor] : arrays) {
    if (name == columns.label) continue;
    if (found != nullptr) {
      throw DataError(
          path + ": has several arrays beside the labels; name that of the values (`columns`)");
    }
    found = &name;
  }
  if (found == nullptr) throw DataError(path + ": has no array of values beside the labels");
  return *found;
}

TableCases cases_of_arrays(const NamedTensors& arrays, const TableColumns& columns,
                           const std::string& path) {
  if (!columns.group.empty() || !columns.time.empty()) {
    throw OptionError(columns.group.empty() ? "time" : "group",
                      "is a column of text; arrays have series as [cases, steps, channels]");
  }
  const Tensor& labels = array_named(arrays, columns.label, path);
  const std::string name = array_of_values(arrays, columns, path);
  const Tensor& values = array_named(arrays, name, path);
  if (!at::isIntegralType(labels.scalar_type(), /*includeBool=*/true) || labels.dim() != 1) {
    throw DataError(fmt::format("{}: labels are whole numbers of shape [N]; '{}' is {}", path,
                                columns.label, describe(labels)));
  }
  if (values.dim() < 2 || values.dim() > 3 || values.size(0) != labels.size(0) ||
      values.numel() == 0) {
    throw DataError(fmt::format("{}: values are [N, F] or [N, L, C] for {} labels; these are {}",
                                path, labels.size(0), describe(values)));
  }
  TableCases out;
  out.vectors = values.dim() == 2;
  out.values = values.to(at::kFloat).reshape({-1, values.size(-1)}).contiguous();
  if (at::isinf(out.values).any().item<bool>()) {
    throw DataError(fmt::format(
        "{}: array '{}': has values that are infinite or beyond float32; correct them, or write "
        "them in a larger unit",
        path, name));
  }
  out.names = {name};
  const std::int64_t length = out.vectors ? 1 : values.size(1);
  for (std::int64_t i = 0; i <= labels.size(0); ++i) out.offsets.push_back(i * length);
  const Tensor numbers = labels.to(at::kLong).contiguous();
  for (std::int64_t i = 0; i < numbers.size(0); ++i) {
    out.labels.push_back(std::to_string(numbers.data_ptr<std::int64_t>()[i]));
  }
  return out;
}

}  // namespace

TableCases read_table(const std::string& path, const TableColumns& columns) {
  if (std::count(columns.values.begin(), columns.values.end(), columns.label) > 0) {
    throw OptionError(
        "columns",
        fmt::format("names '{}', which is the label: the model would see the answer; leave it out",
                    columns.label));
  }
  const std::string bytes = read_data_file(path);
  const auto ends = [&](std::string_view ending) {
    return path.ends_with(ending) || path.ends_with(std::string(ending) + ".gz");
  };
  TableCases out;
  if (path.ends_with(".npz")) {
    out = cases_of_arrays(read_npz(bytes, path), columns, path);
  } else if (path.ends_with(".safetensors")) {
    out = cases_of_arrays(read_safetensors(path).tensors, columns, path);
  } else if (ends(".csv") || ends(".tsv")) {
    out = cases_of_text(bytes, path, columns, ends(".tsv") ? '\t' : ',');
  } else {
    throw OptionError("file", path + ": does not end in one of .csv, .tsv, .npz, .safetensors");
  }
  out.hash = content_fingerprint(bytes);
  return out;
}

}  // namespace attnlab
