// Parts that were resolved before, for many compositions that differ in little.
#pragma once

#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "framework/config/node.h"
#include "framework/experiment/experiment.h"
#include "framework/experiment/part.h"
#include "framework/manifest/discovery.h"

namespace attnlab {

/// The points of a sweep share the sections that they do not vary (`Node`): each is resolved once.
/// May be used by several threads.
class ResolvedParts {
 public:
  struct Resolved {
    Part part;
    Node section;  ///< with every option filled in
    const Manifest* manifest = nullptr;
  };

  /// What was made of a section of this kind that shares what it holds with `given`.
  std::optional<Resolved> find(Kind kind, const Node& given) const;
  /// Keeps it, if there are few.
  /// @param resolved  without problems
  void add(const Node& given, Resolved resolved);

 private:
  mutable std::mutex guard_;
  std::deque<std::pair<Node, Resolved>> all_;
};

/// As without `known`, which gets the parts that are not in it yet.
/// @param known  of the same catalogue
Experiment resolve_experiment(const Node& composed, const Catalogue& catalogue,
                              const std::string& name, ResolvedParts& known);

}  // namespace attnlab
