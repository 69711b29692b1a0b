// What a model makes of requests: how likely a continuation is behind a context.
//
//   of continuations alone (LAMBADA)
//     accuracy, perplexity   share whose every token is the most likely one; exp(nll)
//   of choices
//     accuracy               share of questions whose right choice is the most likely one
//     accuracy_normalised    the same by the log likelihood a character of the choice
//   nll   mean over requests of -log p(continuation | context), in nats
//   cut   requests whose context did not fit and was cut at its beginning
//
// Of equally likely choices the first counts.
// Source: EleutherAI/lm-evaluation-harness, 0.4: acc, perplexity, acc_norm.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "framework/contracts/task.h"

namespace attnlab {

class RequestMeter final : public Meter {
 public:
  /// @param choices  whether requests are choices of questions
  /// @param answers  whether the most likely tokens are known, for the accuracy of continuations
  RequestMeter(bool choices, bool answers) : choices_(choices), answers_(answers) {}

  /// In the order in which a task states them.
  static std::vector<MetricInfo> infos(bool choices, bool answers);

  /// @param outputs  nll [B, L], checked; answers [B, L], checked
  void add(const NamedTensors& outputs, const Batch& batch) override;
  /// @throws UndefinedMetrics, but for nll and cut, where a question lacks choices.
  Metrics result() const override;

 private:
  /// A question's choices, as far as they came.
  struct Question {
    std::int64_t choices = 0, label = 0;
    std::map<std::int64_t, double> nll, per_character;  ///< by choice
  };

  bool choices_, answers_;
  std::int64_t requests_ = 0, cut_ = 0, right_ = 0;
  double nll_ = 0;
  std::map<std::int64_t, Question> questions_;
};

}  // namespace attnlab
