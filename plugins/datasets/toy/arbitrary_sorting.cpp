// Arbitrary sorting: place letters by an order that another sequence gives.
//
//   condition  a permutation of the alphabet, one of `orderings` that training and test share
//   content    letters, drawn uniformly with replacement
//   targets    of each letter its rank among the content under that order, from 0 on
//
// Equal letters rank in their order of appearance (stable), or share the rank of the first. Where
// the content is longer than the alphabet, the condition is padded with a token of its own.
// Source: Indirect Attention, section 6.1: ten letters, a pool of five orders, 1,000 and 200
// examples. Whether the pool is shared and how ties rank is not said.
#include <fmt/format.h>

#include "framework/data/made_up.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct ArbitrarySortingOptions : MadeUpOptions {
  std::int64_t letters = 10, length = 10, orderings = 5;
  std::string ties = "stable";

  constexpr ArbitrarySortingOptions() { test = 200; }

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("letters", letters, range(2, 4096), "letters of the alphabet");
    v("length", length, range(2, 4096), "letters to sort; not fewer than the alphabet has");
    v("orderings", orderings, range(0, 1e6),
      "number of orders to draw from; 0: a new order for each example");
    v("ties", ties, one_of("stable", "shared"),
      "ranks of equal letters: in order of appearance, or all equal to the first one's");
    MadeUpOptions::describe(v);
  }
};

class ArbitrarySorting final : public MadeUpDataset {
 public:
  ArbitrarySorting(const ArbitrarySortingOptions& options, const DatasetSetup& setup)
      : MadeUpDataset("arbitrary_sorting", "letters and an order to rank them by, made by rule",
                      options, OptionText::of(options), setup),
        options_(options) {
    if (options.length < options.letters) {
      throw OptionError("length", fmt::format("{} is less than the {} letters of the order beside "
                                              "it; make it longer, or set fewer letters",
                                              options.length, options.letters));
    }
    info_.classes = options.length;
    info_.vocabulary = options.letters + (options.length > options.letters ? 1 : 0);
    info_.fields = {{"condition", {options.length}, at::kLong},
                    {"condition_valid", {options.length}, at::kBool},
                    {"content", {options.length}, at::kLong},
                    {"targets", {options.length}, at::kLong}};
    Random random = shared_stream();
    pool_.reserve(static_cast<std::size_t>(options.orderings));
    for (std::int64_t i = 0; i < options.orderings; ++i) {
      pool_.push_back(permutation(options.letters, Random(random())));
    }
  }

 protected:
  NamedTensors make(Split, Random& random) const override {
    const std::vector<std::int64_t> order =
        pool_.empty() ? permutation(options_.letters, Random(random()))
                      : pool_[static_cast<std::size_t>(random.below(options_.orderings))];
    std::vector<std::int64_t> content(static_cast<std::size_t>(options_.length));
    for (std::int64_t& letter : content) letter = random.below(options_.letters);
    std::vector<std::int64_t> condition = order;
    condition.resize(content.size(), options_.letters);
    return {{"condition", at::tensor(condition, at::kLong)},
            {"condition_valid", at::arange(options_.length) < options_.letters},
            {"content", at::tensor(content, at::kLong)},
            {"targets", at::tensor(ranks(content, order), at::kLong)}};
  }

 private:
  std::vector<std::int64_t> ranks(const std::vector<std::int64_t>& content,
                                  const std::vector<std::int64_t>& order) const {
    std::vector<std::size_t> place(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) place[static_cast<std::size_t>(order[i])] = i;
    const bool stable = options_.ties == "stable";
    std::vector<std::int64_t> out(content.size(), 0);
    for (std::size_t i = 0; i < content.size(); ++i) {
      for (std::size_t j = 0; j < content.size(); ++j) {
        const std::size_t mine = place[static_cast<std::size_t>(content[i])];
        const std::size_t other = place[static_cast<std::size_t>(content[j])];
        out[i] += other < mine || (stable && other == mine && j < i) ? 1 : 0;
      }
    }
    return out;
  }

  ArbitrarySortingOptions options_;
  std::vector<std::vector<std::int64_t>> pool_;  ///< letters, first to last
};

}  // namespace

ATTNLAB_PLUGIN(dataset, ArbitrarySorting, ArbitrarySortingOptions,
               {.id = "attnlab/arbitrary_sorting",
                .version = "1.0.0",
                .summary = "rank letters by an order that another sequence gives",
                .citation = "Bahaduri et al., Indirect Attention: Turning Context Misalignment "
                            "into a Feature, section 6.1",
                .licence = "CC0-1.0",
                .gives = {"condition", "condition_valid", "content", "targets"}})

}  // namespace attnlab
