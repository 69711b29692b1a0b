#include "plugins/datasets/images/oxford_paris/ground_truth.h"

#include <fmt/format.h>

#include <cmath>

#include "framework/base/error.h"
#include "framework/base/foreign_text.h"
#include "framework/data/formats/pickle.h"

namespace attnlab {
namespace {

using ValueKind = PickleValue::Kind;

std::vector<std::string> names_in(const PickleValue& list) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < list.length(); ++i) names.push_back(list.item(i).text());
  return names;
}

/// Numbers of a list, a tuple or an array.
std::vector<double> reals_in(const PickleValue& list) {
  std::vector<double> numbers;
  if (list.kind() == ValueKind::tensor) {
    const Tensor values = list.tensor().to(at::kDouble).contiguous();
    const auto* begin = values.data_ptr<double>();
    return {begin, begin + values.numel()};
  }
  for (std::int64_t i = 0; i < list.length(); ++i) numbers.push_back(list.item(i).number());
  return numbers;
}

class QueryReader {
 public:
  QueryReader(const PickleValue& truth, std::string place, std::int64_t pictures)
      : truth_(truth), place_(std::move(place)), pictures_(pictures) {}

  std::array<double, 4> box() const {
    const std::vector<double> sides = reals_in(truth_.entry("bbx"));
    std::array<double, 4> box{};
    bool sound = sides.size() == box.size();
    for (std::size_t i = 0; sound && i < box.size(); ++i) {
      box[i] = sides[i];
      sound = std::isfinite(sides[i]) && std::abs(sides[i]) < 1e6;
    }
    if (sound && box[0] < box[2] && box[1] < box[3]) return box;
    throw DataError(place_ +
                    ": 'bbx' is not a box of left, top, right, bottom; fetch the file again");
  }

  std::vector<std::int64_t> pictures(const char* key) const {
    std::vector<std::int64_t> numbers;
    for (const double number : reals_in(truth_.entry(key))) {
      if (!(number >= 0 && number < static_cast<double>(pictures_)) ||
          number != std::floor(number)) {
        throw DataError(
            fmt::format("{}: '{}' names picture {}, and imlist has {}; fetch the file again",
                        place_, key, number, pictures_));
      }
      numbers.push_back(static_cast<std::int64_t>(number));
    }
    return numbers;
  }

 private:
  const PickleValue& truth_;
  std::string place_;
  std::int64_t pictures_;
};

}  // namespace

GroundTruth read_ground_truth(std::string_view bytes, const std::string& path) {
  const Pickle pickle(bytes, path);
  const PickleValue& root = pickle.root();
  GroundTruth out;
  out.database = names_in(root.entry("imlist"));
  const std::vector<std::string> queries = names_in(root.entry("qimlist"));
  const PickleValue& truth = root.entry("gnd");
  if (out.database.empty() || queries.empty() || truth.length() != std::ssize(queries)) {
    throw DataError(fmt::format(
        "{}: has {} pictures in imlist, {} in qimlist and {} queries in gnd; expected some of "
        "each, and as many queries as in qimlist; fetch the file again",
        path, out.database.size(), queries.size(), truth.length()));
  }
  for (std::size_t i = 0; i < queries.size(); ++i) {
    const QueryReader reader(truth.item(static_cast<std::int64_t>(i)),
                             fmt::format("{}: query {} {}", path, i, excerpt(queries[i])),
                             std::ssize(out.database));
    out.queries.push_back({queries[i], reader.box(), reader.pictures("easy"),
                           reader.pictures("hard"), reader.pictures("junk")});
  }
  return out;
}

}  // namespace attnlab
