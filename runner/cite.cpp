// attnlab cite: BibTeX of everything that runs used.
#include <iostream>

#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/report/citations.h"
#include "runner/sharing_command.h"

namespace attnlab {

int cite_command(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab cite DIR ...";
  usage.about =
      "Prints BibTeX of attnlab and of every work that the plugins of the runs in DIR ask to\n"
      "cite: models, attentions, tasks, datasets. DIR is a run's folder, a suite's, or one\n"
      "above.";
  usage.fewest_words = 1;
  usage.most_words = kAnyNumber;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const RunCollection found = find_runs(arguments.words);
  std::vector<std::string> absent;
  const auto citations = citations_of(found.runs, Catalogue::of_this_program(), absent);
  std::cout
      << "@misc{attnlab,\n"
         "  author = {{The attnlab developers}},\n"
         "  title = {attnlab: a plugin-based framework for research on attention mechanisms},\n"
         "  year = {2026},\n"
         "  note = {version " ATTNLAB_VERSION "}\n}\n\n"
      << printable(bibtex_of(citations));
  if (!absent.empty()) {
    std::cerr << "not installed here, or not named, so what they ask to be cited by is not known: "
              << printable(join(absent, ", ")) << "\n";
  }
  return kDone;
}

}  // namespace attnlab
