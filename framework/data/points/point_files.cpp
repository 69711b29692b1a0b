#include "framework/data/points/point_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/data/formats/files.h"
#include "framework/data/formats/npy.h"
#include "framework/data/points/byte_reader.h"
#include "framework/data/points/mesh.h"
#include "framework/data/points/scan_files.h"

namespace attnlab {
namespace {

/// x, y, z, c3, c4, ...
std::vector<std::string> plain_names(std::int64_t columns) {
  std::vector<std::string> names = {"x", "y", "z"};
  names.resize(static_cast<std::size_t>(std::min<std::int64_t>(columns, 3)));
  for (std::int64_t c = 3; c < columns; ++c) names.push_back(fmt::format("c{}", c));
  return names;
}

PointTable table_of(const Tensor& array, const std::string& path) {
  if (array.dim() != 2) {
    throw DataError(
        fmt::format("{}: expected an array [points, columns], found {}", path, describe(array)));
  }
  return {plain_names(array.size(1)), array.to(at::kDouble).contiguous()};
}

PointTable parse_npz(std::string_view bytes, const std::string& path) {
  const NamedTensors arrays = read_npz(bytes, path);
  const Tensor* points = arrays.find("points");
  if (points == nullptr && arrays.size() == 1) points = &arrays.begin()->second;
  if (points == nullptr)
    throw DataError(path + ": has several arrays and none called points; rename the one with them");
  return table_of(*points, path);
}

}  // namespace

std::int64_t PointTable::column(const std::string& name, const std::string& path) const {
  std::vector<std::size_t> found;
  const auto look_for = [&](const auto& same) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (same(names[i])) found.push_back(i);
    }
  };
  look_for([&](const std::string& other) { return other == name; });
  if (found.empty()) {
    const std::string lower = lower_case(name);
    look_for([&](const std::string& other) { return lower_case(other) == lower; });
  }
  if (found.size() == 1) return static_cast<std::int64_t>(found[0]);
  if (found.empty()) {
    throw DataError(fmt::format("{}: has no column {}, but {}", path, excerpt(name),
                                one_line(join(names, ", "))));
  }
  throw DataError(
      fmt::format("{}: {} may be column {} ({}) or {} ({}); write the name of one as it stands in "
                  "the file, where these differ, or rename one there",
                  path, excerpt(name), found[0] + 1, excerpt(names[found[0]]), found[1] + 1,
                  excerpt(names[found[1]])));
}

PointTable parse_xyz(std::string_view bytes, const std::string& path, bool counted) {
  WordReader text(bytes, path);
  PointTable table;
  double count = -1;  // that a first line says; -1: none does
  std::vector<double> values;
  std::size_t columns = 0;
  while (!text.at_end()) {
    std::string_view line = text.line();
    line = line.substr(0, std::min(line.find('#'), line.find("//")));
    if (line.find(',') != std::string_view::npos && line.find(';') != std::string_view::npos) {
      text.fail(
          "has commas and semicolons: numbers with decimal commas would be read as two each; write "
          "decimal points, and separate numbers by one of the two");
    }
    std::vector<std::string_view> words;
    for (std::string_view word; !(word = take_word(line, ",;")).empty();) words.push_back(word);
    if (words.empty()) continue;
    double number = 0;
    if (columns == 0) {
      const bool numeric = read_number(words[0], number);
      if (counted && numeric && words.size() == 1 && count < 0) {
        count = number;
        continue;
      }
      columns = words.size();
      if (!numeric) {
        for (const std::string_view word : words) table.names.emplace_back(word);
        continue;
      }
    }
    if (words.size() != columns) {
      text.fail(fmt::format("has {} numbers, lines before have {}{}", words.size(), columns,
                            columns == 1 ? "; a first line with the number of points is taken of "
                                           ".pts files alone: remove it"
                                         : ""));
    }
    for (const std::string_view word : words) {
      if (!read_number(word, values.emplace_back())) {
        text.fail(fmt::format("{} is not a number; repair the line", excerpt(word)));
      }
    }
  }
  const auto width = static_cast<std::int64_t>(columns);
  const std::size_t points = columns == 0 ? 0 : values.size() / columns;
  if (count >= 0 && count != static_cast<double>(points)) {
    throw DataError(
        fmt::format("{}: the first line counts {} points, {} follow; the file is cut "
                    "off, or holds several scans, which must be files of their own",
                    path, count, points));
  }
  if (table.names.empty()) table.names = plain_names(width);
  table.values = at::tensor(values, at::kDouble).view({width == 0 ? 0 : -1, width});
  return table;
}

PointTable read_points(const std::string& path) {
  expect_readable_whole(path);
  const std::string bytes = read_data_file(path);
  const std::string ending = lower_case(std::filesystem::path(path).extension().string());
  PointTable table;
  if (ending == ".ply") {
    table = parse_ply(bytes, path);
  } else if (ending == ".pcd") {
    table = parse_pcd(bytes, path);
  } else if (ending == ".las") {
    table = parse_las(bytes, path);
  } else if (ending == ".npy") {
    table = table_of(parse_npy(bytes, path), path);
  } else if (ending == ".npz") {
    table = parse_npz(bytes, path);
  } else if (ending == ".off") {
    table = {plain_names(3), parse_off(bytes, path).corners};
  } else if (ending == ".xyz" || ending == ".txt" || ending == ".csv" || ending == ".pts") {
    table = parse_xyz(bytes, path, ending == ".pts");
  } else {
    throw DataError(path +
                    ": files of points end in .ply, .pcd, .las, .npy, .npz, .off, .xyz, "
                    ".txt, .csv or .pts");
  }
  for (const char* axis : {"x", "y", "z"}) table.column(axis, path);
  return table;
}

}  // namespace attnlab
