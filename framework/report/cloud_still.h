// Still pictures of clouds of points, as SVG.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace attnlab {

/// A point without a class, and attention outside its patch.
inline constexpr std::uint8_t kNoValue = 255;

/// The points of a cloud with what may colour them. Lists are empty where nothing is known.
struct DrawnCloud {
  /// Three of each point, 0 to 65535 along the side of a cube.
  std::vector<std::uint16_t> places;
  std::array<double, 3> low = {0, 0, 0};  ///< the cube's least corner, in the data's unit
  double side = 1;
  std::size_t chosen = 0;                 ///< whose attention it is
  std::vector<std::string> classes;       ///< names
  std::vector<std::uint8_t> label, said;  ///< of each point; kNoValue does not count
  std::vector<std::uint8_t> attention;    ///< of each point: 254 is `most`, or kNoValue
  double most = 0;

  std::size_t size() const { return places.size() / 3; }
};

/// What the colours of points mean.
enum class Colouring { label, prediction, error, attention, height };

const char* name_of(Colouring colouring);

/// What a cloud can be coloured by, in the order above; by height where it has no labels.
std::vector<Colouring> colourings_of(const DrawnCloud& cloud);

/// "#rrggbb", one for each class; as they come they are told apart on white and on black.
std::string class_colour(std::size_t of_class);
/// From little to much.
const std::vector<std::string>& ramp_colours();
constexpr const char* kRight = "#8796a8";
constexpr const char* kWrong = "#e4572e";
constexpr const char* kUncounted = "#c3c8cf";  ///< no label, no answer, or outside the patch

struct StillOptions {
  double turn = 30;              ///< of the camera around the vertical axis, in degrees
  double tilt = 30;              ///< above the horizontal plane, -90 to 90
  std::set<std::string> hidden;  ///< classes whose points, by their labels, are left out
  std::size_t most = 20000;      ///< points; of more, every so-manieth
};

/// A point on the picture: x to the right and y up, in radii of the cloud; larger depths are
/// nearer.
struct SeenPoint {
  double x = 0, y = 0, depth = 0;
};

/// The camera looks at the middle of the points, from three radii away.
std::vector<SeenPoint> projected(const DrawnCloud& cloud, double turn, double tilt);

/// Points are drawn back to front, and those that are equally far in their order: the same cloud
/// gives the same bytes. A legend says what the colours mean; the chosen point is ringed where its
/// attention is shown.
/// @param label  says what it is to who cannot see it
std::string cloud_svg(const DrawnCloud& cloud, Colouring colouring, const StillOptions& options,
                      const std::string& label);

}  // namespace attnlab
