// A made-up room: solids with labels, and what a scanner in it sees.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "framework/base/random.h"

namespace attnlab {

inline constexpr std::array<std::string_view, 10> kSceneClasses = {
    "floor", "ceiling", "wall", "table", "chair", "cabinet", "lamp", "pillar", "ball", "clutter"};

using Vector3 = std::array<double, 3>;

enum class SolidKind { box, cylinder, sphere };

/// A solid, turned about the vertical.
struct Solid {
  SolidKind kind = SolidKind::box;
  Vector3 centre{};
  /// Of a box: half its sides; of an upright cylinder: radius, radius, half its height; of a
  /// sphere: its radius, three times.
  Vector3 half{};
  double turn = 0;  ///< radians
  std::int64_t label = 0;
  double reflectance = 0.5;  ///< 0 to 1
};

struct Scene {
  Vector3 size{};  ///< of the room, from the corner at 0
  std::vector<Solid> solids;
  std::vector<Vector3> scanners;
};

/// @param furniture  about how many pieces; @param clutter  about how many small things
Scene make_scene(Random& random, std::int64_t furniture, std::int64_t clutter,
                 std::int64_t scanners);

/// What a ray meets first: the room is closed, so there is something.
struct Hit {
  double distance = 0;
  std::int64_t label = 0;
  double reflectance = 0;
  double facing = 0;  ///< cosine between the ray and the surface's normal, 0 to 1
};

/// @param direction  of unit length
Hit first_hit(const Scene& scene, const Vector3& from, const Vector3& direction);

}  // namespace attnlab
