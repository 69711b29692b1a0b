#include "plugins/datasets/points/nuscenes_lidarseg/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <unordered_map>

#include "framework/base/error.h"
#include "framework/base/foreign_text.h"
#include "framework/base/json.h"
#include "framework/data/points/byte_reader.h"

namespace attnlab {
namespace {

using Json = nlohmann::json;

/// Records of a table, one after the other: the largest table has some GB, and is never in memory.
void each_record(const std::string& path, const std::function<void(const Json&)>& use) {
  std::error_code error;  // opening a FIFO would wait for its writer
  std::ifstream file;
  if (std::filesystem::is_regular_file(path, error)) file.open(path);
  if (!file.is_open()) throw DataError(path + ": cannot be read; the tables are not complete");
  std::string start(4, '\0');
  file.read(start.data(), 4);
  without_mark(start, path);  // the parser knows that of UTF-8 itself
  file.clear();
  file.seekg(0);
  using Event = Json::parse_event_t;
  const auto take = [&](int depth, Event event, Json& record) {
    // Behind each map the parser looks at all that lies around it: so nothing may gather there.
    const bool list = event == Event::array_start || event == Event::array_end;
    const bool map = event == Event::object_start || event == Event::object_end;
    if (depth == 0 ? !list : depth == 1 ? !map : map) {
      throw DataError(path + ": is not a list of flat records; fetch the tables again");
    }
    if (event != Event::object_end) return true;
    use(record);
    return false;
  };
  try {
    [[maybe_unused]] const Json rest = Json::parse(file, take);  // an empty list
  } catch (const Json::exception& error) {
    throw DataError(
        fmt::format("{}: is damaged: {}; fetch it again", path, one_line(error.what())));
  }
}

/// 61 of "scene-0061".
int scene_number(std::string_view name, const std::string& path) {
  const std::string_view digits =
      name.substr(std::min<std::size_t>(name.find('-') + 1, name.size()));
  std::int64_t number = 0;
  if (name.starts_with("scene-") && digits.size() == 4 && read_whole(digits, 9999, number)) {
    return static_cast<int>(number);
  }
  throw DataError(
      fmt::format("{}: {} is not a scene of nuScenes (they are called as scene-0061), and "
                  "of no official split; correct its name",
                  path, excerpt(name)));
}

template <class Value>
using Lookup = std::unordered_map<std::string, Value>;

template <class Value>
const Value& found(const Lookup<Value>& table, const std::string& token, const std::string& path) {
  const auto at = table.find(token);
  if (at == table.end()) {
    throw DataError(fmt::format("{}: has no record {}; the tables do not belong together", path,
                                excerpt(token)));
  }
  return at->second;
}

}  // namespace

std::vector<LabelledScan> labelled_scans(const std::string& folder, const std::string& version) {
  const auto path = [&](const char* table) {
    return fmt::format("{}/{}/{}.json", folder, version, table);
  };
  const auto word = [](const Json& record, const char* name) {
    return record.at(name).get<std::string>();
  };
  Lookup<int> scene_numbers;
  Lookup<std::string> scene_of_sample, labels, scans, samples;
  each_record(path("scene"), [&](const Json& r) {
    scene_numbers[word(r, "token")] = scene_number(word(r, "name"), path("scene"));
  });
  each_record(path("sample"),
              [&](const Json& r) { scene_of_sample[word(r, "token")] = word(r, "scene_token"); });
  each_record(path("lidarseg"),
              [&](const Json& r) { labels[word(r, "sample_data_token")] = word(r, "filename"); });
  each_record(path("sample_data"), [&](const Json& r) {
    const std::string token = word(r, "token");
    if (labels.count(token) == 0) return;
    scans[token] = word(r, "filename");
    samples[token] = word(r, "sample_token");
  });
  std::vector<LabelledScan> all;
  for (const auto& [token, file] : labels) {
    const std::string scene =
        found(scene_of_sample, found(samples, token, path("sample_data")), path("sample"));
    all.push_back({found(scans, token, path("sample_data")), file,
                   found(scene_numbers, scene, path("scene"))});
  }
  std::sort(all.begin(), all.end(),
            [](const LabelledScan& a, const LabelledScan& b) { return a.scan < b.scan; });
  return all;
}

bool is_validation_scene(int scene, const std::string& version) {
  if (version == "v1.0-mini") return scene == 103 || scene == 916;
  // nuscenes-devkit, utils/splits.py: first and last of each run of numbers.
  constexpr std::array<std::array<int, 2>, 26> kRuns = {
      {{3, 3},     {12, 18},   {35, 36},   {38, 39},   {92, 110},   {221, 221}, {268, 278},
       {329, 332}, {344, 346}, {519, 524}, {552, 565}, {625, 627},  {629, 630}, {632, 638},
       {770, 771}, {775, 775}, {777, 778}, {780, 784}, {794, 800},  {802, 802}, {904, 917},
       {919, 931}, {962, 963}, {966, 969}, {971, 972}, {1059, 1073}}};
  return std::any_of(kRuns.begin(), kRuns.end(),
                     [&](const auto& run) { return run[0] <= scene && scene <= run[1]; });
}

}  // namespace attnlab
