#include "framework/data/points/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "framework/base/foreign_text.h"
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

/// The words of a text, line after line. "#" begins a comment.
class OffWords {
 public:
  explicit OffWords(WordReader text) : text_(std::move(text)) {}

  /// The next word of the same line; empty where it has no more.
  std::string_view next_in_line() { return take_word(line_); }
  bool line_ends() const {
    std::string_view rest = line_;
    return take_word(rest).empty();
  }
  /// The next word of this line or a later one; empty at the file's end.
  std::string_view next() {
    std::string_view word = next_in_line();
    while (word.empty() && !text_.at_end()) {
      line_ = text_.line();
      line_ = line_.substr(0, line_.find('#'));
      word = next_in_line();
    }
    return word;
  }
  std::size_t line_number() const { return text_.line_number(); }
  /// Lines with words from here on.
  std::int64_t count_lines() const {
    std::int64_t lines = 0;
    for (OffWords rest = *this; !rest.next().empty(); rest.line_ = {}) ++lines;
    return lines;
  }

  double number(std::string_view word) const {
    double value = 0;
    if (word.empty()) fail("the file ends before all that its header speaks of; it is cut off");
    if (!read_number(word, value)) {
      fail(fmt::format("{} is not a number; repair the line", excerpt(word)));
    }
    return value;
  }
  [[noreturn]] void fail(const std::string& what) const { text_.fail(what); }

 private:
  WordReader text_;
  std::string_view line_;  ///< what is left of it
};

struct OffHeader {
  std::int64_t corners = 0, faces = 0;
  std::size_t numbers = 3;  ///< of a corner: its place, its normal, its place in a texture
  bool coloured = false;    ///< then three or four more
};

/// What stands before "OFF" says what a corner has beside its place; all of it is passed over.
void read_off_kind(std::string_view kind, OffHeader& header, const OffWords& words) {
  for (std::string_view rest = kind; !rest.empty();) {
    if (rest.front() == '4' || rest.front() == 'n') {
      words.fail(fmt::format("{} has corners of other coordinates than x, y, z; save it as OFF",
                             excerpt(std::string(kind) + "OFF")));
    }
    const bool texture = rest.starts_with("ST");
    if (!texture && rest.front() != 'N' && rest.front() != 'C') {
      words.fail("does not begin with 'OFF'; is it another format?");
    }
    header.numbers += texture ? 2 : rest.front() == 'N' ? 3 : 0;
    header.coloured = header.coloured || rest.front() == 'C';
    rest.remove_prefix(texture ? 2 : 1);
  }
}

/// @param most  of corners, and of faces: each takes bytes, and nothing is made room for that the
///              file does not hold
OffHeader read_off_header(OffWords& words, std::size_t most) {
  OffHeader header;
  std::string_view word = words.next();
  const std::size_t kind = word.find("OFF");
  if (kind == std::string_view::npos) {
    words.fail("does not begin with 'OFF'; is it another format?");
  }
  read_off_kind(word.substr(0, kind), header, words);
  word.remove_prefix(kind + 3);
  if (word.empty()) word = words.next();
  if (word == "BINARY") words.fail("OFF BINARY is not read; save it as text");
  const std::size_t line = words.line_number();
  const auto size = [&](std::string_view found, std::int64_t& count) {
    if (read_whole(found, static_cast<double>(most), count)) return;
    words.fail(fmt::format("expected how many corners and faces there are, found {}; correct it",
                           excerpt(found)));
  };
  size(word, header.corners);
  size(words.next(), header.faces);
  // How many edges there are says nothing, and some files leave it out.
  if (words.line_number() != line || !words.line_ends()) words.number(words.next());
  return header;
}

/// How corners and faces may lie in a file. Most often each has a line, and what follows on it is a
/// colour, declared or not. Where several share a line, or one goes over several, words count.
struct OffLayout {
  std::size_t corner = 0;  ///< words of one; 0: a line
  bool face_ends_line = true;
};

class OffBody {
 public:
  OffBody(const OffHeader& header, const OffLayout& layout, OffWords words)
      : header_(header), layout_(layout), words_(std::move(words)) {}

  /// @throws DataError with the line.
  Mesh read() {
    Mesh mesh{at::empty({header_.corners, 3}, at::kDouble), Tensor()};
    for (; read_ < header_.corners; ++read_) {
      read_corner(mesh.corners.data_ptr<double>() + 3 * read_);
    }
    for (; read_ < header_.corners + header_.faces; ++read_) read_face();
    if (!words_.next().empty()) {
      words_.fail(
          fmt::format("goes on after the {} corners and {} faces that its header speaks of; "
                      "correct the header, or remove the rest",
                      header_.corners, header_.faces));
    }
    mesh.triangles = at::tensor(triangles_, at::kLong).view({-1, 3});
    return mesh;
  }
  /// How many corners and faces were read before an error.
  std::int64_t count_read() const { return read_; }

 private:
  void read_corner(double* place) {
    const auto take = [&](std::size_t index, std::string_view word) {
      const double value = words_.number(word);
      if (index < 3) place[index] = value;
    };
    std::size_t count = 0;
    for (; count < layout_.corner; ++count) take(count, words_.next());
    if (count > 0) return;
    for (std::string_view word = words_.next(); count == 0 || !word.empty();
         word = words_.next_in_line()) {
      take(count++, word);
    }
    const std::size_t more = count - std::min(count, header_.numbers);
    if (count >= header_.numbers && (!header_.coloured || more == 3 || more == 4)) return;
    words_.fail(fmt::format("a corner has {} numbers{}, here are {}; repair the line",
                            header_.numbers, header_.coloured ? " and a colour of 3 or 4" : "",
                            count));
  }

  void read_face() {
    std::int64_t count = 0, first = 0, before = 0, corner = 0;
    const std::string_view size = words_.next();
    if (!read_whole(size, 1e12, count) || count < 3) {
      words_.number(size);
      words_.fail(fmt::format("a face begins with how many corners it has, three at least, not {}",
                              one_line(size, 20)));
    }
    for (std::int64_t c = 0; c < count; ++c) {
      const std::string_view word = words_.next();
      if (!read_whole(word, static_cast<double>(header_.corners) - 1, corner)) {
        words_.number(word);
        words_.fail(fmt::format("the face has a corner {}, of {} that there are",
                                one_line(word, 20), header_.corners));
      }
      if (c >= 2) triangles_.insert(triangles_.end(), {first, before, corner});
      if (c == 0) first = corner;
      before = corner;
    }
    if (!layout_.face_ends_line) return;
    for (std::string_view word; !(word = words_.next_in_line()).empty();) words_.number(word);
  }

  OffHeader header_;
  OffLayout layout_;
  OffWords words_;
  std::int64_t read_ = 0;
  std::vector<std::int64_t> triangles_;
};

}  // namespace

Mesh parse_off(std::string_view bytes, const std::string& path) {
  OffWords words{WordReader(bytes, path)};
  const OffHeader header = read_off_header(words, bytes.size());
  std::vector<std::size_t> corners = {0, header.numbers};
  if (header.coloured) corners = {0, header.numbers + 4, header.numbers + 3};
  std::vector<OffLayout> layouts;
  for (const std::size_t corner : corners) {
    layouts.insert(layouts.end(), {{corner, true}, {corner, false}});
  }
  // A layout is right if it accounts for the whole file. Of errors that of a line for each corner
  // and face says most where there are as many lines, else that of the layout that came farthest.
  std::string of_lines, of_farthest;
  std::int64_t farthest = -1;
  for (const OffLayout& layout : layouts) {
    OffBody body(header, layout, words);
    try {
      return body.read();
    } catch (const DataError& error) {
      if (of_lines.empty()) of_lines = error.what();
      if (body.count_read() <= farthest) continue;
      farthest = body.count_read();
      of_farthest = error.what();
    }
  }
  throw DataError(words.count_lines() == header.corners + header.faces ? of_lines : of_farthest);
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
