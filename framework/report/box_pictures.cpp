#include "framework/report/box_pictures.h"

#include <algorithm>

#include "framework/document/markup.h"

namespace attnlab {
namespace {

using nlohmann::json;

constexpr std::int64_t kLongestBoxedSide = 8192;
constexpr std::size_t kMostBoxes = 1000;

std::vector<SaidBox> boxes_of(const json& in) {
  std::vector<SaidBox> boxes;
  for (const json& one : in)
    boxes.push_back(
        {one.at("box").get<std::array<double, 4>>(), one.at("words").get<std::string>()});
  return boxes;
}

/// @throws json's exceptions, and DataError, for another form.
BoxPicture box_picture(const json& in) {
  BoxPicture picture;
  in.at("index").get_to(picture.index);
  in.at("height").get_to(picture.height);
  in.at("width").get_to(picture.width);
  in.at("image").get_to(picture.image);
  in.at("prompt").get_to(picture.prompt);
  in.at("asked").get_to(picture.asked);
  picture.known = boxes_of(in.at("known"));
  picture.found = boxes_of(in.at("found"));
  in.at("attention").get_to(picture.attention);
  in.at("columns").get_to(picture.columns);
  in.at("stride").get_to(picture.stride);
  const auto side = [](std::int64_t pixels) { return pixels > 0 && pixels <= kLongestBoxedSide; };
  const bool grid = picture.attention.empty() || (picture.columns > 0 && picture.stride >= 1);
  if (!side(picture.height) || !side(picture.width) || !grid || picture.image.empty() ||
      !is_base64(picture.image + picture.prompt) ||
      picture.known.size() + picture.found.size() > kMostBoxes) {
    throw DataError("a picture's parts do not fit each other");
  }
  return picture;
}

/// A drawing over the picture itself.
std::string svg_of(const BoxPicture& picture, const std::string& over, const std::string& label) {
  return fmt::format(
      "<svg class=\"boxes\" role=\"img\" viewBox=\"0 0 {0} {1}\" aria-label=\"{2}\">"
      "<image href=\"data:image/png;base64,{3}\" width=\"{0}\" height=\"{1}\"/>\n{4}</svg>\n",
      picture.width, picture.height, html_text(label), picture.image, over);
}

std::string box_svg(const SaidBox& box, const char* kind, double letter) {
  const auto& [x0, y0, x1, y1] = box.edges;
  std::string out = fmt::format(
      "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"><title>{}"
      "</title></rect>\n",
      kind, x0, y0, std::max(0.0, x1 - x0), std::max(0.0, y1 - y0), html_text(box.words));
  if (kind == std::string("found")) {
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:.1f}\">{}</text>\n", x0,
                       std::max(letter, y0 - 0.2 * letter), letter, html_text(box.words));
  }
  return out;
}

std::string boxes_svg(const BoxPicture& picture) {
  const double letter = double(std::max(picture.height, picture.width)) / 22;
  std::string over;
  for (const SaidBox& box : picture.known) over += box_svg(box, "true", letter);
  for (auto box = picture.found.rbegin(); box != picture.found.rend(); ++box) {
    over += box_svg(*box, "found", letter);
  }
  return svg_of(picture, over, "boxes found and true boxes");
}

/// Cells by how much attention they get; those outside the picture are padding, and not drawn.
std::string attention_svg(const BoxPicture& picture) {
  const double most = *std::max_element(picture.attention.begin(), picture.attention.end());
  std::string over;
  for (std::size_t i = 0; i < picture.attention.size(); ++i) {
    const std::int64_t row = std::int64_t(i) / picture.columns;
    const double x = double(std::int64_t(i) - row * picture.columns) * picture.stride;
    const double y = double(row) * picture.stride;
    const double shade = most > 0 ? picture.attention[i] / most : 0;
    if (x >= double(picture.width) || y >= double(picture.height) || shade < 0.01) continue;
    over += fmt::format(
        "<rect class=\"cell\" x=\"{:.0f}\" y=\"{:.0f}\" width=\"{}\" height=\"{}\" "
        "fill-opacity=\"{:.2f}\"/>\n",
        x, y, picture.stride, picture.stride, 0.8 * shade);
  }
  return svg_of(picture, over, "attention of the best answer's query");
}

std::string caption_of(const BoxPicture& picture) {
  std::string text = fmt::format("{}, seed {}: {} boxes found, {} true", picture.origin.attention,
                                 picture.origin.seed, picture.found.size(), picture.known.size());
  if (picture.attention.empty()) return text + ".";
  return text + fmt::format(". Largest attention of a cell: {:.2g}.",
                            *std::max_element(picture.attention.begin(), picture.attention.end()));
}

std::string heading_of(const BoxPicture& picture) {
  std::string out =
      fmt::format("<h3>{}, test example {}{}</h3>\n", html_text(picture.origin.experiment),
                  picture.index, picture.asked.empty() ? "" : ": " + html_text(picture.asked));
  if (picture.prompt.empty()) return out;
  return out +
         fmt::format("<p><img alt=\"prompt\" width=\"96\" src=\"data:image/png;base64,{}\"></p>\n",
                     picture.prompt);
}

std::string box_row_html(const std::vector<const BoxPicture*>& row) {
  std::string out = heading_of(*row.front()) + "<div class=\"graphs\">\n";
  for (const BoxPicture* picture : row) {
    out += fmt::format("<figure>{}{}<figcaption>{}</figcaption></figure>\n", boxes_svg(*picture),
                       picture->attention.empty() ? "" : attention_svg(*picture),
                       html_text(caption_of(*picture)));
  }
  return out + "</div>\n";
}

}  // namespace

std::vector<BoxPicture> box_pictures_of(const std::vector<RunRecord>& runs,
                                        std::vector<std::string>& notes) {
  return kept_pictures<BoxPicture>(runs, "boxes", box_picture, notes);
}

std::string box_pictures_html(const std::vector<BoxPicture>& pictures) {
  return pictures_in_rows(pictures, box_row_html,
                          "Dashed boxes are true boxes, solid boxes are predictions with their "
                          "scores. Below: attention of the best answer's query (last layer, mean "
                          "over heads; on the values, if the keys come from the prompt).");
}

}  // namespace attnlab
