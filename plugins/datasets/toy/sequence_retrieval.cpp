// Sequence retrieval: where in a reference does a query begin?
//
//   condition  the query, `query` symbols, padded with a token of its own to the content's length
//   content    the reference, symbols drawn uniformly, with the query put in at a random place
//   targets    [1], the place where it begins, from 0 on
//
// The query overwrites the symbols at its place (10 symbols, 8 places), or pushes them on
// (13 symbols, 11 places). A query that also stands elsewhere would have two right answers; such
// examples are drawn again, unless `unique: false`.
// Source: Indirect Attention, section 6.1: queries of 3, references of 10 out of 10 symbols, 1,000
// and 200 examples. The paper says neither how it inserts nor what it does about second
// occurrences.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/data/made_up.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct SequenceRetrievalOptions : MadeUpOptions {
  std::int64_t symbols = 10, length = 10, query = 3;
  std::string insert = "overwrite";
  bool unique = true;

  constexpr SequenceRetrievalOptions() { test = 200; }

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("symbols", symbols, range(2, 4096), "symbols of the alphabet");
    v("length", length, range(1, 4096), "symbols of the reference before the query is inserted");
    v("query", query, range(1, 4096), "symbols of the query");
    v("insert", insert, one_of("overwrite", "lengthen"),
      "the query replaces symbols, or is inserted between them");
    v("unique", unique, "draw again if the reference contains the query twice");
    MadeUpOptions::describe(v);
  }
};

using Symbols = std::vector<std::int64_t>;

std::int64_t occurrences(const Symbols& query, const Symbols& content) {
  std::int64_t count = 0;
  for (auto from = content.begin();; ++from, ++count) {
    from = std::search(from, content.end(), query.begin(), query.end());
    if (from == content.end()) return count;
  }
}

class SequenceRetrieval final : public MadeUpDataset {
 public:
  SequenceRetrieval(const SequenceRetrievalOptions& options, const DatasetSetup& setup)
      : MadeUpDataset("sequence_retrieval", "a query somewhere in a reference, made by rule",
                      options, OptionText::of(options), setup),
        options_(options),
        total_(options.length + (lengthens() ? options.query : 0)) {
    check();
    info_.classes = total_ - options.query + 1;
    info_.vocabulary = options.symbols + (total_ > options.query ? 1 : 0);
    info_.fields = {{"condition", {total_}, at::kLong},
                    {"condition_valid", {total_}, at::kBool},
                    {"content", {total_}, at::kLong},
                    {"targets", {1}, at::kLong}};
  }

 protected:
  NamedTensors make(Split, Random& random) const override {
    Symbols query, content;
    std::int64_t place = 0;
    do {
      query = drawn(options_.query, random);
      content = drawn(options_.length, random);
      place = random.below(info_.classes);
      put(query, place, content);
    } while (options_.unique && occurrences(query, content) > 1);
    query.resize(content.size(), options_.symbols);
    return {{"condition", at::tensor(query, at::kLong)},
            {"condition_valid", at::arange(total_) < options_.query},
            {"content", at::tensor(content, at::kLong)},
            {"targets", at::full({1}, place, at::kLong)}};
  }

 private:
  bool lengthens() const { return options_.insert == "lengthen"; }

  void check() const {
    if (options_.query > total_) {
      throw OptionError(
          "query",
          fmt::format(
              "{} symbols do not fit into {}; make the query shorter, or set insert: lengthen",
              options_.query, total_));
    }
    const double elsewhere = static_cast<double>(total_ - options_.query) *
                             std::pow(double(options_.symbols), -double(options_.query));
    if (!options_.unique || elsewhere <= 1) return;
    throw OptionError(
        "unique",
        fmt::format("so short a query of so few symbols nearly always stands elsewhere, too (some "
                    "{} times); set unique: false, more symbols or a longer query",
                    shortest(std::round(elsewhere))));
  }

  Symbols drawn(std::int64_t count, Random& random) const {
    Symbols out(static_cast<std::size_t>(count));
    for (std::int64_t& symbol : out) symbol = random.below(options_.symbols);
    return out;
  }

  void put(const Symbols& query, std::int64_t place, Symbols& content) const {
    if (lengthens()) {
      content.insert(content.begin() + place, query.begin(), query.end());
    } else {
      std::copy(query.begin(), query.end(), content.begin() + place);
    }
  }

  SequenceRetrievalOptions options_;
  std::int64_t total_;  ///< symbols of the content
};

}  // namespace

ATTNLAB_PLUGIN(dataset, SequenceRetrieval, SequenceRetrievalOptions,
               {.id = "attnlab/sequence_retrieval",
                .version = "1.0.0",
                .summary = "find where in a reference a query begins",
                .citation = "Bahaduri et al., Indirect Attention: Turning Context Misalignment "
                            "into a Feature, section 6.1",
                .licence = "CC0-1.0",
                .gives = {"condition", "condition_valid", "content", "targets"}})

}  // namespace attnlab
