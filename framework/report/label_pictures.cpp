#include "framework/report/label_pictures.h"

#include <algorithm>

#include "framework/document/markup.h"

namespace attnlab {
namespace {

using nlohmann::json;

constexpr std::int64_t kLongestMapSide = 65536;
constexpr std::size_t kMostClasses = 4096;
constexpr std::size_t kNamedClasses = 5;  ///< in the words for people who do not see the picture

bool is_colour(const std::string& text) {
  return text.size() == 7 && text[0] == '#' &&
         text.find_first_not_of("0123456789abcdef", 1) == std::string::npos;
}

/// @throws json's exceptions, and DataError, for another form.
LabelPicture label_picture(const json& in) {
  LabelPicture picture;
  in.at("index").get_to(picture.index);
  in.at("height").get_to(picture.height);
  in.at("width").get_to(picture.width);
  in.at("labelled").get_to(picture.labelled);
  in.at("wrong").get_to(picture.wrong);
  bool fits = true;
  for (const auto& [name, text] : {std::pair{"image", &picture.image},
                                   {"truth", &picture.truth},
                                   {"answer", &picture.answer},
                                   {"errors", &picture.errors}}) {
    in.at(name).get_to(*text);
    fits = fits && !text->empty() && is_base64(*text);
  }
  for (const json& one : in.at("classes")) {
    LabelClass shown{one.at("name"), one.at("colour"), one.at("true"), one.at("said")};
    const auto share = [](double value) { return value >= 0 && value <= 1; };
    fits = fits && is_colour(shown.colour) && share(shown.truth) && share(shown.said);
    picture.classes.push_back(std::move(shown));
  }
  const auto side = [](std::int64_t pixels) { return pixels > 0 && pixels <= kLongestMapSide; };
  if (!fits || !side(picture.height) || !side(picture.width) || picture.wrong < 0 ||
      picture.wrong > picture.labelled || picture.labelled > picture.height * picture.width ||
      picture.classes.size() > kMostClasses) {
    throw DataError("a picture's parts do not fit each other");
  }
  return picture;
}

/// "road 41 %, sky 20 %": the most frequent classes.
std::string words_of(const LabelPicture& picture, double LabelClass::*share) {
  std::vector<const LabelClass*> order;
  for (const LabelClass& one : picture.classes) {
    if (one.*share > 0) order.push_back(&one);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](const LabelClass* a, const LabelClass* b) { return a->*share > b->*share; });
  std::string words;
  for (std::size_t i = 0; i < std::min(order.size(), kNamedClasses); ++i) {
    words +=
        fmt::format("{}{} {:.0f} %", i == 0 ? "" : ", ", order[i]->name, 100 * (order[i]->*share));
  }
  if (order.size() > kNamedClasses) words += ", ...";
  return words.empty() ? "no class" : words;
}

/// @param words  what the picture shows
std::string figure(const std::vector<std::pair<std::string, std::string>>& images,
                   const std::string& caption) {
  std::string out = "<figure>";
  for (const auto& [image, words] : images) {
    out += fmt::format("<img class=\"labels\" alt=\"{}\" src=\"data:image/png;base64,{}\">",
                       html_text(words), image);
  }
  return out + fmt::format("<figcaption>{}</figcaption></figure>\n", html_text(caption));
}

std::string right_words(const LabelPicture& picture) {
  if (picture.labelled == 0) return "no pixel has a label";
  return fmt::format("{:.1f} % of labelled pixels right",
                     100 * double(picture.labelled - picture.wrong) / double(picture.labelled));
}

/// The colours of all classes that any of the pictures shows.
std::string legend_of(const std::vector<const LabelPicture*>& row) {
  std::string out;
  std::set<std::string> known;
  for (const LabelPicture* picture : row) {
    for (const LabelClass& one : picture->classes) {
      if (!known.insert(one.name).second) continue;
      out += fmt::format(
          "<li><svg aria-hidden=\"true\" viewBox=\"0 0 1 1\"><rect width=\"1\" height=\"1\" "
          "fill=\"{}\"/></svg>{}</li>\n",
          one.colour, html_text(one.name));
    }
  }
  return "<ul class=\"legend\">\n" + out + "</ul>\n";
}

std::string label_row_html(const std::vector<const LabelPicture*>& row) {
  const LabelPicture& first = *row.front();
  const std::string example = fmt::format("test example {}", first.index);
  std::string out = fmt::format("<h3>{}, {}</h3>\n<div class=\"graphs\">\n",
                                html_text(first.origin.experiment), example);
  out += figure({{first.image, example}},
                fmt::format("the picture, {} x {} pixels", first.width, first.height));
  out += figure({{first.truth, fmt::format("true classes of {}: {}", example,
                                           words_of(first, &LabelClass::truth))}},
                "true classes");
  for (const LabelPicture* picture : row) {
    const std::string& who = picture->origin.attention;
    out += figure({{picture->answer,
                    fmt::format("classes by {}: {}", who, words_of(*picture, &LabelClass::said))},
                   {picture->errors, fmt::format("errors of {}: {}", who, right_words(*picture))}},
                  fmt::format("{}, seed {}: {}", who, picture->origin.seed, right_words(*picture)));
  }
  return out + "</div>\n" + legend_of(row);
}

}  // namespace

std::vector<LabelPicture> label_pictures_of(const std::vector<RunRecord>& runs,
                                            std::vector<std::string>& notes) {
  return kept_pictures<LabelPicture>(runs, "label_maps", label_picture, notes);
}

std::string label_pictures_html(const std::vector<LabelPicture>& pictures) {
  return pictures_in_rows(pictures, label_row_html,
                          "Below each answer are its errors: red is wrong, grey is right. White: "
                          "no label, or scores that are not finite.");
}

}  // namespace attnlab
