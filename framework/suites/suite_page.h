// `page:` of a suite: what its page over domains shows (framework/runs/page_spec.h has the form).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "framework/manifest/schema.h"
#include "framework/runs/page_spec.h"

namespace attnlab {

struct ColumnKeys {
  std::string experiment, metric = "headline", role = "quality";
  std::optional<std::string> domain, title;
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("domain", domain, "columns of one domain count as one; default: the experiment");
    v("experiment", experiment, filled(), "experiment of the suite");
    v("metric", metric, "its name, or headline: what the experiment's task is judged by");
    v("title", title, "heading of the column; default: the metric, or for headline the domain");
    v("role", role, one_of("quality", "robustness", "stability"),
      "what the column measures; only quality counts for ranks and the summary");
  }
};

struct ClaimKeys {
  std::string attention, experiment, metric = "headline", says, source, text;
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("attention", attention, filled(), "label of the attention that the claim is about");
    v("experiment", experiment, filled(), "experiment of the suite");
    v("metric", metric, "metric of a column");
    v("says", says, filled(one_of("better", "worse")), "compared with the baseline");
    v("source", source, filled(), "where the claim is published");
    v("text", text, filled(), "the claim, in the publication's words or close to them");
  }
};

struct PageKeys {
  std::string title = "One attention, every domain";
  std::vector<ColumnKeys> columns;
  std::vector<ClaimKeys> claims;
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("title", title, "title of the page");
    v("columns", columns, filled(), "what is shown, in this order");
    v("claims", claims, "claims of publications about attentions");
  }
};

/// @param section   the value of `page`, with every default
/// @param problems  columns of one name are appended
PageSpec page_of(const Node& section, std::vector<std::string>& problems);

/// Leaves out columns and claims of experiments that the suite does not have.
/// @param experiments  the suite's
/// @param problems     gets each such name, with near ones; null: experiments were chosen by hand
void fit_page(PageSpec& page, const std::vector<std::string>& experiments, const Place& place,
              std::vector<std::string>* problems);

/// Appends metrics of columns and claims ("fgo/accuracy") that are nearly an evaluation's. Others
/// may be a task's own ("outcome/correct"), which a suite does not know of.
/// @param evaluations  the entries of `evaluate:` by experiment
void check_metrics(const PageSpec& page,
                   const std::map<std::string, std::vector<std::string>>& evaluations,
                   const Place& place, std::vector<std::string>& problems);

}  // namespace attnlab
