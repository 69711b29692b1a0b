#include "plugins/datasets/graphs/molecules/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>

#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/data/formats/files.h"
#include "framework/data/formats/pickle.h"

namespace attnlab {
namespace {

double number_of(const std::string& place, std::string_view text) {
  const std::string word(trimmed(text));
  if (word.empty()) return std::numeric_limits<double>::quiet_NaN();
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  if (end != word.c_str() + word.size() || std::isinf(value)) {
    throw DataError(fmt::format("{}: {} is not a number; repair the line", place, excerpt(word)));
  }
  if (std::abs(value) > FLT_MAX) {
    throw DataError(
        fmt::format("{}: {} does not fit in float32; rescale the column", place, excerpt(word)));
  }
  return value;
}

/// One number, or those of "[a, b, c]".
void append(const std::string& place, std::string_view cell, std::vector<double>& out) {
  cell = trimmed(cell);
  if (cell.empty() || cell.front() != '[') return out.push_back(number_of(place, cell));
  if (cell.back() != ']')
    throw DataError(fmt::format("{}: a list does not end; repair the line", place));
  cell = cell.substr(1, cell.size() - 2);
  for (std::size_t comma = 0; comma != cell.npos; cell.remove_prefix(comma + 1)) {
    comma = cell.find(',');
    out.push_back(number_of(place, cell.substr(0, comma)));
    if (comma == cell.npos) return;
  }
}

}  // namespace

Tensor targets_of(const CsvTable& table, const std::vector<std::string>& columns) {
  std::vector<std::size_t> places;
  for (const std::string& name : columns) places.push_back(table.column(name));
  std::vector<double> all;
  std::size_t width = 0;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const std::size_t before = all.size();
    for (const std::size_t column : places) {
      append(table.place(row), table.rows[row].values[column], all);
    }
    if (row == 0) width = all.size();
    if (all.size() - before == width) continue;
    throw DataError(fmt::format("{}: has {} targets where the first row has {}", table.place(row),
                                all.size() - before, width));
  }
  return at::tensor(all, at::kDouble).view({std::int64_t(table.rows.size()), std::int64_t(width)});
}

Tensor classes_of(const CsvTable& table, const Tensor& targets) {
  const auto* values = targets.data_ptr<double>();
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    if (values[row] >= 0 && values[row] < 10000 && std::floor(values[row]) == values[row]) continue;
    throw DataError(table.place(row) +
                    ": the class must be 0, 1, 2, ...; repair the line, or take "
                    "the column as `labels`, of which some may be missing");
  }
  return targets.view({-1}).to(at::kLong);
}

void check_labels(const CsvTable& table, const Tensor& targets) {
  const auto* values = targets.data_ptr<double>();
  for (std::int64_t i = 0; i < targets.numel(); ++i) {
    if (values[i] == 0 || values[i] == 1 || std::isnan(values[i])) continue;
    throw DataError(fmt::format("{}: {} is not a label; labels are 0, 1 or missing",
                                table.place(static_cast<std::size_t>(i / targets.size(1))),
                                shortest(values[i])));
  }
}

GraphSplits pickled_splits(const std::string& path, std::int64_t rows) {
  const std::string bytes = read_data_file(path);
  const Pickle pickle(bytes, path);
  GraphSplits splits;
  std::vector<bool> taken(static_cast<std::size_t>(rows));
  for (const auto& [name, split] :
       {std::pair{"train", 0}, std::pair{"val", 1}, std::pair{"test", 2}}) {
    const PickleValue& part = pickle.root().entry(name);
    std::vector<std::int64_t>& indices = splits[static_cast<std::size_t>(split)];
    if (part.kind() == PickleValue::Kind::tensor) {
      const Tensor values = part.tensor().to(at::kLong).contiguous();
      indices.assign(values.data_ptr<std::int64_t>(),
                     values.data_ptr<std::int64_t>() + values.numel());
    } else {
      for (std::int64_t i = 0; i < part.length(); ++i) indices.push_back(part.item(i).integer());
    }
    for (const std::int64_t row : indices) {
      const bool known = row >= 0 && row < rows;
      if (!known || taken[static_cast<std::size_t>(row)]) {
        throw DataError(
            fmt::format("{}: {} holds row {}, which {}; it belongs to other data, or is "
                        "damaged",
                        path, name, row, known ? "is taken already" : "the table does not have"));
      }
      taken[static_cast<std::size_t>(row)] = true;
    }
  }
  return splits;
}

GraphSplits scaffold_splits(const std::vector<std::string>& scaffolds, double validation,
                            double test) {
  std::map<std::string, std::vector<std::int64_t>> groups;
  for (std::size_t row = 0; row < scaffolds.size(); ++row) {
    groups[scaffolds[row]].push_back(static_cast<std::int64_t>(row));
  }
  std::vector<std::vector<std::int64_t>> order;
  for (auto& [scaffold, rows] : groups) order.push_back(std::move(rows));
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.size(), a.front()) > std::pair(b.size(), b.front());
  });
  const double n = double(scaffolds.size());
  const double train_end = (1 - validation - test) * n, held_end = (1 - test) * n;
  GraphSplits splits;
  auto& [train, held, tested] = splits;
  for (const std::vector<std::int64_t>& rows : order) {
    const bool trains = double(train.size() + rows.size()) <= train_end;
    const bool holds = double(train.size() + held.size() + rows.size()) <= held_end;
    std::vector<std::int64_t>& part = trains ? train : holds ? held : tested;
    part.insert(part.end(), rows.begin(), rows.end());
  }
  return splits;
}

}  // namespace attnlab
