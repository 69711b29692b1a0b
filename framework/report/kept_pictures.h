// What `attnlab show` kept beside runs, one JSON file per run: read for the page.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/error.h"
#include "framework/base/parsed_json.h"
#include "framework/runs/run_records.h"

namespace attnlab {

/// Whose a picture is.
struct PictureOrigin {
  std::string experiment, attention;
  std::int64_t seed = 0;
};

/// In one file; what `attnlab show` takes at most for --examples.
inline constexpr std::size_t kMostPictures = 100;

/// Whether it is safe to stand in a data URL.
inline bool is_base64(const std::string& text) {
  return text.find_first_not_of(
             "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") ==
         std::string::npos;
}

/// The pictures of the first seed of each experiment and attention that has any.
/// @param name   FILE.json holds them as a list, as `{"FILE": [...]}`
/// @param read   one of the list to a Picture, a struct with `origin` (PictureOrigin) and
///               `index`; throws for another form
/// @param notes  gets a note for a file that cannot be read
template <class Picture, class Read>
std::vector<Picture> kept_pictures(const std::vector<RunRecord>& runs, const std::string& name,
                                   const Read& read, std::vector<std::string>& notes) {
  std::vector<Picture> all;
  std::set<std::pair<std::string, std::string>> drawn;
  for (const RunRecord& run : runs) {
    if (!run.may_hold(name + ".json")) continue;
    const std::string path = fmt::format("{}/{}.json", run.folder, name);
    std::error_code error;
    if (drawn.count({run.experiment, run.attention}) > 0 || !std::filesystem::exists(path, error)) {
      continue;
    }
    std::vector<Picture> pictures;
    try {
      const nlohmann::json file = parsed_json_file(path, std::uint64_t{1} << 30);  // pictures
      const nlohmann::json& list = file.at(name);
      if (list.size() > kMostPictures) throw DataError("more pictures than a page shows");
      std::set<std::int64_t> indices;
      for (const nlohmann::json& one : list) {
        pictures.push_back(read(one));
        // Pictures of one index stand side by side, one for each attention.
        if (!indices.insert(pictures.back().index).second) throw DataError("an index stands twice");
        pictures.back().origin = {run.experiment, run.attention, run.seed};
      }
    } catch (const std::exception&) {
      notes.push_back(
          fmt::format("{} cannot be read: its {} are not drawn; `attnlab show {}` writes it again",
                      path, name, run.folder));
      continue;
    }
    if (!pictures.empty()) drawn.insert({run.experiment, run.attention});
    for (Picture& picture : pictures) all.push_back(std::move(picture));
  }
  return all;
}

/// One piece of HTML for each experiment and index, of the pictures of its attentions side by side,
/// and a note below all. Without pictures the text is empty.
/// @param html_of  takes a vector of `const Picture*`, which is not empty
template <class Picture, class Html>
std::string pictures_in_rows(const std::vector<Picture>& pictures, const Html& html_of,
                             const std::string& note) {
  std::map<std::pair<std::string, std::int64_t>, std::vector<const Picture*>> rows;
  for (const Picture& one : pictures) rows[{one.origin.experiment, one.index}].push_back(&one);
  std::string out;
  for (const auto& [key, row] : rows) out += html_of(row);
  return out.empty() ? out : out + "<p class=\"note\">" + note + "</p>\n";
}

}  // namespace attnlab
