#include "framework/report/cloud_still.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "framework/base/unicode.h"
#include "framework/document/markup.h"

namespace attnlab {
namespace {

constexpr double kStillWidth = 400, kStillHeight = 300, kMargin = 8, kLine = 18, kSwatch = 10,
                 kLetter = 6.6;
/// The camera, in radii of the cloud.
constexpr double kDistance = 3;
constexpr double kShades = 254;
constexpr std::size_t kLongestName = 40;

std::string rgb(double red, double green, double blue) {
  const auto byte = [](double share) { return std::lround(255 * std::clamp(share, 0.0, 1.0)); };
  return fmt::format("#{:02x}{:02x}{:02x}", byte(red), byte(green), byte(blue));
}

/// @param hue, saturation, lightness  0 to 1
std::string from_hsl(double hue, double saturation, double lightness) {
  const auto channel = [&](double shift) {
    const double k = std::fmod(shift + 12 * hue, 12);
    return lightness - saturation * std::min(lightness, 1 - lightness) *
                           std::max(-1.0, std::min({k - 3, 9 - k, 1.0}));
  };
  return rgb(channel(0), channel(8), channel(4));
}

std::string colour_of_class(std::uint8_t one) {
  return one == kNoValue ? kUncounted : class_colour(one);
}

/// @param share  0 to 1
std::string ramp_colour(double share) {
  const auto& ramp = ramp_colours();
  const auto last = static_cast<double>(ramp.size() - 1);
  return ramp[static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * last))];
}

/// Of the points' heights the largest; at least 1. The cloud may be flatter than the cube.
std::uint16_t highest_of(const DrawnCloud& cloud) {
  std::uint16_t highest = 1;
  for (std::size_t k = 2; k < cloud.places.size(); k += 3) {
    highest = std::max(highest, cloud.places[k]);
  }
  return highest;
}

std::string colour_of(const DrawnCloud& cloud, Colouring colouring, std::size_t i,
                      std::uint16_t highest) {
  switch (colouring) {
    case Colouring::label:
      return colour_of_class(cloud.label[i]);
    case Colouring::prediction:
      return colour_of_class(cloud.said[i]);
    case Colouring::error:
      if (cloud.label[i] == kNoValue) return kUncounted;
      return cloud.label[i] == cloud.said[i] ? kRight : kWrong;
    case Colouring::attention:
      return cloud.attention[i] == kNoValue ? kUncounted
                                            : ramp_colour(cloud.attention[i] / kShades);
    case Colouring::height:
      break;
  }
  return ramp_colour(double(cloud.places[3 * i + 2]) / highest);
}

/// The points that are drawn, back to front.
std::vector<std::size_t> drawn_points(const DrawnCloud& cloud, const StillOptions& options,
                                      const std::vector<SeenPoint>& seen) {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < cloud.size(); ++i) {
    const bool named = i < cloud.label.size() && cloud.label[i] < cloud.classes.size();
    if (named && options.hidden.count(cloud.classes[cloud.label[i]]) > 0) continue;
    all.push_back(i);
  }
  std::vector<std::size_t> drawn;
  const std::size_t count = std::min(all.size(), options.most);
  for (std::size_t j = 0; j < count; ++j) drawn.push_back(all[j * all.size() / count]);
  std::stable_sort(drawn.begin(), drawn.end(),
                   [&](std::size_t a, std::size_t b) { return seen[a].depth < seen[b].depth; });
  return drawn;
}

/// From radii to the picture, so that what is drawn fills it.
struct Frame {
  double scale = 1, x = 0, y = 0;

  Frame(const std::vector<SeenPoint>& seen, const std::vector<std::size_t>& drawn) {
    double left = 0, right = 0, bottom = 0, top = 0;
    for (std::size_t k = 0; k < drawn.size(); ++k) {
      const SeenPoint& point = seen[drawn[k]];
      left = k == 0 ? point.x : std::min(left, point.x);
      right = k == 0 ? point.x : std::max(right, point.x);
      bottom = k == 0 ? point.y : std::min(bottom, point.y);
      top = k == 0 ? point.y : std::max(top, point.y);
    }
    scale = std::min((kStillWidth - 2 * kMargin) / std::max(right - left, 1e-6),
                     (kStillHeight - 2 * kMargin) / std::max(top - bottom, 1e-6));
    scale = std::min(scale, kStillWidth);  // a single point need not fill the picture
    x = kStillWidth / 2 - scale * (left + right) / 2;
    y = kStillHeight / 2 + scale * (bottom + top) / 2;
  }
  double across(const SeenPoint& point) const { return x + scale * point.x; }
  double down(const SeenPoint& point) const { return y - scale * point.y; }
};

/// A coloured square and words, one after the other, in lines as wide as the picture.
class Legend {
 public:
  void add(const std::string& colour, const std::string& words) {
    std::string text = valid_utf8(words);
    if (display_width(text) > kLongestName) {
      text = std::string(display_prefix(text, kLongestName - 1)) + "…";
    }
    const double width = kSwatch + 14 + kLetter * double(display_width(text));
    start(width);
    out_ += fmt::format(
        "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>"
        "<text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n",
        x_, y_ + 3, kSwatch, kSwatch, colour, x_ + kSwatch + 4, y_ + 12, html_text(text));
    x_ += width;
  }
  /// The ramp between two words.
  void add_ramp(const std::string& low, const std::string& high) {
    const auto& ramp = ramp_colours();
    out_ += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n", x_, y_ + 12, low);
    x_ += 6 + kLetter * double(low.size());
    for (const std::string& colour : ramp) {
      out_ +=
          fmt::format("<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"8\" height=\"{}\" fill=\"{}\"/>\n",
                      x_, y_ + 3, kSwatch, colour);
      x_ += 7;  // a little over each other, so that no seam shows
    }
    out_ += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n", x_ + 7, y_ + 12, high);
    x_ += 20 + kLetter * double(high.size());
  }
  const std::string& svg() const { return out_; }
  double bottom() const { return y_ + kLine; }

 private:
  void start(double width) {
    if (x_ > kMargin && x_ + width > kStillWidth - kMargin) {
      x_ = kMargin;
      y_ += kLine;
    }
  }

  double x_ = kMargin, y_ = kStillHeight + 4;
  std::string out_;
};

Legend legend_of(const DrawnCloud& cloud, Colouring colouring,
                 const std::vector<std::size_t>& drawn) {
  Legend legend;
  const bool by_class = colouring == Colouring::label || colouring == Colouring::prediction;
  if (by_class) {
    std::set<std::uint8_t> there;
    for (const std::size_t i : drawn) {
      there.insert(colouring == Colouring::label ? cloud.label[i] : cloud.said[i]);
    }
    for (const std::uint8_t one : there) {
      legend.add(colour_of_class(one), one == kNoValue ? "not counted" : cloud.classes[one]);
    }
  } else if (colouring == Colouring::error) {
    legend.add(kRight, "right");
    legend.add(kWrong, "wrong");
    if (std::count(cloud.label.begin(), cloud.label.end(), kNoValue) > 0) {
      legend.add(kUncounted, "not counted");
    }
  } else if (colouring == Colouring::attention) {
    legend.add_ramp("0", fmt::format("{:.2g}", cloud.most));
    legend.add(kUncounted, "outside the patch");
  } else {
    legend.add_ramp("low", "high");
  }
  return legend;
}

/// Points of one colour that follow each other are one path.
std::string points_svg(const DrawnCloud& cloud, Colouring colouring, const Frame& frame,
                       const std::vector<SeenPoint>& seen, const std::vector<std::size_t>& drawn) {
  const double width = std::clamp(
      0.9 * kStillWidth / std::sqrt(double(std::max<std::size_t>(drawn.size(), 1))), 1.6, 7.0);
  std::string out =
      fmt::format("<g fill=\"none\" stroke-linecap=\"round\" stroke-width=\"{:.1f}\">", width);
  const std::uint16_t highest = highest_of(cloud);
  std::string last;
  for (const std::size_t i : drawn) {
    const std::string colour = colour_of(cloud, colouring, i, highest);
    if (colour != last) {
      // Those outside the patch are smaller: they only show where it lies.
      const bool apart = colouring == Colouring::attention && colour == kUncounted;
      out += fmt::format("{}<path stroke=\"{}\"{} d=\"", last.empty() ? "\n" : "\"/>\n", colour,
                         apart ? fmt::format(" stroke-width=\"{:.1f}\"", 0.6 * width) : "");
    }
    last = colour;
    out += fmt::format("M{:.1f} {:.1f}h0", frame.across(seen[i]), frame.down(seen[i]));
  }
  return out + (last.empty() ? "</g>\n" : "\"/>\n</g>\n");
}

}  // namespace

const char* name_of(Colouring colouring) {
  switch (colouring) {
    case Colouring::label:
      return "label";
    case Colouring::prediction:
      return "prediction";
    case Colouring::error:
      return "error";
    case Colouring::attention:
      return "attention";
    case Colouring::height:
      break;
  }
  return "height";
}

std::vector<Colouring> colourings_of(const DrawnCloud& cloud) {
  std::vector<Colouring> all;
  if (!cloud.label.empty()) all.push_back(Colouring::label);
  if (!cloud.said.empty()) all.push_back(Colouring::prediction);
  if (!cloud.label.empty() && !cloud.said.empty()) all.push_back(Colouring::error);
  if (!cloud.attention.empty()) all.push_back(Colouring::attention);
  if (cloud.label.empty()) all.push_back(Colouring::height);
  return all;
}

std::string class_colour(std::size_t of_class) {
  static const std::vector<std::string> kFirst = {
      "#4c78c8", "#e08a2c", "#3f9e5f", "#c8484f", "#8d6bc4", "#2aa5b5", "#c860a8",
      "#9a7b3a", "#7a8f1f", "#6b7680", "#d9b32c", "#2f6f8f", "#a8557a", "#5fae9b",
      "#b5651d", "#7f9fd6", "#96515a", "#4f7f3f", "#b79ad1", "#50596b"};
  if (of_class < kFirst.size()) return kFirst[of_class];
  // Each hue is far from those before it: steps of the golden section around the circle.
  const double hue = std::fmod(0.618033988749895 * double(of_class), 1);
  return from_hsl(hue, 0.55, of_class % 2 == 0 ? 0.45 : 0.6);
}

const std::vector<std::string>& ramp_colours() {
  static const std::vector<std::string> kRamp = [] {
    // Blue over purple and red to orange, as the page's layers have it; lighter as it rises.
    std::vector<std::string> ramp;
    for (int i = 0; i < 24; ++i) {
      const double share = i / 23.0;
      ramp.push_back(from_hsl(std::fmod((225 + 170 * share) / 360, 1), 0.45 + 0.5 * share,
                              0.45 + 0.1 * share));
    }
    return ramp;
  }();
  return kRamp;
}

std::vector<SeenPoint> projected(const DrawnCloud& cloud, double turn, double tilt) {
  std::array<double, 3> low = {65535, 65535, 65535}, high = {0, 0, 0};
  for (std::size_t k = 0; k < cloud.places.size(); ++k) {
    low[k % 3] = std::min<double>(low[k % 3], cloud.places[k]);
    high[k % 3] = std::max<double>(high[k % 3], cloud.places[k]);
  }
  std::array<double, 3> middle{};
  double square = 0;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    middle[axis] = (low[axis] + high[axis]) / 2;
    square += (high[axis] - low[axis]) * (high[axis] - low[axis]) / 4;
  }
  const double radius = std::max(std::sqrt(square), 1.0);
  const double a = turn * std::numbers::pi / 180, e = tilt * std::numbers::pi / 180;
  const double right[3] = {std::cos(a), std::sin(a), 0};
  const double up[3] = {-std::sin(a) * std::sin(e), std::cos(a) * std::sin(e), std::cos(e)};
  const double near[3] = {std::sin(a) * std::cos(e), -std::cos(a) * std::cos(e), std::sin(e)};
  std::vector<SeenPoint> seen(cloud.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    double x = 0, y = 0;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const double at = (cloud.places[3 * i + axis] - middle[axis]) / radius;
      x += at * right[axis];
      y += at * up[axis];
      seen[i].depth += at * near[axis];
    }
    const double shrunk = kDistance / (kDistance - seen[i].depth);
    seen[i].x = x * shrunk;
    seen[i].y = y * shrunk;
  }
  return seen;
}

std::string cloud_svg(const DrawnCloud& cloud, Colouring colouring, const StillOptions& options,
                      const std::string& label) {
  const std::vector<SeenPoint> seen = projected(cloud, options.turn, options.tilt);
  const std::vector<std::size_t> drawn = drawn_points(cloud, options, seen);
  const Frame frame(seen, drawn);
  const Legend legend = legend_of(cloud, colouring, drawn);
  std::string ring;
  if (colouring == Colouring::attention) {
    const SeenPoint& point = seen[cloud.chosen];
    // A dark ring in a light one is seen on every colour.
    ring = fmt::format(
        "<circle cx=\"{0:.1f}\" cy=\"{1:.1f}\" r=\"7\" fill=\"none\" stroke=\"#fff\" "
        "stroke-width=\"4\"/>\n<circle cx=\"{0:.1f}\" cy=\"{1:.1f}\" r=\"7\" fill=\"none\" "
        "stroke=\"#000\" stroke-width=\"1.8\"/>\n",
        frame.across(point), frame.down(point));
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"cloud\" role=\"img\" viewBox=\"0 0 {} "
      "{:.0f}\" aria-label=\"{}\" font-family=\"sans-serif\" font-size=\"12\" "
      "fill=\"currentColor\">\n{}{}{}</svg>\n",
      kStillWidth, legend.bottom() + 2, html_text(label),
      points_svg(cloud, colouring, frame, seen, drawn), ring, legend.svg());
}

}  // namespace attnlab
