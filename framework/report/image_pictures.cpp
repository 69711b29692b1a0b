#include "framework/report/image_pictures.h"

#include <algorithm>

#include "framework/document/markup.h"

namespace attnlab {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostPixels = 8192;
constexpr std::size_t kMostVersions = 200, kMostCells = 10000, kMostMaps = 200;

/// @throws json's exceptions, and DataError, for another form.
ImagePicture image_picture(const json& in) {
  ImagePicture picture;
  in.at("index").get_to(picture.index);
  in.at("height").get_to(picture.height);
  in.at("width").get_to(picture.width);
  in.at("class").get_to(picture.true_class);
  in.at("method").get_to(picture.method);
  in.at("map").get_to(picture.map);
  in.at("columns").get_to(picture.columns);
  bool fits = true;
  for (const json& one : in.at("versions")) {
    picture.versions.push_back({one.at("name"), one.at("image"), one.at("words"), one.at("wrong")});
    fits = fits && is_base64(picture.versions.back().image);
  }
  for (const json& one : in.value("more_maps", json::array())) {
    picture.more_maps.push_back({one.at("version"), one.at("of"), one.at("cells")});
    fits = fits && picture.more_maps.back().cells.size() == picture.map.size();
  }
  const auto side = [](std::int64_t pixels) { return pixels > 0 && pixels <= kMostPixels; };
  const auto cells = static_cast<std::int64_t>(picture.map.size());
  const bool grid = cells == 0 || (picture.columns > 0 && cells % picture.columns == 0 &&
                                   picture.map.size() <= kMostCells);
  if (!fits || !grid || !side(picture.height) || !side(picture.width) || picture.versions.empty() ||
      picture.versions.size() > kMostVersions || picture.more_maps.size() > kMostMaps) {
    throw DataError("a picture's parts do not fit each other");
  }
  return picture;
}

std::string words_of(const ImageVersion& version) {
  return fmt::format("<span class=\"{}\">{}{}</span>", version.wrong ? "wrong" : "right",
                     html_text(version.words), version.wrong ? ", wrong" : "");
}

/// @param over  what is drawn over the picture
std::string svg_of(const ImagePicture& picture, const std::string& image, const std::string& over,
                   const std::string& label) {
  return fmt::format(
      "<svg class=\"seen\" role=\"img\" viewBox=\"0 0 {0} {1}\" aria-label=\"{2}\">"
      "<image href=\"data:image/png;base64,{3}\" width=\"{0}\" height=\"{1}\"/>{4}</svg>",
      picture.width, picture.height, html_text(label), image, over);
}

std::string version_cell(const ImagePicture& picture, const ImageVersion& version) {
  return fmt::format(
      "<td>{}{}</td>\n",
      svg_of(picture, version.image, "", fmt::format("{}: {}", version.name, version.words)),
      words_of(version));
}

/// A map over an image: each cell as strong as it is above the weakest.
/// @param of  a class; empty: the model's answer
std::string map_cell(const ImagePicture& picture, const std::vector<double>& cells,
                     const std::string& image, const std::string& of) {
  if (cells.empty()) return "<td class=\"absent\">no map</td>\n";
  const auto [least, most] = std::minmax_element(cells.begin(), cells.end());
  const std::int64_t rows = std::int64_t(cells.size()) / picture.columns;
  const double width = double(picture.width) / double(picture.columns);
  const double height = double(picture.height) / double(rows);
  std::string over;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const double shade = *most > *least ? (cells[i] - *least) / (*most - *least) : 0;
    if (shade < 0.01) continue;
    const std::int64_t row = std::int64_t(i) / picture.columns;
    over += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" "
        "fill-opacity=\"{:.2f}\"/>",
        double(std::int64_t(i) - row * picture.columns) * width, double(row) * height, width,
        height, 0.85 * shade);
  }
  const std::string method = picture.method == "rollout" ? "attention rollout" : "AG-CAM";
  const std::string what = of.empty() ? "" : ", class " + of;
  return fmt::format("<td>{}{}{}</td>\n",
                     svg_of(picture, image, over,
                            fmt::format("{} of {}{}", method, picture.origin.attention, what)),
                     method, html_text(what));
}

/// Names of all versions, in the order in which they come.
std::vector<std::string> names_of(const std::vector<const ImagePicture*>& rows) {
  std::vector<std::string> names;
  for (const ImagePicture* picture : rows) {
    for (const ImageVersion& version : picture->versions) {
      if (std::find(names.begin(), names.end(), version.name) == names.end()) {
        names.push_back(version.name);
      }
    }
  }
  return names;
}

/// What further maps are of, in the order in which they come.
using MapNames = std::vector<std::pair<std::string, std::string>>;  // version and class

MapNames maps_of(const std::vector<const ImagePicture*>& rows) {
  MapNames names;
  for (const ImagePicture* picture : rows) {
    for (const ImageMap& map : picture->more_maps) {
      const std::pair<std::string, std::string> name(map.version, map.of);
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

std::string row_html(const ImagePicture& picture, const std::vector<std::string>& names,
                     const MapNames& maps) {
  std::string out = fmt::format("<tr><th scope=\"row\">{}<br><small>seed {}</small></th>\n",
                                html_text(picture.origin.attention), picture.origin.seed);
  for (const std::string& name : names) {
    const auto version = std::find_if(picture.versions.begin(), picture.versions.end(),
                                      [&](const auto& one) { return one.name == name; });
    const bool there = version != picture.versions.end();
    out += there ? version_cell(picture, *version) : "<td class=\"absent\">-</td>\n";
    if (name == names.front()) out += map_cell(picture, picture.map, version->image, "");
    for (const auto& [of_version, of] : maps) {
      if (of_version != name) continue;
      const std::string& wanted = of;  // Clang 14 hands no binding to a lambda
      const auto map = std::find_if(
          picture.more_maps.begin(), picture.more_maps.end(),
          [&](const ImageMap& one) { return one.version == name && one.of == wanted; });
      out += there && map != picture.more_maps.end()
                 ? map_cell(picture, map->cells, version->image, of)
                 : "<td class=\"absent\">-</td>\n";
    }
  }
  return out + "</tr>\n";
}

std::string table_html(const std::vector<const ImagePicture*>& rows) {
  const std::vector<std::string> names = names_of(rows);
  const MapNames maps = maps_of(rows);
  std::string head = "<th>attention</th>";
  for (const std::string& name : names) {
    head += fmt::format("<th>{}</th>", html_text(name));
    if (name == names.front()) head += "<th>where the model looked</th>";
    for (const auto& [version, of] : maps) {
      if (version != name) continue;
      head += of.empty() ? "<th>where the model looked</th>"
                         : fmt::format("<th>where the model looked for {}</th>", html_text(of));
    }
  }
  std::string body;
  for (const ImagePicture* picture : rows) body += row_html(*picture, names, maps);
  return fmt::format(
      "<h3>{}, test image {}: {}</h3>\n<div class=\"scroll images\"><table>\n<thead><tr>{}</tr>"
      "</thead>\n<tbody>\n{}</tbody></table></div>\n",
      html_text(rows.front()->origin.experiment), rows.front()->index,
      html_text(rows.front()->true_class), head, body);
}

}  // namespace

std::vector<ImagePicture> image_pictures_of(const std::vector<RunRecord>& runs,
                                            std::vector<std::string>& notes) {
  return kept_pictures<ImagePicture>(runs, "images", image_picture, notes);
}

std::string image_pictures_html(const std::vector<ImagePicture>& pictures) {
  return pictures_in_rows(pictures, table_html,
                          "Below each picture is the model's answer. The redder a patch, the more "
                          "it supports the answer (or the class that is named); each map has its "
                          "own scale, from its weakest patch to its strongest.");
}

}  // namespace attnlab
