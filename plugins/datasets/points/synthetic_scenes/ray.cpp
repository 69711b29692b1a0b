// Rays and solids: where a ray enters, by the solid's own axes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "plugins/datasets/points/synthetic_scenes/scene.h"

namespace attnlab {
namespace {

constexpr double kFar = std::numeric_limits<double>::infinity();
constexpr double kNear = 1e-6;  // what is nearer is the scanner itself

struct Entry {
  double distance = kFar, facing = 0;
};

/// A ray in a solid's own axes.
struct LocalRay {
  Vector3 from, along;
};

LocalRay local(const Solid& solid, const Vector3& from, const Vector3& along) {
  const double c = std::cos(solid.turn), s = std::sin(solid.turn);
  const auto turned = [&](double x, double y, double z) {
    return Vector3{c * x + s * y, c * y - s * x, z};
  };
  return {turned(from[0] - solid.centre[0], from[1] - solid.centre[1], from[2] - solid.centre[2]),
          turned(along[0], along[1], along[2])};
}

/// Where the ray enters and leaves -half <= x <= half along one axis.
std::pair<double, double> slab(double from, double along, double half) {
  if (along == 0) return std::abs(from) <= half ? std::pair{-kFar, kFar} : std::pair{kFar, -kFar};
  const double a = (-half - from) / along, b = (half - from) / along;
  return {std::min(a, b), std::max(a, b)};
}

Entry enter_box(const LocalRay& ray, const Vector3& half) {
  double enter = -kFar, leave = kFar;
  Entry entry;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const auto [a, b] = slab(ray.from[axis], ray.along[axis], half[axis]);
    if (a > enter) entry.facing = std::abs(ray.along[axis]);
    enter = std::max(enter, a);
    leave = std::min(leave, b);
  }
  if (enter <= leave && enter > kNear) entry.distance = enter;
  return entry;
}

/// a t^2 + 2 b t + c = 0: between its two roots the ray is inside.
std::pair<double, double> roots(double a, double b, double c) {
  if (a == 0) return c <= 0 ? std::pair{-kFar, kFar} : std::pair{kFar, -kFar};
  const double root = b * b - a * c;
  if (root < 0) return {kFar, -kFar};
  return {(-b - std::sqrt(root)) / a, (-b + std::sqrt(root)) / a};
}

Entry enter_cylinder(const LocalRay& ray, const Vector3& half) {
  const auto [x, y] = std::pair{ray.from[0], ray.from[1]};
  const auto [u, v] = std::pair{ray.along[0], ray.along[1]};
  const auto [in, out] = roots(u * u + v * v, x * u + y * v, x * x + y * y - half[0] * half[0]);
  const auto [low, high] = slab(ray.from[2], ray.along[2], half[2]);
  const double enter = std::max(in, low);
  if (!(enter <= std::min(out, high)) || enter <= kNear) return {};
  if (low > in) return {enter, std::abs(ray.along[2])};
  return {enter, std::abs((x + enter * u) * u + (y + enter * v) * v) / half[0]};
}

Entry enter_sphere(const LocalRay& ray, double radius) {
  double b = 0, c = -radius * radius;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    b += ray.from[axis] * ray.along[axis];
    c += ray.from[axis] * ray.from[axis];
  }
  const auto [in, out] = roots(1, b, c);
  if (in > out || in <= kNear) return {};
  return {in, std::abs(b + in) / radius};
}

Entry enter(const Solid& solid, const LocalRay& ray) {
  switch (solid.kind) {
    case SolidKind::box:
      return enter_box(ray, solid.half);
    case SolidKind::cylinder:
      return enter_cylinder(ray, solid.half);
    default:
      return enter_sphere(ray, solid.half[0]);
  }
}

/// The room's own faces, from inside.
Hit room_hit(const Scene& scene, const Vector3& from, const Vector3& along) {
  Hit hit{kFar, 0, 0.7, 1};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (along[axis] == 0) continue;
    const bool forward = along[axis] > 0;
    const double distance = ((forward ? scene.size[axis] : 0) - from[axis]) / along[axis];
    if (distance >= hit.distance) continue;
    hit.distance = distance;
    hit.facing = std::abs(along[axis]);
    hit.label = axis < 2 ? 2 : forward ? 1 : 0;
  }
  return hit;
}

}  // namespace

Hit first_hit(const Scene& scene, const Vector3& from, const Vector3& direction) {
  Hit hit = room_hit(scene, from, direction);
  for (const Solid& solid : scene.solids) {
    const Entry entry = enter(solid, local(solid, from, direction));
    if (entry.distance >= hit.distance) continue;
    hit = {entry.distance, solid.label, solid.reflectance, entry.facing};
  }
  return hit;
}

}  // namespace attnlab
