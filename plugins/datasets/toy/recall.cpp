// Recall: sequences of tokens whose answers follow from earlier tokens, by one of five published
// rules. `targets` are -1 where nothing is asked; S is `symbols`, n is `length`.
//
//   associative   k1 v1 ... km vm, then each key once more among blanks: there its value is asked.
//                 Keys and values are drawn without replacement; a query stands 2 g tokens behind
//                 the pairs, g drawn without replacement with p(g) ~ (g + 1)^(power - 1).
//   copy          m symbols at places drawn uniformly among n - m, blanks between them; then m
//                 marks, at which the symbols are asked in their order.
//   flip_flop     instruction bit instruction bit ...: w (write), r (read) or i (ignore). At r the
//                 bit of the last w is asked, which follows; other bits are uniform. The first
//                 instruction is w, the last r, others i with probability `ignore`, else w or r.
//   permutations  x_1 ... x_n, uniform among the permutations of so many `elements`, numbered in
//                 lexicographic order. At each token s_t = s_(t-1) o x_t is asked, s_0 = identity:
//                 place i of s_t holds what place x_t(i) of s_(t-1) held. Of two elements: parity.
//   needle        m pairs k v at places drawn uniformly in filler; the last token is one of the
//                 keys, whose value is asked. Keys differ, values need not.
//
//   tokens        associative  keys 0 .. S - 1, values S .. 2S - 1, blank 2S
//                 copy         symbols 0 .. S - 1, blank S, mark S + 1
//                 flip_flop    bits 0 and 1, w 2, r 3, i 4
//                 needle       keys 0 .. S - 1, values S .. 2S - 1, filler 2S .. 3S - 1
//
// The tokens are the same for every length, so that a model can be asked at lengths that it was not
// trained at.
// Source: Arora et al., Zoology, arXiv 2312.04927 (associative; the layout and power of its public
// code, with blanks as for its figure 2); Gu and Dao, Mamba, arXiv 2312.00752 (copy; marks as in
// S4's public code); Liu et al., Exposing attention glitches with flip-flop language modeling,
// arXiv 2306.00946; Merrill et al., The illusion of state in state-space models, arXiv 2404.08819
// (permutations). The needle is ours, after the usual test of long contexts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "framework/data/made_up.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct RecallOptions : MadeUpOptions {
  std::string rule = "associative";
  std::int64_t length = 64, items = 8, symbols = 64, elements = 5;
  double power = 0.01, ignore = 0.8;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("rule", rule, one_of("associative", "copy", "flip_flop", "permutations", "needle"),
      "what is asked: a key's value; symbols in their order; the bit written last; the product of "
      "all permutations; the value of one key in filler");
    v("length", length, range(1, 1 << 20), "tokens per example");
    v("items", items, range(1, 65536),
      "for associative and needle: key-value pairs; for copy: symbols to copy");
    v("symbols", symbols, range(2, 65536),
      "for associative and needle: number of keys, also of values and of filler symbols; for copy: "
      "of symbols");
    v("power", power, range(0, 1),
      "for associative: exponent of the power law of queries' distances; 1: uniform");
    v("ignore", ignore, range(0, 1),
      "for flip_flop: probability of an instruction to ignore; reads and writes share the rest");
    v("elements", elements, range(2, 6),
      "for permutations: number of elements; 2: parity, 5: the word problem of S5");
    MadeUpOptions::describe(v);
  }
};

using Tokens = std::vector<std::int64_t>;

constexpr std::int64_t kNotAsked = -1;

/// Nothing is asked of its tokens yet, and all are the same.
struct Sequence {
  Tokens tokens, targets;
  Sequence(std::int64_t length, std::int64_t token)
      : tokens(static_cast<std::size_t>(length), token), targets(tokens.size(), kNotAsked) {}
};

/// How sequences are made, what they hold and how short they may be.
struct Recall {
  std::function<Sequence(Random&)> sequence;
  std::int64_t vocabulary, shortest;
};

/// `count` different numbers below n, in random order.
Tokens different(std::int64_t count, std::int64_t n, Random& random) {
  Tokens order = permutation(n, Random(random()));
  order.resize(static_cast<std::size_t>(count));
  return order;
}

Tokens different_in_order(std::int64_t count, std::int64_t n, Random& random) {
  Tokens numbers = different(count, n, random);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

/// An index drawn with these weights, whose own becomes 0.
std::size_t taken(std::vector<double>& weights, Random& random) {
  double left = random.uniform() * std::accumulate(weights.begin(), weights.end(), 0.0);
  std::size_t index = 0;
  for (std::size_t i = 0; i < weights.size() && left >= 0; ++i) {
    if (weights[i] == 0) continue;
    index = i;
    left -= weights[i];
  }
  weights[index] = 0;
  return index;
}

Sequence associative(const RecallOptions& o, Random& random) {
  Sequence out(o.length, 2 * o.symbols);
  const Tokens keys = different(o.items, o.symbols, random);
  const Tokens values = different(o.items, o.symbols, random);
  const std::size_t pairs = keys.size() * 2;
  std::vector<double> weights((out.tokens.size() - pairs) / 2);
  for (std::size_t gap = 0; gap < weights.size(); ++gap) {
    weights[gap] = std::pow(static_cast<double>(gap + 1), o.power - 1);
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::size_t query = pairs + 2 * taken(weights, random);
    out.tokens[2 * i] = out.tokens[query] = keys[i];
    out.tokens[2 * i + 1] = out.targets[query] = o.symbols + values[i];
  }
  return out;
}

Sequence copied(const RecallOptions& o, Random& random) {
  Sequence out(o.length, o.symbols);
  const std::int64_t marks = o.length - o.items;
  auto mark = static_cast<std::size_t>(marks);
  for (const std::int64_t place : different_in_order(o.items, marks, random)) {
    const std::int64_t symbol = random.below(o.symbols);
    out.tokens[static_cast<std::size_t>(place)] = out.targets[mark] = symbol;
    out.tokens[mark++] = o.symbols + 1;
  }
  return out;
}

Sequence flip_flop(const RecallOptions& o, Random& random) {
  enum Instruction : std::int64_t { kWrite = 2, kRead = 3, kIgnore = 4 };
  Sequence out(o.length, kIgnore);
  std::int64_t written = 0;
  for (std::size_t t = 0; t < out.tokens.size(); t += 2) {
    const double drawn = random.uniform();
    Instruction instruction = kIgnore;
    if (drawn >= o.ignore) instruction = drawn < (1 + o.ignore) / 2 ? kWrite : kRead;
    if (t == 0) instruction = kWrite;
    if (t + 2 == out.tokens.size()) instruction = kRead;
    const std::int64_t bit = instruction == kRead ? written : random.below(2);
    if (instruction == kWrite) written = bit;
    if (instruction == kRead) out.targets[t] = bit;
    out.tokens[t] = instruction;
    out.tokens[t + 1] = bit;
  }
  return out;
}

/// All permutations of 0 .. n - 1 in lexicographic order.
std::vector<Tokens> permutations_of(std::int64_t n) {
  Tokens next(static_cast<std::size_t>(n));
  std::iota(next.begin(), next.end(), 0);
  std::vector<Tokens> all;
  do {
    all.push_back(next);
  } while (std::next_permutation(next.begin(), next.end()));
  return all;
}

Sequence products(const RecallOptions& o, const std::vector<Tokens>& all, Random& random) {
  Sequence out(o.length, 0);
  Tokens state = all.front(), next = state;
  for (std::size_t t = 0; t < out.tokens.size(); ++t) {
    out.tokens[t] = random.below(std::ssize(all));
    const Tokens& move = all[static_cast<std::size_t>(out.tokens[t])];
    for (std::size_t i = 0; i < move.size(); ++i) {
      next[i] = state[static_cast<std::size_t>(move[i])];
    }
    std::swap(state, next);
    out.targets[t] = std::lower_bound(all.begin(), all.end(), state) - all.begin();
  }
  return out;
}

Sequence needle(const RecallOptions& o, Random& random) {
  Sequence out(o.length, 0);
  for (std::int64_t& token : out.tokens) token = 2 * o.symbols + random.below(o.symbols);
  // Before the last token: filler and pairs, of which a pair is one piece.
  const Tokens pieces = different_in_order(o.items, o.length - 1 - o.items, random);
  const Tokens keys = different(o.items, o.symbols, random);
  const auto asked = static_cast<std::size_t>(random.below(o.items));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::size_t place = static_cast<std::size_t>(pieces[i]) + i;  // i pairs stand before it
    out.tokens[place] = keys[i];
    out.tokens[place + 1] = o.symbols + random.below(o.symbols);
    if (i == asked) out.targets.back() = out.tokens[place + 1];
  }
  out.tokens.back() = keys[asked];
  return out;
}

Recall recall_by(const RecallOptions& o) {
  const auto by = [&](Sequence (*sequence)(const RecallOptions&, Random&)) {
    return [o, sequence](Random& random) { return sequence(o, random); };
  };
  if (o.rule == "copy") return {by(copied), o.symbols + 2, 2 * o.items};
  if (o.rule == "flip_flop") return {by(flip_flop), 5, 4};
  if (o.rule == "needle") return {by(needle), 3 * o.symbols, 2 * o.items + 1};
  if (o.rule == "associative") return {by(associative), 2 * o.symbols + 1, 4 * o.items};
  std::vector<Tokens> all = permutations_of(o.elements);
  const std::int64_t count = std::ssize(all);
  return {[o, all = std::move(all)](Random& random) { return products(o, all, random); }, count, 1};
}

class RecallData final : public MadeUpDataset {
 public:
  RecallData(const RecallOptions& options, const DatasetSetup& setup)
      : MadeUpDataset("recall", "tokens whose answers stand before them, made by rule", options,
                      OptionText::of(options), setup),
        options_(options),
        recall_(recall_by(options)) {
    check();
    info_.vocabulary = recall_.vocabulary;
    for (const char* field : {"tokens", "targets"}) {
      info_.fields.push_back({.name = field,
                              .shape = {options.length},
                              .dtype = at::kLong,
                              .categories = recall_.vocabulary});
    }
    info_.unit = info_.unit_field = "tokens";
  }

  /// Tokens.
  std::int64_t cost(Split, std::int64_t) const override { return options_.length; }

 protected:
  NamedTensors make(Split, Random& random) const override {
    const Sequence made = recall_.sequence(random);
    return {{"tokens", at::tensor(made.tokens, at::kLong)},
            {"targets", at::tensor(made.targets, at::kLong)}};
  }

 private:
  void check() const {
    const RecallOptions& o = options_;
    const bool has_keys = o.rule == "associative" || o.rule == "needle";
    if (has_keys && o.items > o.symbols) {
      throw OptionError("symbols",
                        fmt::format("{} are too few for {} items, whose keys differ; set "
                                    "more symbols, or fewer items",
                                    o.symbols, o.items));
    }
    if (o.length < recall_.shortest) {
      const bool has_items = has_keys || o.rule == "copy";
      throw OptionError(
          "length",
          fmt::format("{} is too short: {}{} takes {} tokens at least; make it longer{}", o.length,
                      o.rule, has_items ? fmt::format(" of {} items", o.items) : "",
                      recall_.shortest, has_items ? ", or set fewer items" : ""));
    }
    if (o.rule == "flip_flop" && o.length % 2 != 0) {
      throw OptionError("length", fmt::format("{} is odd, and flip_flop has a bit behind each "
                                              "instruction; make it even",
                                              o.length));
    }
  }

  RecallOptions options_;
  Recall recall_;
};

}  // namespace

ATTNLAB_PLUGIN(dataset, RecallData, RecallOptions,
               {.id = "attnlab/recall",
                .version = "1.0.0",
                .summary = "tokens to recall: pairs, copies, flip-flops, permutations, a needle",
                .citation = "Arora et al., Zoology, arXiv:2312.04927; Gu and Dao, Mamba, "
                            "arXiv:2312.00752; Liu et al., arXiv:2306.00946; Merrill et al., "
                            "arXiv:2404.08819",
                .licence = "CC0-1.0",
                .gives = {"tokens", "targets"}})

}  // namespace attnlab
