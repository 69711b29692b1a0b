// Tasks that read a finished model's features in place of its answers: they stand in `evaluate:`
// and train nothing.
//
// kNN and probes fit something to the training split and measure the split that is asked for by it.
// The data's classes need not be those that the model was trained for.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/config/options.h"
#include "framework/eval/features.h"

namespace attnlab {

/// A task that measures finished runs.
class MeasuringTask : public Task {
 public:
  /// @throws ConfigError: it trains nothing.
  Tensor loss(const NamedTensors& outputs, const Batch& batch) const override;
};

struct ProbeOptions {
  std::vector<std::string> features = {"pooled"};

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("features", features,
      "which features are read, one after the other: class, mean (of patches), pooled (class, if "
      "the model has it); of a layer: class@3, mean@-2; of the last four: class@last4");
  }
};

class ProbeTask : public MeasuringTask {
 public:
  /// @throws OptionError for features of another form; DataError for a dataset without classes.
  ProbeTask(const ProbeOptions& options, const TaskSetup& setup);

 protected:
  const FeatureReader& reader() const { return reader_; }
  std::int64_t classes() const { return classes_; }
  /// Whether five answers are told apart from all.
  bool has_top5() const { return classes_ >= 5; }

 private:
  FeatureReader reader_;
  std::int64_t classes_;
};

/// What a probe's hyperparameter is chosen by.
struct ChoiceOptions {
  std::string choose_by = "validation";

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("choose_by", choose_by, one_of("validation", "tested"),
      "accuracy on the validation split, or on the split that is reported, as published code does; "
      "with a single value, nothing is chosen");
  }
};

/// The probe of several that is most often right.
struct Choice {
  std::size_t index = 0;
  double accuracy = 0;  ///< on the examples that chose it; not a number where nothing was chosen
};

/// The examples that a probe is chosen by: to be read before the probes are fitted.
/// @param count  of probes; one is not chosen: none
/// @throws DataError where there is no validation split, or it is what is reported, saying what to
///         do.
FeatureTable choice_table(const Evaluation& evaluation, const FeatureReader& reader,
                          const ChoiceOptions& options, std::size_t count);

/// @param by      of `choice_table`
/// @param logits  of a probe [N, K] for features [N, C]
/// @returns the first of equal ones.
Choice chosen_probe(const FeatureTable& by, std::size_t count,
                    const std::function<Tensor(std::size_t, const Tensor&)>& logits);

/// A linear probe: what is kept of it, and what it measures.
struct LinearProbe {
  Tensor weight, bias;         ///< [K, C], [K]
  double chosen = 0;           ///< the hyperparameter
  double choice_accuracy = 0;  ///< as Choice::accuracy
  double gradient = 0;         ///< of a probe that converges: what is left of the gradient
};

void save_probe(const LinearProbe& probe, NamedTensors& saved);
/// @throws DataError for a probe of other shapes.
LinearProbe saved_probe(const NamedTensors& saved, std::int64_t classes);

/// accuracy, nll, recall (mean over the classes that there are) and, from five classes on, top5.
std::vector<MetricInfo> probe_metrics(bool has_top5);

/// These of the split that is evaluated.
/// @param prepare  features before the map; empty: as they are
Metrics measured_probe(const Evaluation& evaluation, const FeatureReader& reader,
                       const LinearProbe& probe,
                       const std::function<Tensor(const Tensor&)>& prepare = {});

}  // namespace attnlab
