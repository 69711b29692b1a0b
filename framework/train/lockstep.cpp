#include "framework/train/lockstep.h"

#include <algorithm>
#include <chrono>

#include "framework/base/clock.h"
#include "framework/base/work_to_save.h"
#include "framework/train/step.h"
#include "framework/train/step_profile.h"

namespace attnlab {
namespace {

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

/// One call of `train_in_step`.
class Lockstep {
 public:
  Lockstep(const std::vector<Training*>& trainings, GradientSource& gradients,
           const std::atomic<bool>& stop)
      : trainings_(trainings), gradients_(gradients), stop_(stop) {}

  void run() {
    try {
      for (turn_epoch(); active() > 0 && !stop_; turn_epoch()) {
        tell_of_one();
        while (!stop_ && step()) save_when_due();
        if (stop_) break;
      }
    } catch (const Interrupted&) {  // in the middle of an evaluation, or waiting for a batch
    }
    const WorkToSave saving;
    each_active([](Training& one) { one.interrupt(); });
  }

 private:
  template <class Work>
  void each_active(const Work& work) {
    for (Training* one : trainings_) {
      if (!one->ended()) work(*one);
    }
  }

  /// An evaluation may take long before it looks whether to stop, and is not waited for: all have
  /// saved their steps before the first is evaluated.
  void turn_epoch() {
    {
      const WorkToSave saving;
      each_active([](Training& one) { one.save_before_evaluation(); });
    }
    each_active([](Training& one) { one.turn_epoch(); });
  }

  void save_when_due() {
    const WorkToSave saving;
    each_active([](Training& one) { one.save_when_due(); });
  }

  std::int64_t active() const {
    return std::count_if(trainings_.begin(), trainings_.end(),
                         [](const Training* one) { return !one->ended(); });
  }

  void tell_of_one() {
    bool told = false;
    each_active([&](Training& one) {
      one.tell_steps(!told);
      told = true;
    });
  }

  /// @returns false at the end of an epoch, or where all have ended.
  bool step() {
    const Clock::time_point begin = Clock::now();
    const std::optional<StepBatch> batch = next_batch();
    if (!batch) return false;
    RECORD_USER_SCOPE(kStepScope);
    const WorkToSave stepping_now;
    const Clock::duration loading = Clock::now() - begin;
    const Batch none{};  // of a process that has no part of this step
    const Batch& shown = batch->parts.empty() ? none : batch->parts.front();
    const std::int64_t size = shown.size / std::int64_t(trainings_.size());
    const auto part = [&](std::size_t i) { return BatchPart{shown, std::int64_t(i) * size, size}; };
    for (std::size_t i = 0; i < trainings_.size(); ++i) {
      if (!trainings_[i]->ended()) trainings_[i]->look(part(i));
    }
    const auto sharing = static_cast<double>(active());
    const Clock::time_point stepping = Clock::now();
    each_active([](Training& one) { one.seed_step(); });
    const std::vector<double> losses = gradients_.backward(*batch);
    update(losses, part);
    gradients_.forget();
    const double time = seconds(Clock::now() - stepping) / sharing;
    each_active([&](Training& one) { one.count_time(time + seconds(loading) / sharing, time); });
    return active() > 0;
  }

  template <class Part>
  void update(const std::vector<double>& losses, const Part& part) {
    RECORD_USER_SCOPE(kUpdateScope);
    for (std::size_t i = 0; i < trainings_.size(); ++i) {
      if (!trainings_[i]->ended()) trainings_[i]->update(losses[i], part(i));
    }
  }

  /// Everyone's; empty at the end of the epoch.
  std::optional<StepBatch> next_batch() {
    RECORD_USER_SCOPE(kBatchScope);
    if (trainings_.size() == 1) return trainings_.front()->next();
    std::vector<Loader*> loaders;
    loaders.reserve(trainings_.size());
    for (Training* one : trainings_) loaders.push_back(one->ended() ? nullptr : &one->batches());
    std::optional<Batch> batch = next_of(loaders);
    if (!batch) return std::nullopt;
    return StepBatch{{*std::move(batch)}};
  }

  const std::vector<Training*>& trainings_;
  GradientSource& gradients_;
  const std::atomic<bool>& stop_;
};

}  // namespace

std::vector<double> RunGradients::backward(const StepBatch& batch) {
  return {training_.backward(batch)};
}

void RunGradients::forget() {
  for (const Tensor& parameter : run_.model->parameters()) parameter.mutable_grad() = Tensor();
  for (const Tensor& parameter : run_.task->parameters()) parameter.mutable_grad() = Tensor();
}

void train_in_step(const std::vector<Training*>& trainings, GradientSource& gradients,
                   const std::atomic<bool>& stop) {
  Lockstep(trainings, gradients, stop).run();
}

}  // namespace attnlab
