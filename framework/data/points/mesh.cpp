#include "framework/data/points/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "framework/data/points/byte_reader.h"

namespace attnlab {
namespace {

using Vector3 = std::array<double, 3>;

Vector3 corner(const Mesh& mesh, std::int64_t triangle, std::int64_t which) {
  const std::int64_t row = mesh.triangles.data_ptr<std::int64_t>()[3 * triangle + which];
  const double* at = mesh.corners.data_ptr<double>() + 3 * row;
  return {at[0], at[1], at[2]};
}

Vector3 minus(const Vector3& a, const Vector3& b) {
  return {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
}

/// Across a triangle; twice its area long.
Vector3 across(const Vector3& a, const Vector3& b, const Vector3& c) {
  const Vector3 u = minus(b, a), v = minus(c, a);
  return {u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]};
}

double length(const Vector3& a) { return std::sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]); }

/// The next line that says something.
std::string_view next_line(WordReader& text) {
  while (!text.at_end()) {
    std::string_view line = text.line();
    line = line.substr(0, line.find('#'));
    std::string_view rest = line;
    if (!take_word(rest).empty()) return line;
  }
  text.fail("the file ends before all that its header speaks of");
}

std::vector<double> numbers(std::string_view line, const WordReader& text) {
  std::vector<double> found;
  for (std::string_view word; !(word = take_word(line)).empty();) {
    if (!read_number(word, found.emplace_back())) {
      text.fail(fmt::format("\'{}\' is not a number; repair the line", word));
    }
  }
  return found;
}

}  // namespace

Mesh parse_off(std::string_view bytes, const std::string& path) {
  WordReader text(bytes, path);
  std::string_view line = next_line(text);
  if (line.substr(0, 3) != "OFF") text.fail("does not begin with 'OFF'; is it another format?");
  line.remove_prefix(3);
  std::string_view rest = line;
  if (take_word(rest).empty()) line = next_line(text);
  const std::vector<double> sizes = numbers(line, text);
  // Each corner and face takes bytes: nothing is made room for that the file does not hold.
  const auto most = static_cast<double>(bytes.size());
  if (sizes.size() < 2 || !(sizes[0] >= 0 && sizes[0] < most && sizes[1] >= 0 && sizes[1] < most)) {
    text.fail("expected how many corners and faces there are");
  }
  const auto corners = static_cast<std::int64_t>(sizes[0]);
  Mesh mesh{at::empty({corners, 3}, at::kDouble), Tensor()};
  for (std::int64_t i = 0; i < corners; ++i) {
    const std::vector<double> place = numbers(next_line(text), text);
    if (place.size() < 3) text.fail("a corner has three coordinates");
    std::copy_n(place.begin(), 3, mesh.corners.data_ptr<double>() + 3 * i);
  }
  std::vector<std::int64_t> triangles;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(sizes[1]); ++i) {
    const std::vector<double> face = numbers(next_line(text), text);
    if (face.empty() || !(face[0] >= 3 && face[0] < static_cast<double>(face.size()))) {
      text.fail("a face begins with how many corners it has, three at least, and names them");
    }
    const auto count = static_cast<std::size_t>(face[0]);
    for (std::size_t c = 1; c <= count; ++c) {
      if (face[c] >= 0 && face[c] < static_cast<double>(corners)) continue;
      text.fail(fmt::format("the face has a corner {}, of {} that there are", face[c], corners));
    }
    for (std::size_t c = 2; c < count; ++c) {
      for (const std::size_t which : {std::size_t{1}, c, c + 1}) {
        triangles.push_back(static_cast<std::int64_t>(face[which]));
      }
    }
  }
  mesh.triangles = at::tensor(triangles, at::kLong).view({-1, 3});
  return mesh;
}

SampledPoints sampled(const Mesh& mesh, std::int64_t count, Random& random,
                      const std::string& path) {
  std::vector<double> areas;  // summed up
  double sum = 0;
  for (std::int64_t t = 0; t < mesh.triangles.size(0); ++t) {
    sum += length(across(corner(mesh, t, 0), corner(mesh, t, 1), corner(mesh, t, 2))) / 2;
    areas.push_back(sum);
  }
  if (!(sum > 0) || !std::isfinite(sum)) throw DataError(path + ": the mesh has no area to sample");
  SampledPoints points{at::empty({count, 3}), at::empty({count, 3})};
  for (std::int64_t i = 0; i < count; ++i) {
    const double at = random.uniform() * sum;
    const auto t =
        std::min<std::int64_t>(std::upper_bound(areas.begin(), areas.end(), at) - areas.begin(),
                               mesh.triangles.size(0) - 1);
    const Vector3 a = corner(mesh, t, 0), b = corner(mesh, t, 1), c = corner(mesh, t, 2);
    const double root = std::sqrt(random.uniform()), along = random.uniform();
    const Vector3 normal = across(a, b, c);
    for (std::size_t axis = 0; axis < 3; ++axis) {
      points.coordinates.data_ptr<float>()[3 * i + std::int64_t(axis)] = static_cast<float>(
          (1 - root) * a[axis] + root * (1 - along) * b[axis] + root * along * c[axis]);
      points.normals.data_ptr<float>()[3 * i + std::int64_t(axis)] =
          static_cast<float>(normal[axis] / length(normal));
    }
  }
  return points;
}

}  // namespace attnlab
