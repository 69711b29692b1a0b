// Synthetic series: sines of a class's frequency under noise, of unequal length. Enough to see a
// classifier of time series learn on a machine without data; never evidence about attention.
//
//   x[t, c] = sin(2 pi (k + 1) t / 16 + phase + c) + noise n,   k the class, n with variance 1
//
// Phase and length are drawn for each series, the length uniformly in [length / 2, length]. An
// example is a function of the seed, its split and its index, made when it is asked for.
#include <cmath>
#include <numbers>

#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/data/series/series.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct SyntheticSeriesOptions {
  std::int64_t classes = 4;
  std::int64_t channels = 3;
  std::int64_t length = 32;
  std::int64_t train = 256;
  std::int64_t validation = 64;
  std::int64_t test = 128;
  double noise = 0.5;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("classes", classes, range(1, 7), "frequencies of the sine");
    v("channels", channels, range(1, 4096), "channels, each shifted by one radian");
    v("length", length, range(4, 1000000), "time steps of the longest series");
    v("train", train, range(1, 1e9), "training series");
    v("validation", validation, range(0, 1e9), "validation series");
    v("test", test, range(0, 1e9), "test series");
    v("noise", noise, range(0, 100), "standard deviation of the noise; the sine's is 0.7");
  }
};

class SyntheticSeries final : public Dataset {
 public:
  SyntheticSeries(const SyntheticSeriesOptions& options, const DatasetSetup& setup)
      : options_(options), streams_(setup.streams) {
    info_.name = "synthetic_series";
    info_.classes = options.classes;
    info_.source = "sines under noise, made by rule";
    info_.fields = {{"series", {-1, options.channels}, at::kFloat},
                    {"length", {}, at::kLong},
                    {"valid", {-1}, at::kBool},
                    {"class", {}, at::kLong}};
    std::uint64_t hash = streams_.key("synthetic");
    for (const double value : {double(options.classes), double(options.channels),
                               double(options.length), options.noise}) {
      hash = fingerprint(shortest(value) + ";", hash);
    }
    info_.fingerprint = hex(hash);
    for (std::int64_t k = 0; k < options.classes; ++k) {
      info_.class_names.push_back("period " + shortest(16.0 / double(k + 1)));
    }
  }

  const DatasetInfo& info() const override { return info_; }

  std::int64_t size(Split split) const override {
    return split == Split::train        ? options_.train
           : split == Split::validation ? options_.validation
                                        : options_.test;
  }

  NamedTensors make_example(Split split, std::int64_t index, Random*) const override {
    Random random = streams_.stream("synthetic", std::uint64_t(split), std::uint64_t(index));
    const std::int64_t label = index % options_.classes;
    const std::int64_t half = options_.length / 2;
    const std::int64_t length = half + random.below(options_.length - half + 1);
    const double phase = 2 * std::numbers::pi * random.uniform();
    const Tensor series = at::empty({length, options_.channels});
    float* out = series.data_ptr<float>();
    for (std::int64_t t = 0; t < length; ++t) {
      const double angle = 2 * std::numbers::pi * double((label + 1) * t) / 16 + phase;
      for (std::int64_t c = 0; c < options_.channels; ++c) {
        *out++ = float(std::sin(angle + double(c)) + options_.noise * random.normal());
      }
    }
    return {{"series", series},
            {"length", at::scalar_tensor(length, at::kLong)},
            {"valid", at::ones({length}, at::kBool)},
            {"class", at::scalar_tensor(label, at::kLong)}};
  }

  Batch collate(const std::vector<NamedTensors>& examples) const override {
    return collate_series(examples, 0);
  }

 private:
  SyntheticSeriesOptions options_;
  RandomStreams streams_;
  DatasetInfo info_;
};

}  // namespace

ATTNLAB_PLUGIN(dataset, SyntheticSeries, SyntheticSeriesOptions,
               {.id = "attnlab/synthetic_series",
                .version = "1.0.0",
                .summary = "made-up sines of unequal length, for machines without data",
                .citation = "",
                .licence = "CC0-1.0",
                .gives = {"series", "length", "valid", "class"}})

}  // namespace attnlab
