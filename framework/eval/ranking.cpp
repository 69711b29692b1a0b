#include "framework/eval/ranking.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attnlab {
namespace {

double comparable(double score) {
  return std::isnan(score) ? -std::numeric_limits<double>::infinity() : score;
}

/// Positives and negatives at each distinct score, from the highest down.
struct Step {
  double positives = 0, negatives = 0;
};

std::vector<Step> steps_of(std::vector<Scored> examples) {
  for (Scored& one : examples) one.score = comparable(one.score);
  std::sort(examples.begin(), examples.end(),
            [](const Scored& a, const Scored& b) { return a.score > b.score; });
  std::vector<Step> steps;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    if (i == 0 || examples[i].score != examples[i - 1].score) steps.emplace_back();
    (examples[i].positive ? steps.back().positives : steps.back().negatives) += 1;
  }
  return steps;
}

Step all_of(const std::vector<Step>& steps) {
  Step all;
  for (const Step& step : steps) {
    all.positives += step.positives;
    all.negatives += step.negatives;
  }
  return all;
}

}  // namespace

std::optional<double> roc_auc(std::vector<Scored> examples) {
  const std::vector<Step> steps = steps_of(std::move(examples));
  const Step all = all_of(steps);
  if (all.positives == 0 || all.negatives == 0) return {};
  double above = 0, area = 0;  // positives that score higher than the step
  for (const Step& step : steps) {
    area += step.negatives * (above + step.positives / 2);
    above += step.positives;
  }
  return area / (all.positives * all.negatives);
}

std::optional<double> average_precision(std::vector<Scored> examples) {
  const std::vector<Step> steps = steps_of(std::move(examples));
  const Step all = all_of(steps);
  if (all.positives == 0 || all.negatives == 0) return {};
  Step taken;
  double sum = 0;
  for (const Step& step : steps) {
    taken.positives += step.positives;
    taken.negatives += step.negatives;
    sum += step.positives * taken.positives / (taken.positives + taken.negatives);
  }
  return sum / all.positives;
}

double rank_among(double score, const std::vector<double>& candidates) {
  const double own = comparable(score);
  double rank = 1;
  for (const double candidate : candidates) {
    const double other = comparable(candidate);
    rank += other > own ? 1 : other == own ? 0.5 : 0;
  }
  return rank;
}

}  // namespace attnlab
