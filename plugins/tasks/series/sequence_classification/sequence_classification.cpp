// Sequence classification: one class a sequence, be it of tokens [L] or of vectors [L, C].
//
//   loss = cross entropy of the logits with label smoothing (Szegedy et al. 2016)
//
// Metrics: accuracy (top-1), top5 from five classes on, and nll, without smoothing. Where asked
// (`outcomes.record`), a finished run is also sorted by its training and test accuracy into
// correct, biased, degenerate and other: plugins/tasks/series/sequence_classification/outcome.h.
#include "framework/eval/classification.h"
#include "framework/plugin.h"
#include "plugins/tasks/series/sequence_classification/outcome.h"

namespace attnlab {
namespace {

struct SequenceClassificationOptions : ClassificationOptions {
  OutcomeOptions outcomes;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    ClassificationOptions::describe(v);
    v("outcomes", outcomes, "which kind of solution a finished run found (QUEST's toy task)");
  }
};

class SequenceClassification final : public ClassificationTask {
 public:
  SequenceClassification(const SequenceClassificationOptions& options, const TaskSetup& setup)
      : ClassificationTask(options, setup),
        outcomes_(options.outcomes),
        classes_(setup.data.classes) {
    check_outcomes(outcomes_, "outcomes.");
  }

  Metrics conclude(const std::function<Metrics()>& training, const Metrics& test) const override {
    if (!outcomes_.record) return {};
    return outcome_metrics(training(), test, classes_, outcomes_);
  }

  std::vector<MetricInfo> metrics() const override {
    std::vector<MetricInfo> metrics = ClassificationTask::metrics();
    if (outcomes_.record) {
      for (MetricInfo& outcome : outcome_infos()) metrics.push_back(std::move(outcome));
    }
    return metrics;
  }

 private:
  OutcomeOptions outcomes_;
  std::int64_t classes_;
};

}  // namespace

ATTNLAB_PLUGIN(task, SequenceClassification, SequenceClassificationOptions,
               {.id = "attnlab/sequence_classification",
                .version = "1.1.0",
                .summary = "one class per sequence: cross entropy, top-1, top-5, NLL",
                .citation = "label smoothing: Szegedy et al. 2016, arXiv:1512.00567",
                .licence = "Apache-2.0",
                .takes = {"logits", "class"},
                .ensemble = true})

}  // namespace attnlab
