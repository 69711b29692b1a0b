// What plugins ask to be cited by, as text and as BibTeX.
#pragma once

#include <string>
#include <vector>

#include "framework/manifest/discovery.h"
#include "framework/runs/run_records.h"

namespace attnlab {

/// One work, and the plugins whose manifests name it.
struct Citation {
  std::string key;                   ///< "attnlab-quest"; unique in a report
  std::string text;                  ///< as the manifest has it
  std::vector<std::string> plugins;  ///< "attnlab/quest"
};

/// Splits "A, ICML 2020; B, 2025" into works; a citation that is BibTeX already stays whole.
std::vector<std::string> works_of(const std::string& citation);

/// The works of all plugins that the runs used, each once (case and spaces do not count).
/// @param absent  gets the names of plugins that are not installed here, and evaluations whose
///                plugins are not known
std::vector<Citation> citations_of(const std::vector<RunRecord>& runs, const Catalogue& catalogue,
                                   std::vector<std::string>& absent);

/// An entry each: BibTeX as it stands, else an @misc with the text as its title, which says more
/// than guessed authors would, and the year where the text has one.
std::string bibtex_of(const std::vector<Citation>& citations);

}  // namespace attnlab
