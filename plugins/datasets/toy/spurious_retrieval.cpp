// Spurious retrieval: QUEST's toy task. One of N tokens is not like the others; name its class.
//
//   token i  = [x_i^k; x_i^v],   x_i^v one-hot, uniform over the classes
//   x_i^k    ~ N(0, I)                     where i is not the answer's place L
//   x_L^k    ~ N(0, S Sᵀ)                  unbiased answer (u = 0)
//   x_L^k    ~ N(b, bias_variance I)       biased answer (u = 1, with probability train_biased)
//   L        = round(N(location_mean, location_deviation²)), moved into [0, N - 1]
//   class    = that of x_L^v
//
// S has entries of N(0, 1), b ~ N(0, S Sᵀ); both are drawn once and shared by all splits. The
// vector b and the place L are spurious: easy, and enough for part of the samples only.
// Source: QUEST, ICLR 2026, section 2.2 and appendix A.3. It leaves open N, the sizes, how places
// are rounded, and how test samples are drawn. Here a test sample's answer is never biased, because
// else reading b alone would beat the 20 to 40 % that the paper reports of biased models.
#include <cmath>

#include "framework/data/made_up.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct SpuriousRetrievalOptions : MadeUpOptions {
  std::int64_t tokens = 20, key_dim = 10, classes = 10;
  double location_mean = 10, location_deviation = 2;
  std::string location_rounding = "nearest", test_location = "as_training";
  double train_biased = 0.5, test_biased = 0, bias_variance = 0.1;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("tokens", tokens, range(1, 65536), "tokens of a sample (N)");
    v("key_dim", key_dim, range(1, 4096), "real-valued channels of a token");
    v("classes", classes, range(2, 4096), "classes; as many one-hot channels follow");
    v("location_mean", location_mean, range(-1e6, 1e6),
      "mean of the answer's place, counted from 0");
    v("location_deviation", location_deviation, range(0, 1e6),
      "standard deviation of the answer's place");
    v("location_rounding", location_rounding, one_of("nearest", "truncate"),
      "how the place becomes an integer, before it is moved into the sequence");
    v("test_location", test_location, one_of("as_training", "uniform"),
      "positions of the answers in test samples");
    v("train_biased", train_biased, range(0, 1),
      "probability that a training or validation answer is biased");
    v("test_biased", test_biased, range(0, 1), "probability that a test answer is biased");
    v("bias_variance", bias_variance, range(0, 1e6), "variance of biased answers about b");
    MadeUpOptions::describe(v);
  }
};

/// What a token is, in the field `kind`.
enum TokenKind : std::int64_t { kOther = 0, kUnbiasedAnswer = 1, kBiasedAnswer = 2 };

class SpuriousRetrieval final : public MadeUpDataset {
 public:
  SpuriousRetrieval(const SpuriousRetrievalOptions& options, const DatasetSetup& setup)
      : MadeUpDataset("spurious_retrieval", "one odd token among normal ones, made by rule",
                      options, OptionText::of(options), setup),
        options_(options) {
    const std::int64_t channels = options.key_dim + options.classes;
    info_.classes = options.classes;
    info_.fields = {
        {"series", {options.tokens, channels}, at::kFloat},
        {"length", {}, at::kLong},
        {"class", {}, at::kLong},
        {"location", {}, at::kLong},
        {"kind", {options.tokens}, at::kLong, {"other", "unbiased_answer", "biased_answer"}}};
    Random random = shared_stream();
    spread_.resize(static_cast<std::size_t>(options.key_dim * options.key_dim));
    for (double& entry : spread_) entry = random.normal();
    bias_ = spread(normals(random));
  }

 protected:
  NamedTensors make(Split split, Random& random) const override {
    const bool test = split == Split::test;
    const std::int64_t place = location(test, random);
    const bool biased = random.uniform() < (test ? options_.test_biased : options_.train_biased);
    const Tensor series = at::zeros({options_.tokens, options_.key_dim + options_.classes});
    const Tensor kind = at::full({options_.tokens}, kOther, at::kLong);
    kind.data_ptr<std::int64_t>()[place] = biased ? kBiasedAnswer : kUnbiasedAnswer;
    float* out = series.data_ptr<float>();
    std::int64_t label = 0;
    for (std::int64_t i = 0; i < options_.tokens; ++i) {
      std::vector<double> key = normals(random);
      if (i == place) key = biased ? near_bias(key) : spread(key);
      for (const double value : key) *out++ = static_cast<float>(value);
      const std::int64_t value = random.below(options_.classes);
      if (i == place) label = value;
      out[value] = 1;
      out += options_.classes;
    }
    return {{"series", series},
            {"length", at::scalar_tensor(options_.tokens, at::kLong)},
            {"class", at::scalar_tensor(label, at::kLong)},
            {"location", at::scalar_tensor(place, at::kLong)},
            {"kind", kind}};
  }

 private:
  std::int64_t location(bool test, Random& random) const {
    if (test && options_.test_location == "uniform") return random.below(options_.tokens);
    const double drawn = options_.location_mean + options_.location_deviation * random.normal();
    const double whole =
        options_.location_rounding == "nearest" ? std::floor(drawn + 0.5) : std::trunc(drawn);
    const double last = static_cast<double>(options_.tokens - 1);
    return static_cast<std::int64_t>(std::min(std::max(whole, 0.0), last));
  }

  std::vector<double> normals(Random& random) const {
    std::vector<double> values(static_cast<std::size_t>(options_.key_dim));
    for (double& value : values) value = random.normal();
    return values;
  }

  /// S z: of z ~ N(0, I) it makes a draw from N(0, S Sᵀ).
  std::vector<double> spread(const std::vector<double>& z) const {
    std::vector<double> out(z.size(), 0.0);
    for (std::size_t r = 0; r < z.size(); ++r) {
      for (std::size_t c = 0; c < z.size(); ++c) out[r] += spread_[r * z.size() + c] * z[c];
    }
    return out;
  }

  std::vector<double> near_bias(const std::vector<double>& z) const {
    std::vector<double> out = bias_;
    const double deviation = std::sqrt(options_.bias_variance);
    for (std::size_t c = 0; c < z.size(); ++c) out[c] += deviation * z[c];
    return out;
  }

  SpuriousRetrievalOptions options_;
  std::vector<double> spread_;  ///< S, row by row
  std::vector<double> bias_;    ///< b
};

}  // namespace

ATTNLAB_PLUGIN(dataset, SpuriousRetrieval, SpuriousRetrievalOptions,
               {.id = "attnlab/spurious_retrieval",
                .version = "1.0.0",
                .summary = "QUEST's toy task: find the odd token, beside easier spurious cues",
                .citation = "QUEST: query-modulated spherical attention, ICLR 2026, section 2.2",
                .licence = "CC0-1.0",
                .gives = {"series", "length", "class", "location", "kind"}})

}  // namespace attnlab
