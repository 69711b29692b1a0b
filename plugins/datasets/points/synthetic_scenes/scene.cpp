#include "plugins/datasets/points/synthetic_scenes/scene.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace attnlab {
namespace {

enum Label { kFloor, kCeiling, kWall, kTable, kChair, kCabinet, kLamp, kPillar, kBall, kClutter };

class Builder {
 public:
  Builder(Random& random, Scene& scene) : random_(random), scene_(scene) {}

  /// Puts one piece of furniture where there is room; nothing after some tries.
  void add_furniture() {
    using Make = void (Builder::*)(double, double, double);
    constexpr std::pair<Make, double> kKinds[] = {{&Builder::table, 0.9},   {&Builder::chair, 0.4},
                                                  {&Builder::chair, 0.4},   {&Builder::lamp, 0.3},
                                                  {&Builder::pillar, 0.35}, {&Builder::ball, 0.35}};
    const auto kind = static_cast<std::size_t>(random_.below(7));
    if (kind == 6) return cabinet();
    const auto [make, radius] = kKinds[kind];
    for (int attempt = 0; attempt < 20; ++attempt) {
      const double x = between(radius, scene_.size[0] - radius);
      const double y = between(radius, scene_.size[1] - radius);
      if (!is_free(x, y, radius)) continue;
      taken_.push_back({x, y, radius});
      reflectance_ = between(0.2, 0.9);
      (this->*make)(x, y, between(0, 2 * std::numbers::pi));
      return;
    }
  }

  /// A small thing on the floor or on a table.
  void add_clutter() {
    double x = between(0.2, scene_.size[0] - 0.2), y = between(0.2, scene_.size[1] - 0.2), z = 0;
    if (!tops_.empty() && random_.uniform() < 0.6) {
      const Vector3& top =
          tops_[static_cast<std::size_t>(random_.below(std::int64_t(tops_.size())))];
      x = top[0] + between(-0.25, 0.25);
      y = top[1] + between(-0.25, 0.25);
      z = top[2];
    }
    reflectance_ = between(0.1, 1);
    const double a = between(0.04, 0.15), b = between(0.04, 0.15), c = between(0.03, 0.15);
    const auto kind = static_cast<SolidKind>(random_.below(3));
    const Vector3 half = kind == SolidKind::box        ? Vector3{a, b, c}
                         : kind == SolidKind::cylinder ? Vector3{a, a, c}
                                                       : Vector3{c, c, c};
    add(kind, {x, y, z + half[2]}, half, between(0, std::numbers::pi), kClutter);
  }

  void add_scanner() {
    Vector3 place{};
    for (int attempt = 0; attempt < 50; ++attempt) {
      place = {between(0.5, scene_.size[0] - 0.5), between(0.5, scene_.size[1] - 0.5),
               between(1.2, 1.7)};
      if (is_free(place[0], place[1], 0.1)) break;
    }
    scene_.scanners.push_back(place);
  }

 private:
  struct Disc {
    double x, y, radius;
  };

  double between(double low, double high) { return low + (high - low) * random_.uniform(); }

  bool is_free(double x, double y, double radius) const {
    return std::none_of(taken_.begin(), taken_.end(), [&](const Disc& disc) {
      return std::hypot(x - disc.x, y - disc.y) < radius + disc.radius;
    });
  }

  void add(SolidKind kind, const Vector3& centre, const Vector3& half, double turn, Label label) {
    scene_.solids.push_back({kind, centre, half, turn, label, reflectance_});
  }

  /// Four legs from the floor to a height, at the corners of what is turned.
  void legs(double x, double y, double turn, double across, double along, double height,
            Label label) {
    const double c = std::cos(turn), s = std::sin(turn);
    for (const auto& [u, v] : {std::pair{1, 1}, {1, -1}, {-1, 1}, {-1, -1}}) {
      const double dx = u * across, dy = v * along;
      add(SolidKind::cylinder, {x + c * dx - s * dy, y + s * dx + c * dy, height / 2},
          {0.025, 0.025, height / 2}, 0, label);
    }
  }

  void table(double x, double y, double turn) {
    const double height = between(0.68, 0.8);
    if (random_.uniform() < 0.5) {
      const double across = between(0.4, 0.7), along = between(0.35, 0.5);
      add(SolidKind::box, {x, y, height}, {across, along, 0.025}, turn, kTable);
      legs(x, y, turn, across - 0.06, along - 0.06, height, kTable);
    } else {
      const double radius = between(0.35, 0.6);
      add(SolidKind::cylinder, {x, y, height}, {radius, radius, 0.025}, 0, kTable);
      add(SolidKind::cylinder, {x, y, height / 2}, {0.06, 0.06, height / 2}, 0, kTable);
    }
    tops_.push_back({x, y, height + 0.025});
  }

  void chair(double x, double y, double turn) {
    const double seat = between(0.42, 0.5), side = between(0.19, 0.24);
    add(SolidKind::box, {x, y, seat}, {side, side, 0.02}, turn, kChair);
    legs(x, y, turn, side - 0.03, side - 0.03, seat, kChair);
    const double back = between(0.2, 0.3), c = std::cos(turn), s = std::sin(turn);
    add(SolidKind::box, {x + c * side, y + s * side, seat + back}, {0.02, side, back}, turn,
        kChair);
  }

  void lamp(double x, double y, double) {
    const double height = between(1.3, 1.7), shade = between(0.12, 0.22);
    add(SolidKind::cylinder, {x, y, 0.02}, {0.14, 0.14, 0.02}, 0, kLamp);
    add(SolidKind::cylinder, {x, y, height / 2}, {0.02, 0.02, height / 2}, 0, kLamp);
    if (random_.uniform() < 0.5) {
      add(SolidKind::sphere, {x, y, height}, {shade, shade, shade}, 0, kLamp);
    } else {
      add(SolidKind::cylinder, {x, y, height}, {shade, shade, between(0.1, 0.18)}, 0, kLamp);
    }
  }

  void pillar(double x, double y, double) {
    const double radius = between(0.12, 0.3), half = scene_.size[2] / 2;
    add(SolidKind::cylinder, {x, y, half}, {radius, radius, half}, 0, kPillar);
  }

  void ball(double x, double y, double) {
    const double radius = between(0.12, 0.32);
    add(SolidKind::sphere, {x, y, radius}, {radius, radius, radius}, 0, kBall);
  }

  /// Against a wall.
  void cabinet() {
    const double width = between(0.4, 0.8), depth = between(0.2, 0.3), half = between(0.5, 1.1);
    const auto wall = static_cast<std::size_t>(random_.below(4));
    const std::size_t axis = wall % 2;  // the wall stands at one end of this axis
    if (scene_.size[1 - axis] < 2 * width + 0.1) return;
    Vector3 centre = {0, 0, half};
    centre[axis] = wall < 2 ? depth : scene_.size[axis] - depth;
    centre[1 - axis] = between(width, scene_.size[1 - axis] - width);
    if (!is_free(centre[0], centre[1], width)) return;
    taken_.push_back({centre[0], centre[1], width});
    reflectance_ = between(0.2, 0.9);
    Vector3 size = {width, width, half};
    size[axis] = depth;
    add(SolidKind::box, centre, size, 0, kCabinet);
  }

  Random& random_;
  Scene& scene_;
  std::vector<Disc> taken_;
  std::vector<Vector3> tops_;  ///< middles of tables
  double reflectance_ = 0.5;
};

}  // namespace

Scene make_scene(Random& random, std::int64_t furniture, std::int64_t clutter,
                 std::int64_t scanners) {
  Scene scene;
  scene.size = {3.5 + 3.5 * random.uniform(), 3.5 + 3.5 * random.uniform(),
                2.4 + 0.6 * random.uniform()};
  Builder builder(random, scene);
  for (std::int64_t i = 0; i < furniture; ++i) builder.add_furniture();
  for (std::int64_t i = 0; i < clutter; ++i) builder.add_clutter();
  for (std::int64_t i = 0; i < scanners; ++i) builder.add_scanner();
  return scene;
}

}  // namespace attnlab
