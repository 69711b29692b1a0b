#include "plugins/datasets/detection/fashion_scenes/scene.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace attnlab {
namespace {

constexpr std::int64_t kSide = 28;  // of an image of Fashion-MNIST
constexpr double kThreshold = 24;   // darker pixels are background
constexpr int kTries = 30;

double between(Random& random, double low, double high) {
  return low + (high - low) * random.uniform();
}

/// The grey of an image between its pixels, bilinear; 0 outside.
double grey_at(const std::uint8_t* image, double x, double y) {
  const double left = std::floor(x), top = std::floor(y);
  double sum = 0;
  for (int dy = 0; dy < 2; ++dy) {
    for (int dx = 0; dx < 2; ++dx) {
      const auto column = static_cast<std::int64_t>(left) + dx;
      const auto row = static_cast<std::int64_t>(top) + dy;
      if (column < 0 || row < 0 || column >= kSide || row >= kSide) continue;
      const double weight = (1 - std::abs(x - double(column))) * (1 - std::abs(y - double(row)));
      sum += weight * image[row * kSide + column];
    }
  }
  return sum;
}

/// Calls use(column, row, grey) for each pixel of the canvas that a piece covers.
template <class Use>
void each_pixel(const Piece& piece, const std::uint8_t* image, std::int64_t canvas, Use&& use) {
  const double reach = piece.scale * kSide * std::numbers::sqrt2 / 2;
  const double c = std::cos(piece.turn), s = std::sin(piece.turn), middle = (kSide - 1) / 2.0;
  const auto first = [](double x) {
    return std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(x)));
  };
  const auto last = [canvas](double x) {
    return std::min(canvas - 1, static_cast<std::int64_t>(std::ceil(x)));
  };
  for (std::int64_t row = first(piece.y - reach); row <= last(piece.y + reach); ++row) {
    for (std::int64_t column = first(piece.x - reach); column <= last(piece.x + reach); ++column) {
      const double dx = (double(column) + 0.5 - piece.x) / piece.scale;
      const double dy = (double(row) + 0.5 - piece.y) / piece.scale;
      const double grey = grey_at(image, c * dx + s * dy + middle, c * dy - s * dx + middle);
      if (grey >= kThreshold) use(column, row, grey);
    }
  }
}

/// Which piece is seen at each pixel; -1: none.
class Canvas {
 public:
  explicit Canvas(std::int64_t side) : side_(side), owners_(std::size_t(side * side), -1) {}

  /// Puts a piece in front of all others. @returns how many pixels it covers.
  std::int64_t cover(const Piece& piece, const std::uint8_t* image, int owner) {
    std::int64_t covered = 0;
    each_pixel(piece, image, side_, [&](std::int64_t column, std::int64_t row, double) {
      owners_[std::size_t(row * side_ + column)] = owner;
      ++covered;
    });
    return covered;
  }

  std::int64_t seen(int owner) const { return std::count(owners_.begin(), owners_.end(), owner); }

  /// The box of what is seen of a piece.
  ObjectBox box(int owner, std::int64_t label) const {
    ObjectBox box{double(side_), double(side_), 0, 0, label, 0, BoxKind::counted};
    for (std::int64_t row = 0; row < side_; ++row) {
      for (std::int64_t column = 0; column < side_; ++column) {
        if (owners_[std::size_t(row * side_ + column)] != owner) continue;
        box.x0 = std::min(box.x0, double(column));
        box.y0 = std::min(box.y0, double(row));
        box.x1 = std::max(box.x1, double(column + 1));
        box.y1 = std::max(box.y1, double(row + 1));
      }
    }
    box.area = (box.x1 - box.x0) * (box.y1 - box.y0);
    return box;
  }

 private:
  std::int64_t side_;
  std::vector<int> owners_;
};

Piece drawn_piece(const SceneOptions& options,
                  const std::vector<std::vector<std::int64_t>>& by_class, Random& random) {
  std::vector<std::int64_t> labels;
  for (std::size_t k = 0; k < by_class.size(); ++k) {
    if (!by_class[k].empty()) labels.push_back(std::int64_t(k));
  }
  Piece piece;
  piece.label = labels[std::size_t(random.below(std::int64_t(labels.size())))];
  const std::vector<std::int64_t>& images = by_class[std::size_t(piece.label)];
  piece.image = images[std::size_t(random.below(std::int64_t(images.size())))];
  piece.scale = between(random, options.least_scale, options.largest_scale);
  piece.turn = between(random, -options.turn, options.turn) * std::numbers::pi / 180;
  const double half = piece.scale * kSide / 2, side = double(options.canvas);
  piece.x = half < side / 2 ? between(random, half * 0.8, side - half * 0.8) : side / 2;
  piece.y = half < side / 2 ? between(random, half * 0.8, side - half * 0.8) : side / 2;
  for (double* colour : {&piece.red, &piece.green, &piece.blue}) {
    *colour = between(random, 0.55, 1);
  }
  return piece;
}

/// A bar or a patch of one colour, turned, half transparent.
void add_clutter(Pixels& pixels, Random& random) {
  const double side = double(pixels.width);
  const double x = between(random, 0, side), y = between(random, 0, side);
  const double angle = between(random, 0, std::numbers::pi);
  const double length = between(random, 0.05, 0.5) * side,
               width = between(random, 0.01, 0.12) * side;
  const double c = std::cos(angle), s = std::sin(angle);
  double colour[3];
  for (double& value : colour) value = between(random, 0, 200);
  for (std::int64_t row = 0; row < pixels.height; ++row) {
    for (std::int64_t column = 0; column < pixels.width; ++column) {
      const double dx = double(column) + 0.5 - x, dy = double(row) + 0.5 - y;
      if (std::abs(c * dx + s * dy) > length || std::abs(c * dy - s * dx) > width) continue;
      std::uint8_t* at = pixels.row(row) + 3 * column;
      for (int k = 0; k < 3; ++k) {
        at[k] = static_cast<std::uint8_t>(std::lround(0.5 * at[k] + 0.5 * colour[k]));
      }
    }
  }
}

Pixels background(const SceneOptions& options, Random& random) {
  Pixels pixels(options.canvas, options.canvas, 3);
  double corner[3][3];
  for (auto& colours : corner) {
    for (double& value : colours) value = between(random, 0, 110);
  }
  const double side = double(options.canvas);
  for (std::int64_t row = 0; row < options.canvas; ++row) {
    for (std::int64_t column = 0; column < options.canvas; ++column) {
      const double u = double(column) / side, v = double(row) / side;
      for (int k = 0; k < 3; ++k) {
        const double value = corner[0][k] + u * (corner[1][k] - corner[0][k]) +
                             v * (corner[2][k] - corner[0][k]) + 6 * random.normal();
        pixels.row(row)[3 * column + k] =
            static_cast<std::uint8_t>(std::lround(std::clamp(value, 0.0, 255.0)));
      }
    }
  }
  for (std::int64_t i = 0; i < options.clutter; ++i) add_clutter(pixels, random);
  return pixels;
}

}  // namespace

SceneLayout lay_out(const SceneOptions& options, const LabelledImages& images,
                    const std::vector<std::vector<std::int64_t>>& by_class, Random& random) {
  SceneLayout layout;
  Canvas canvas(options.canvas);
  std::vector<std::int64_t> covered;
  const std::int64_t wanted = 1 + random.below(options.most);
  for (int attempt = 0; attempt < kTries && std::int64_t(layout.pieces.size()) < wanted;
       ++attempt) {
    const Piece piece = drawn_piece(options, by_class, random);
    Canvas with = canvas;
    const int owner = static_cast<int>(layout.pieces.size());
    const std::int64_t pixels = with.cover(piece, images.image(piece.image), owner);
    bool all_seen = pixels > 0;
    for (int other = 0; other < owner; ++other) {
      const double least = options.least_seen * double(covered[std::size_t(other)]);
      all_seen = all_seen && double(with.seen(other)) >= least;
    }
    if (!all_seen) continue;
    canvas = std::move(with);
    covered.push_back(pixels);
    layout.pieces.push_back(piece);
  }
  for (std::size_t i = 0; i < layout.pieces.size(); ++i) {
    layout.boxes.push_back(canvas.box(static_cast<int>(i), layout.pieces[i].label));
  }
  return layout;
}

Pixels paint(const SceneOptions& options, const LabelledImages& images, const SceneLayout& layout,
             Random& random) {
  Pixels pixels = background(options, random);
  for (const Piece& piece : layout.pieces) {
    each_pixel(piece, images.image(piece.image), options.canvas,
               [&](std::int64_t column, std::int64_t row, double grey) {
                 std::uint8_t* at = pixels.row(row) + 3 * column;
                 at[0] = static_cast<std::uint8_t>(std::lround(grey * piece.red));
                 at[1] = static_cast<std::uint8_t>(std::lround(grey * piece.green));
                 at[2] = static_cast<std::uint8_t>(std::lround(grey * piece.blue));
               });
  }
  return pixels;
}

}  // namespace attnlab
