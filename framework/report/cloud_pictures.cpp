#include "framework/report/cloud_pictures.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "framework/base/base64.h"
#include "framework/base/error.h"
#include "framework/base/json.h"
#include "framework/document/markup.h"

namespace attnlab {
namespace {

using nlohmann::json;

constexpr std::size_t kMostPoints = 100000, kMostClasses = 255;
/// A page holds many pictures: a few points of each are enough.
constexpr std::size_t kPointsOnPage = 2000;

std::vector<std::uint8_t> bytes_of(const json& text) {
  const std::string bytes = base64_bytes(text.get_ref<const std::string&>());
  return {bytes.begin(), bytes.end()};
}

std::vector<std::uint16_t> places_of(const json& text) {
  const std::vector<std::uint8_t> bytes = bytes_of(text);
  std::vector<std::uint16_t> places(bytes.size() / 2);
  for (std::size_t k = 0; k < places.size(); ++k) {
    places[k] = static_cast<std::uint16_t>(bytes[2 * k] | bytes[2 * k + 1] << 8U);
  }
  return places;
}

bool are_classes(const std::vector<std::uint8_t>& bytes, std::size_t classes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [&](std::uint8_t one) { return one < classes || one == kNoValue; });
}

/// @throws json's exceptions, and DataError, for another form.
CloudPicture cloud_picture(const json& in) {
  CloudPicture picture;
  DrawnCloud& cloud = picture.cloud;
  in.at("index").get_to(picture.index);
  in.at("points").get_to(picture.points);
  in.at("point").get_to(picture.point);
  in.at("patch").get_to(picture.patch);
  in.at("answer").get_to(picture.answer);
  in.at("chosen").get_to(cloud.chosen);
  in.at("low").get_to(cloud.low);
  in.at("side").get_to(cloud.side);
  in.at("classes").get_to(cloud.classes);
  in.at("most").get_to(cloud.most);
  cloud.places = places_of(in.at("coord"));
  cloud.label = bytes_of(in.at("label"));
  cloud.said = bytes_of(in.at("said"));
  cloud.attention = bytes_of(in.at("attention"));
  const std::size_t shown = in.at("shown");
  const auto fits = [&](const std::vector<std::uint8_t>& list) {
    return list.empty() || list.size() == shown;
  };
  if (shown == 0 || shown > kMostPoints || cloud.places.size() != 3 * shown ||
      cloud.chosen >= shown || cloud.classes.size() > kMostClasses || !fits(cloud.label) ||
      !fits(cloud.said) || !fits(cloud.attention) ||
      !are_classes(cloud.label, cloud.classes.size()) ||
      !are_classes(cloud.said, cloud.classes.size())) {
    throw DataError("a cloud's parts do not fit each other");
  }
  return picture;
}

/// The drawings of one cloud, one for each attention.
struct CloudGroup {
  std::string experiment;
  std::int64_t index = 0;
  std::vector<const CloudPicture*> drawings;

  const CloudPicture& first() const { return *drawings.front(); }
};

std::vector<CloudGroup> groups_of(const std::vector<CloudPicture>& pictures) {
  std::map<std::pair<std::string, std::int64_t>, std::vector<const CloudPicture*>> by_cloud;
  for (const CloudPicture& one : pictures) {
    by_cloud[{one.origin.experiment, one.index}].push_back(&one);
  }
  std::vector<CloudGroup> groups;
  groups.reserve(by_cloud.size());
  for (auto& [key, drawings] : by_cloud) groups.push_back({key.first, key.second, drawings});
  return groups;
}

/// Whether what is shown of the data is the same, and can be written once.
bool of_same_points(const DrawnCloud& a, const DrawnCloud& b) {
  return a.places == b.places && a.label == b.label && a.classes == b.classes && a.low == b.low &&
         a.side == b.side;
}

/// Colourings that do not depend on the model.
bool of_data_alone(Colouring colouring) {
  return colouring == Colouring::label || colouring == Colouring::height;
}

struct Still {
  const CloudPicture* picture;
  Colouring colouring;
  bool shared = false;  ///< by all attentions

  std::string title() const {
    const std::string what = colouring == Colouring::attention
                                 ? fmt::format("attention of point {}", picture->point)
                                 : name_of(colouring);
    return shared ? what : fmt::format("{}, {}", picture->origin.attention, what);
  }
};

std::vector<Still> stills_of(const CloudGroup& group) {
  std::vector<Still> stills;
  for (const CloudPicture* picture : group.drawings) {
    const bool first = picture == group.drawings.front();
    const bool same = of_same_points(picture->cloud, group.first().cloud);
    for (const Colouring colouring : colourings_of(picture->cloud)) {
      if (of_data_alone(colouring) && same && !first) continue;
      stills.push_back({picture, colouring, of_data_alone(colouring) && same});
    }
  }
  return stills;
}

std::string still_label(const Still& still) {
  return fmt::format("cloud {} of {} by {}", still.picture->index, still.picture->origin.experiment,
                     still.title());
}

std::string caption_of(const CloudPicture& picture) {
  std::string text = fmt::format("{}, seed {}", picture.origin.attention, picture.origin.seed);
  if (!picture.answer.empty()) text += fmt::format(": {}", picture.answer);
  if (picture.patch == 0) return text + ". No attention was recorded.";
  return text + fmt::format(
                    ". Attention of point {} to the {} tokens of its patch: {:.2g} at most, {:.2g} "
                    "if all were equal.",
                    picture.point, picture.patch, picture.cloud.most, 1.0 / double(picture.patch));
}

std::string group_html(const CloudGroup& group) {
  const CloudPicture& first = group.first();
  std::string out = fmt::format("<h3>{}, test cloud {}: {} points{}</h3>\n",
                                html_text(group.experiment), group.index, first.points,
                                std::size_t(first.points) == first.cloud.size()
                                    ? ""
                                    : fmt::format(", {} of them shown", first.cloud.size()));
  out += "<ul class=\"said\">\n";
  for (const CloudPicture* picture : group.drawings) {
    out += fmt::format("<li>{}</li>\n", html_text(caption_of(*picture)));
  }
  out += "</ul>\n<div class=\"graphs\">\n";
  StillOptions options;
  options.most = kPointsOnPage;
  for (const Still& still : stills_of(group)) {
    out +=
        fmt::format("<figure>{}<figcaption>{}</figcaption></figure>\n",
                    cloud_svg(still.picture->cloud, still.colouring, options, still_label(still)),
                    html_text(still.title()));
  }
  return out + "</div>\n";
}

/// Letters, digits and -_. as they are, anything else as _.
std::string file_word(const std::string& text) {
  std::string word;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' ||
                       (c == '.' && !word.empty());
    word += plain ? c : '_';
  }
  return word;
}

}  // namespace

std::vector<CloudPicture> cloud_pictures_of(const std::vector<RunRecord>& runs,
                                            std::vector<std::string>& notes) {
  return kept_pictures<CloudPicture>(runs, "clouds", cloud_picture, notes);
}

std::string cloud_pictures_html(const std::vector<CloudPicture>& pictures) {
  std::string out;
  for (const CloudGroup& group : groups_of(pictures)) out += group_html(group);
  if (out.empty()) return out;
  return out +
         "<p class=\"note\">Attention is that of the ringed point in the last layer, the mean over "
         "heads; a point has the colour of the token that it lies in, and each attention its own "
         "scale. Of a large cloud some points are shown, in each class its share. Pictures here "
         "have fewer; <code>attnlab report --stills FOLDER</code> writes them with all that "
         "are shown.</p>\n";
}

std::vector<CloudFile> cloud_files(const std::vector<CloudPicture>& pictures,
                                   const StillOptions& options) {
  std::vector<CloudFile> files;
  std::map<std::string, int> used;  // names that differ in other characters alone
  for (const CloudGroup& group : groups_of(pictures)) {
    for (const Still& still : stills_of(group)) {
      const std::string whose =
          still.shared ? "" : file_word(still.picture->origin.attention) + "-";
      std::string name = fmt::format("{}-cloud{}-{}{}", file_word(group.experiment), group.index,
                                     whose, name_of(still.colouring));
      const int times = ++used[name];
      if (times > 1) name += fmt::format("-{}", times);
      files.push_back({name + ".svg", cloud_svg(still.picture->cloud, still.colouring, options,
                                                still_label(still))});
    }
  }
  return files;
}

}  // namespace attnlab
