// Carries out the entries of `evaluate:`: while a run is trained, and when it is finished.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/runs/evaluations.h"
#include "framework/train/overlay.h"

namespace attnlab {

/// Entries with `when: each`, built once, evaluated with the weights that training has reached.
class EachEvaluations {
 public:
  /// @param run  outlives neither this nor its copies: what entries share with it is kept.
  /// @throws as `build_run`.
  EachEvaluations(const BuiltRun& run, const std::vector<EvaluationEntry>& entries,
                  Registry& registry);

  /// Each entry's name with what is evaluated for it.
  void visit(
      const std::function<void(const std::string& entry, const BuiltRun& overlay)>& use) const;

  /// What their metrics mean, "fog/accuracy".
  std::vector<MetricInfo> metrics() const;
  /// The metrics of the entries of a split, "fog/accuracy", means of `over` included. An entry that
  /// fails has none, and says so once; of several processes, where it fails in all.
  /// @param average  weights of `train.average`, under "average."; empty: there are none
  /// @throws Interrupted; what fails in one process and not in others.
  Metrics evaluate(const BuiltRun& run, Split split, const NamedTensors& average,
                   const std::atomic<bool>& stop,
                   const std::function<void(const std::string&)>& complain);

 private:
  struct One {
    EvaluationEntry entry;
    BuiltRun overlay;
    bool complained = false;
  };
  std::vector<One> all_;
};

/// The entries with `when: each` of an experiment, ready; null where there is none.
/// @throws ConfigError for any entry under whose name the run has metrics itself.
std::shared_ptr<EachEvaluations> each_evaluations(const BuiltRun& run, Registry& registry);

/// The entries of these names, or of groups of them; all where none is named.
/// @throws ConfigError for a name that no entry has.
std::vector<EvaluationEntry> chosen_entries(const std::vector<EvaluationEntry>& entries,
                                            const std::vector<std::string>& names);

struct EntriesRequest {
  std::vector<std::string> names;  ///< of entries, or of groups of them; empty: all
  bool again = false;              ///< those with a result, too
};

/// Told of each result: a new one, or one that was there already.
using OnResult = std::function<void(const EvaluationRecord& record, bool was_there)>;

/// Evaluates the entries of a finished run that have no result, and files each by itself. What goes
/// wrong with one is its result: failed, with the reason (where a result of its settings and
/// weights is there, that stays); those that failed before come last, so that one that ends the
/// process does not keep the others from their turn.
/// @param run      built, with the weights of the folder loaded
/// @param entries  of the experiment, or others for the same run
/// @throws ConfigError for a name that no entry has, and for an entry under whose name the run has
///         metrics itself; Interrupted; FileError.
void evaluate_entries(const BuiltRun& run, const RunFolder& folder,
                      const std::vector<EvaluationEntry>& entries, const EntriesRequest& request,
                      Registry& registry, const std::atomic<bool>& stop, const OnResult& on_result);

}  // namespace attnlab
