// A model card of an attention: what it is, what it honours, whether it keeps its contract, and
// what came of it in every domain.
#pragma once

#include <optional>
#include <string>

#include "framework/comparison/domains.h"
#include "framework/manifest/manifest.h"

namespace attnlab {

struct Card {
  const Manifest* manifest = nullptr;  ///< of the attention; not owned
  std::string file;                    ///< its library
  /// What `attnlab plugin test --json` printed; empty where it was not asked.
  std::string conformance;
  std::optional<DomainPage> page;  ///< its results; empty without runs
  std::string label;               ///< what the runs call it: its row on the page
  std::string runs;                ///< where they are
  std::string command, date;
};

/// As Markdown. @throws DataError for conformance text that is not such JSON.
std::string card_markdown(const Card& card);

}  // namespace attnlab
