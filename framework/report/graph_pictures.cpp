#include "framework/report/graph_pictures.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/base/json.h"
#include "framework/document/markup.h"
#include "framework/report/graph_layout.h"

namespace attnlab {
namespace {

using nlohmann::json;

constexpr double kSide = 260, kGraphMargin = 12;
constexpr std::size_t kMostNodes = 150;  // as `attnlab show` writes; to place more takes long

/// @throws json's exceptions, and DataError, for another form.
GraphPicture graph_picture(const json& in) {
  GraphPicture picture;
  in.at("index").get_to(picture.index);
  in.at("nodes").get_to(picture.nodes);
  in.at("shown").get_to(picture.shown);
  in.at("numbers").get_to(picture.numbers);
  in.at("chosen").get_to(picture.chosen);
  in.at("edges").get_to(picture.edges);
  in.at("attention").get_to(picture.attention_to);
  in.at("answer").get_to(picture.answer);
  in.at("words").get_to(picture.words);
  in.at("wrong").get_to(picture.wrong);
  const auto fits = [&](std::size_t count) { return count == 0 || count == picture.shown; };
  const bool known = picture.chosen < picture.shown && picture.shown <= kMostNodes &&
                     picture.numbers.size() == picture.shown && fits(picture.attention_to.size()) &&
                     fits(picture.words.size()) && fits(picture.wrong.size()) &&
                     picture.edges.size() <= picture.shown * (picture.shown - 1) / 2;
  const bool joined = std::all_of(picture.edges.begin(), picture.edges.end(), [&](const auto& e) {
    return std::max(e.first, e.second) < picture.shown;
  });
  if (!known || !joined) throw DataError("a graph's parts do not fit each other");
  return picture;
}

/// @param node  its place among those that are shown
std::string node_words(const GraphPicture& picture, std::size_t node) {
  std::string words =
      fmt::format("node {}{}", picture.numbers[node], node == picture.chosen ? " (chosen)" : "");
  if (!picture.words.empty()) words += fmt::format(": {}", picture.words[node]);
  if (!picture.attention_to.empty()) {
    words += fmt::format("; attention {:.3g}", picture.attention_to[node]);
  }
  return words;
}

std::string caption_of(const GraphPicture& picture) {
  std::string text = fmt::format("{}, seed {}", picture.origin.attention, picture.origin.seed);
  if (!picture.answer.empty()) text += fmt::format(": {}", picture.answer);
  if (picture.attention_to.empty()) return text + ". No attention was recorded.";
  const double most = *std::max_element(picture.attention_to.begin(), picture.attention_to.end());
  return text + fmt::format(". Darkest: {:.2g}.", most);
}

std::string graph_row_html(const std::vector<const GraphPicture*>& row) {
  const GraphPicture& first = *row.front();
  std::string out =
      fmt::format("<h3>{}, test graph {}: {} nodes{}</h3>\n<div class=\"graphs\">\n",
                  html_text(first.origin.experiment), first.index, first.nodes,
                  std::size_t(first.nodes) == first.shown
                      ? ""
                      : fmt::format(", the {} nearest to the chosen one", first.shown));
  for (const GraphPicture* picture : row) {
    out += fmt::format("<figure>{}<figcaption>{}</figcaption></figure>\n", graph_svg(*picture),
                       html_text(caption_of(*picture)));
  }
  return out + "</div>\n";
}

}  // namespace

std::vector<GraphPicture> graph_pictures_of(const std::vector<RunRecord>& runs,
                                            std::vector<std::string>& notes) {
  return kept_pictures<GraphPicture>(runs, "graphs", graph_picture, notes);
}

std::string graph_svg(const GraphPicture& picture) {
  const std::vector<DrawnPoint> places = graph_layout(picture.shown, picture.edges);
  const auto px = [](double place) { return kGraphMargin + place * (kSide - 2 * kGraphMargin); };
  std::string out = fmt::format(
      "<svg class=\"graph\" role=\"img\" viewBox=\"0 0 {0} {0}\" aria-label=\"graph {1}, {2}\">\n",
      kSide, picture.index, html_text(picture.origin.attention));
  for (const auto& [a, b] : picture.edges) {
    out += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n",
                       px(places[a].x), px(places[a].y), px(places[b].x), px(places[b].y));
  }
  const double most = picture.attention_to.empty() ? 0
                                                   : *std::max_element(picture.attention_to.begin(),
                                                                       picture.attention_to.end());
  const double radius = picture.shown > 60 ? 3.5 : 5;
  for (std::size_t i = 0; i < picture.shown; ++i) {
    const bool wrong = !picture.wrong.empty() && picture.wrong[i];
    const double shade = most > 0 ? picture.attention_to[i] / most : 0;
    const std::string disc =
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"", px(places[i].x),
                    px(places[i].y), i == picture.chosen ? radius + 1.5 : radius);
    // The one below hides the edges, whatever shines through the one above.
    out += fmt::format(
        "{0} class=\"below\"/>{0} class=\"{1}{2}\" fill-opacity=\"{3:.2f}\"><title>{4}</title>"
        "</circle>\n",
        disc, i == picture.chosen ? "chosen " : "", wrong ? "wrong" : "", shade,
        html_text(node_words(picture, i)));
  }
  return out + "</svg>\n";
}

std::string graph_pictures_html(const std::vector<GraphPicture>& pictures) {
  return pictures_in_rows(
      pictures, graph_row_html,
      "The ringed node is the chosen one; the darker a node, the more of the chosen node's "
      "attention it gets (last layer, mean over heads). Nodes with a thick rim were classified "
      "wrongly. Point at a node to see its details.");
}

}  // namespace attnlab
