// Synthetic sets: outlines of flowers as points with edges, of uneven size. Enough to see a model
// of sets or graphs learn on a machine without data; never evidence about attention.
//
//   x_i = r(a_i) (cos a_i, sin a_i) + noise n_i,   r(a) = 1 + cos((k + 2) a) / 2,   k the class
//
// The angles a_i are drawn uniformly and sorted, n_i has variance 1 in each coordinate; an edge
// leads from each point to the next one, and from the last to the first. The number of points is
// uniform in [least, most]. Batches lay the points of their sets end to end.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "framework/data/made_up.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct SyntheticSetsOptions : MadeUpOptions {
  std::int64_t classes = 4, least = 8, most = 32;
  double noise = 0.05;

  constexpr SyntheticSetsOptions() { test = 200; }

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("classes", classes, range(2, 64), "kinds of flowers, of 2, 3, 4, ... petals");
    v("least", least, range(1, 65536), "points of the smallest set");
    v("most", most, range(1, 65536), "points of the largest set");
    v("noise", noise, range(0, 100), "standard deviation of the noise; a flower's radius is 1.5");
    MadeUpOptions::describe(v);
  }
};

class SyntheticSets final : public MadeUpDataset {
 public:
  SyntheticSets(const SyntheticSetsOptions& options, const DatasetSetup& setup)
      : MadeUpDataset("synthetic_sets", "outlines of flowers, made by rule", options,
                      OptionText::of(options), setup),
        options_(options) {
    if (options.least > options.most) {
      throw OptionError("least", fmt::format("{} is above most, {}", options.least, options.most));
    }
    info_.classes = options.classes;
    for (std::int64_t k = 0; k < options.classes; ++k) {
      info_.class_names.push_back(fmt::format("{} petals", k + 2));
    }
    info_.unit = "nodes";
    info_.unit_field = "node";
    info_.fields = {{"x@node", {-1, 2}, at::kFloat},
                    {"edges@edge>node", {-1, 2}, at::kLong},
                    {"class", {}, at::kLong, {}, options.classes}};
  }

  /// Points. Making a set to count them takes some microseconds.
  std::int64_t cost(Split split, std::int64_t index) const override {
    return example(split, index, nullptr).at("x@node").size(0);
  }

 protected:
  NamedTensors make(Split, Random& random) const override {
    const std::int64_t n = options_.least + random.below(options_.most - options_.least + 1);
    const std::int64_t label = random.below(options_.classes);
    std::vector<double> angles(static_cast<std::size_t>(n));
    for (double& angle : angles) angle = 2 * std::numbers::pi * random.uniform();
    std::sort(angles.begin(), angles.end());
    const Tensor x = at::empty({n, 2}), edges = at::empty({n, 2}, at::kLong);
    float* place = x.data_ptr<float>();
    auto* ends = edges.data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < n; ++i) {
      const double angle = angles[static_cast<std::size_t>(i)];
      const double radius = 1 + std::cos(double(label + 2) * angle) / 2;
      for (const double start : {std::cos(angle), std::sin(angle)}) {
        *place++ = static_cast<float>(radius * start + options_.noise * random.normal());
      }
      *ends++ = i;
      *ends++ = (i + 1) % n;
    }
    return {
        {"x@node", x}, {"edges@edge>node", edges}, {"class", at::scalar_tensor(label, at::kLong)}};
  }

 private:
  SyntheticSetsOptions options_;
};

}  // namespace

ATTNLAB_PLUGIN(dataset, SyntheticSets, SyntheticSetsOptions,
               {.id = "attnlab/synthetic_sets",
                .version = "1.0.0",
                .summary = "made-up outlines of flowers as sets of points with edges",
                .licence = "CC0-1.0",
                .gives = {"x@node", "edges@edge>node", "class"}})

}  // namespace attnlab
