// Made-up runs of attentions in several domains, in memory, and the page over them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "framework/base/random.h"
#include "framework/comparison/domains.h"

namespace attnlab::testing {

inline constexpr const char* kDomains[] = {"images", "language", "graphs",
                                           "series", "points",   "boxes"};

/// Finished runs in memory: what comparisons read of them.
class DomainRuns {
 public:
  DomainRuns() {
    SuiteRecord suite;
    suite.folder = "runs/made";
    suite.baseline = "standard";
    suite.page = PageSpec{"Every domain", {}, {}};
    for (const char* domain : kDomains) {
      suite.page->columns.push_back({domain, domain, "headline", domain});
    }
    all.suites.push_back(std::move(suite));
  }

  RunRecord& add(const std::string& experiment, const std::string& attention, std::int64_t seed,
                 double value, Better better = Better::higher) {
    RunRecord run;
    run.experiment = experiment;
    run.attention = attention;
    run.seed = seed;
    run.config = Node::map();
    Node use = Node::map();
    use.set("use", Node::scalar(attention));
    run.config.set("attention", use);
    run.status.state = RunState::done;
    run.status.metrics["score"] = value;
    run.infos = {{"score", better, better == Better::higher ? "share" : "nats"}};
    all.runs.push_back(std::move(run));
    return all.runs.back();
  }

  PageSpec& page() { return *all.suites.front().page; }

  DomainPage build(const std::string& test = "t") const {
    CompareOptions options;
    options.test = test;
    RunCollection sorted = all;
    std::stable_sort(sorted.runs.begin(), sorted.runs.end(),
                     [](const RunRecord& a, const RunRecord& b) {
                       return std::tie(a.experiment, a.attention, a.seed) <
                              std::tie(b.experiment, b.attention, b.seed);
                     });
    return build_domain_page(sorted, options, "");
  }

  RunCollection all;
};

/// Attentions with noise from seed to seed, part of which all of them share.
inline void add_alike(DomainRuns& runs, const std::vector<std::string>& attentions,
                      std::int64_t seeds, std::uint64_t draw) {
  std::uint64_t number = 0;
  for (const char* domain : kDomains) {
    ++number;
    for (std::int64_t seed = 0; seed < seeds; ++seed) {
      Random random = RandomStreams(draw).stream("made runs", number, seed);
      const double shared = random.normal();
      for (const std::string& attention : attentions) {
        runs.add(domain, attention, seed, 0.8 + 0.01 * shared + 0.01 * random.normal());
      }
    }
  }
}

inline std::size_t column(const DomainPage& page, const std::string& domain) {
  for (std::size_t i = 0; i < page.columns.size(); ++i) {
    if (page.columns[i].domain == domain) return i;
  }
  throw std::runtime_error("no column " + domain);
}

inline std::vector<std::string> with_verdict(const DomainPage& page, const std::string& attention,
                                             const std::string& verdict) {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < page.columns.size(); ++i) {
    if (cell_verdict(page, page.row(attention), i) == verdict)
      found.push_back(page.columns[i].domain);
  }
  return found;
}

/// Moves the values of an attention in one domain.
inline void plant(DomainRuns& runs, const std::string& attention, const std::string& domain,
                  double by) {
  for (RunRecord& run : runs.all.runs) {
    if (run.attention == attention && run.experiment == domain) run.status.metrics["score"] += by;
  }
}

/// Runs of one attention in one domain end with numbers that are not finite, from `first` on.
inline void diverge(DomainRuns& runs, const std::string& attention, const std::string& domain,
                    std::int64_t first) {
  for (RunRecord& run : runs.all.runs) {
    if (run.attention != attention || run.experiment != domain || run.seed < first) continue;
    run.status.state = RunState::diverged;
    run.status.reason = "loss is nan at step 12";
  }
}

inline PageClaim claim_of(const std::string& domain, bool better) {
  return PageClaim{"mine", domain, "score", better, "a paper", ""};
}

inline std::vector<std::string> outcomes(const DomainPage& page) {
  std::vector<std::string> names;
  for (const ClaimCheck& one : page.claims) names.emplace_back(name_of(one.outcome));
  return names;
}

}  // namespace attnlab::testing
