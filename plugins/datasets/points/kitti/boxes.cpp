#include "plugins/datasets/points/kitti/boxes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/data/points/byte_reader.h"

namespace attnlab {
namespace {

bool read_finite(std::string_view word, double& number) {
  return read_number(word, number) && std::isfinite(number);
}

/// The name of a kind of objects. Letters' case means nothing, as in KITTI's own evaluation.
std::string type_of_box(std::string_view word, const WordReader& lines) {
  constexpr const char* kTypes[] = {"Car",    "Van",     "Truck", "Pedestrian", "Person_sitting",
                                    "Person", "Cyclist", "Tram",  "Misc",       "DontCare"};
  for (const char* type : kTypes) {
    if (lower_case(type) == lower_case(word)) return type;
  }
  lines.fail(
      fmt::format("{} is not a type of KITTI's ({}); correct it, or write Misc, whose points do "
                  "not count",
                  excerpt(word), fmt::join(kTypes, ", ")));
}

/// `count` numbers of the line "name: ...".
std::vector<double> matrix(const std::string& text, const std::string& path,
                           const std::string& name, std::size_t count) {
  WordReader lines(text, path);
  while (!lines.at_end()) {
    std::string_view line = lines.line();
    if (take_word(line, ":") != name) continue;
    std::vector<double> numbers;
    for (std::string_view word; !(word = take_word(line, ":")).empty();) {
      if (!read_finite(word, numbers.emplace_back())) {
        lines.fail(fmt::format("{} is not a finite number; repair the line", excerpt(word)));
      }
    }
    if (numbers.size() != count) {
      lines.fail(fmt::format("{} has {} numbers, expected {}", name, numbers.size(), count));
    }
    return numbers;
  }
  throw DataError(fmt::format("{}: has no line '{}:'", path, name));
}

Tensor rows_of(const std::array<double, 12>& matrix) {
  return at::tensor(std::vector<double>(matrix.begin(), matrix.end())).view({3, 4});
}

/// [N, 3]: the matrix [3, 4] of each place.
Tensor mapped(const Tensor& places, const std::array<double, 12>& matrix) {
  const Tensor m = rows_of(matrix);
  return places.mm(m.narrow(1, 0, 3).t()) + m.select(1, 3);
}

}  // namespace

Calibration read_calibration(const std::string& path) {
  const std::string text = read_text(path);
  const std::vector<double> p2 = matrix(text, path, "P2", 12);
  const std::vector<double> r0 = matrix(text, path, "R0_rect", 9);
  const std::vector<double> to_camera = matrix(text, path, "Tr_velo_to_cam", 12);
  Calibration calibration;
  std::copy(p2.begin(), p2.end(), calibration.projection.begin());
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      for (std::size_t k = 0; k < 3; ++k) {
        calibration.to_camera[4 * i + j] += r0[3 * i + k] * to_camera[4 * k + j];
      }
    }
  }
  return calibration;
}

std::vector<Box> read_boxes(const std::string& path) {
  const std::string text = read_text(path);
  WordReader lines(text, path);
  std::vector<Box> boxes;
  while (!lines.at_end()) {
    std::string_view line = lines.line();
    Box box;
    const std::string_view type = take_word(line);
    if (type.empty()) continue;
    box.type = type_of_box(type, lines);
    std::array<double, 14> numbers{};  // truncated, occluded, alpha, four of the image, then ours
    for (double& number : numbers) {
      if (!read_finite(take_word(line), number)) {
        lines.fail("expected a type and 14 numbers; repair the line");
      }
    }
    std::copy_n(numbers.begin() + 3, 4, box.image.begin());
    box.height = numbers[7];
    box.width = numbers[8];
    box.length = numbers[9];
    box.location = {numbers[10], numbers[11], numbers[12]};
    box.turn = numbers[13];
    boxes.push_back(box);
  }
  return boxes;
}

Tensor in_camera(const Tensor& scan, const Calibration& calibration) {
  return mapped(scan.narrow(1, 0, 3).to(at::kDouble), calibration.to_camera);
}

Tensor in_image(const Tensor& camera, const Calibration& calibration,
                const std::array<double, 4>& part) {
  const Tensor image = mapped(camera, calibration.projection);
  const Tensor depth = image.select(1, 2);
  const Tensor u = image.select(1, 0) / depth, v = image.select(1, 1) / depth;
  return camera.select(1, 2)
      .gt(0)
      .logical_and(u.ge(part[0]))
      .logical_and(u.lt(part[2]))
      .logical_and(v.ge(part[1]))
      .logical_and(v.lt(part[3]));
}

Tensor in_box(const Tensor& camera, const Box& box) {
  const Tensor x = camera.select(1, 0) - box.location[0];
  const Tensor y = camera.select(1, 1) - box.location[1];
  const Tensor z = camera.select(1, 2) - box.location[2];
  const double c = std::cos(box.turn), s = std::sin(box.turn);
  const Tensor along = x * c - z * s, across = x * s + z * c;
  return along.abs()
      .le(box.length / 2)
      .logical_and(across.abs().le(box.width / 2))
      .logical_and(y.le(0))
      .logical_and(y.ge(-box.height));
}

}  // namespace attnlab
