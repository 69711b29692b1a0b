#include "framework/train/ensemble.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <map>

#include "framework/base/error_text.h"
#include "framework/base/text.h"
#include "framework/data/loader.h"
#include "framework/experiment/ensembles.h"
#include "framework/host/working_folder.h"
#include "framework/train/environment.h"
#include "framework/train/step.h"
#include "framework/train/step_profile.h"

namespace attnlab {
namespace {

using NamedList = std::vector<std::pair<std::string, Tensor>>;

NamedList parameters_of(const Model& model) {
  NamedList list;
  for (const auto& item : model.named_parameters()) list.emplace_back(item.key(), item.value());
  return list;
}

NamedList buffers_of(const Model& model) {
  NamedList list;
  for (const auto& item : model.named_buffers()) list.emplace_back(item.key(), item.value());
  return list;
}

/// What is wrong with the model, or with the attention in it, and what to do.
[[noreturn]] void refuse(const BuiltRun& run, const std::string& problem) {
  throw ConfigError(
      fmt::format("model '{}' with attention '{}' cannot train runs together: {}; train them one "
                  "by one (--ensemble 1)",
                  run.experiment.model.name, run.experiment.attention.name, problem));
}

/// Member m's rows of a parameter or gradient of the ensemble.
Tensor rows_of_member(const Tensor& whole, std::size_t m, const Tensor& own) {
  return whole.narrow(0, static_cast<std::int64_t>(m) * own.size(0), own.size(0));
}

void check_fit(const BuiltRun& run, const NamedList& whole, const NamedList& own,
               std::int64_t members) {
  if (whole.size() != own.size()) refuse(run, "the ensemble has other parameters than one model");
  for (std::size_t i = 0; i < own.size(); ++i) {
    std::vector<std::int64_t> expected = own[i].second.sizes().vec();
    if (!expected.empty()) expected[0] *= members;
    if (!expected.empty() && whole[i].first == own[i].first &&
        whole[i].second.sizes() == at::IntArrayRef(expected)) {
      continue;
    }
    refuse(run, fmt::format("parameter {} is {} in one model and {} in one of {}, where its first "
                            "dimension should be {} times as long",
                            own[i].first, describe(own[i].second), describe(whole[i].second),
                            members, members));
  }
}

void check_buffers(const BuiltRun& run, const Model& whole) {
  const NamedList own = buffers_of(*run.model), common = buffers_of(whole);
  bool same = own.size() == common.size();
  for (std::size_t i = 0; same && i < own.size(); ++i) {
    same = own[i].second.equal(common[i].second);
  }
  if (!same) refuse(run, "its buffers are not the same constants in every member");
}

/// What the data and the built modules show, beside what `obstacle_to_ensemble` reads.
void check_built(const BuiltRun& run) {
  if (run.dataset->plan(training_request(run, 0)).continues) {
    refuse(run,
           fmt::format("batches of dataset '{}' continue each other", run.experiment.dataset.name));
  }
  if (!run.task->parameters().empty()) {
    refuse(run, fmt::format("task '{}' has parameters of its own", run.experiment.task.name));
  }
}

/// The first examples of the training split, as they are.
Batch first_batch(const BuiltRun& run) {
  LoaderSettings settings;
  settings.workers = 0;
  const std::int64_t count = std::min<std::int64_t>(4, run.dataset->size(Split::train));
  Loader loader(*run.dataset, run.streams, plan_in_order(count, count), settings);
  return *loader.next();
}

}  // namespace

Ensemble::Ensemble(const std::vector<BuiltRun*>& runs, Registry& registry) : runs_(runs) {
  const BuiltRun& first = *runs.front();
  const Experiment& experiment = first.experiment;
  const std::string obstacle = obstacle_to_ensemble(experiment, registry.catalogue());
  if (!obstacle.empty()) refuse(first, obstacle);
  for (const BuiltRun* run : runs) check_built(*run);
  model_ = registry.model(
      experiment.model,
      {first.dataset->info(), registry.attention_builder(experiment.attention, first.streams),
       static_cast<std::int64_t>(runs.size())});
  model_->to(first.device);
  model_->train();
  share_parameters();
  check_outputs();
}

void Ensemble::share_parameters() {
  const c10::NoGradGuard no_gradients;
  const NamedList whole = parameters_of(*model_);
  for (std::size_t m = 0; m < runs_.size(); ++m) {
    const BuiltRun& run = *runs_[m];
    NamedList own = parameters_of(*run.model);
    check_fit(run, whole, own, static_cast<std::int64_t>(runs_.size()));
    check_buffers(run, *model_);
    for (std::size_t i = 0; i < own.size(); ++i) {
      Tensor& parameter = own[i].second;
      const Tensor rows = rows_of_member(whole[i].second.detach(), m, parameter);
      rows.copy_(parameter);
      parameter.set_data(rows);
    }
  }
}

void Ensemble::check_outputs() {
  const c10::NoGradGuard no_gradients;
  std::vector<Batch> batches;
  batches.reserve(runs_.size());
  for (const BuiltRun* run : runs_) batches.push_back(first_batch(*run));
  ForwardPass pass;
  const NamedTensors together =
      model_->forward(to_device(joined(batches), runs_.front()->device), pass);
  for (std::size_t m = 0; m < runs_.size(); ++m) {
    BuiltRun& run = *runs_[m];
    run.model->train();
    const NamedTensors alone = run.model->forward(to_device(batches[m], run.device), pass);
    for (const auto& [name, expected] : alone) {
      const Tensor* all = together.find(name);
      const bool fits = all != nullptr && all->dim() > 0 &&
                        all->size(0) == expected.size(0) * std::int64_t(runs_.size());
      const double tolerance = expected.scalar_type() == at::kDouble ? 1e-9 : 1e-4;
      if (fits && at::allclose(rows_of_member(*all, m, expected), expected, tolerance,
                               tolerance * (1 + expected.abs().max().item<double>()),
                               /*equal_nan=*/true)) {
        continue;
      }
      refuse(run, fmt::format("output '{}' of member {} differs from what it computes alone (does "
                              "it use dropout, or statistics of the batch?)",
                              name, m));
    }
  }
}

std::vector<double> Ensemble::backward(const StepBatch& examples) {
  const BuiltRun& first = *runs_.front();
  const auto members = static_cast<std::int64_t>(runs_.size());
  const Batch batch = to_device(examples.parts.front(), first.device);
  ForwardPass pass;
  Tensor losses;
  {
    RECORD_USER_SCOPE(kForwardScope);
    losses = first.task->losses(model_->forward(batch, pass), batch, members);
  }
  RECORD_USER_SCOPE(kBackwardScope);
  // Each loss reaches its own member's parameters alone, so the gradient of the sum is each one's.
  losses.sum().backward();
  if (!gradients_shared_) share_gradients();
  const Tensor values = losses.detach().to(at::kCPU, at::kDouble).contiguous();
  return {values.data_ptr<double>(), values.data_ptr<double>() + members};
}

/// From the first backward pass on, the members' gradients are rows of the ensemble's. What has no
/// gradient then has none in a member either.
void Ensemble::share_gradients() {
  gradients_shared_ = true;
  const NamedList whole = parameters_of(*model_);
  for (const auto& [name, parameter] : whole) {
    if (parameter.grad().defined())
      parameter.mutable_grad() = parameter.grad().clone().contiguous();
  }
  for (std::size_t m = 0; m < runs_.size(); ++m) {
    const NamedList own = parameters_of(*runs_[m]->model);
    for (std::size_t i = 0; i < own.size(); ++i) {
      const Tensor& gradient = whole[i].second.grad();
      if (!gradient.defined()) continue;
      own[i].second.mutable_grad() = rows_of_member(gradient, m, own[i].second);
    }
  }
}

void Ensemble::forget() {
  for (const auto& [name, parameter] : parameters_of(*model_)) {
    if (parameter.grad().defined()) parameter.mutable_grad().zero_();
  }
}

namespace {

/// Members with equal texts can be in step.
std::string shape_of(const BuiltRun& run, std::int64_t step) {
  std::vector<std::string> words = {std::to_string(step), std::to_string(run.steps_per_epoch)};
  for (const Split split : {Split::train, Split::validation, Split::test}) {
    words.push_back(std::to_string(run.dataset->size(split)));
  }
  words.push_back(std::to_string(run.dataset->info().classes));
  for (const FieldInfo& field : run.dataset->info().fields) {
    words.push_back(field.name);
    for (const std::int64_t size : field.shape) words.push_back(std::to_string(size));
  }
  return join(words, " ");
}

struct Group {
  std::vector<Training*> trainings;
  std::vector<BuiltRun*> runs;
  std::vector<const RunFolder*> folders;
};

/// Members that cannot keep step with all others say so in their folders, and to people.
void mark_parted(const Group& group, std::size_t members, ProgressSink& progress) {
  if (group.runs.size() == members) return;
  for (std::size_t i = 0; i < group.runs.size(); ++i) {
    BuiltRun& run = *group.runs[i];
    run.together = static_cast<std::int64_t>(group.runs.size());
    record_together(run, *group.folders[i]);
    progress.say(fmt::format(
        "{}: is trained {}, since its step {} or its data are not those of all {} runs",
        RunFolder::label(run.experiment, run.seed),
        group.runs.size() == 1 ? "alone" : fmt::format("with {} others", group.runs.size() - 1),
        group.trainings[i]->step(), members));
  }
}

using Trainings = std::vector<std::unique_ptr<Training>>;

/// Begins a training for each member. @returns those that keep step with each other.
template <class Begin>
std::map<std::string, Group> groups_of(std::vector<Member>& members, ProgressSink& progress,
                                       const std::atomic<bool>& stop, Trainings& trainings,
                                       const Begin& begin) {
  std::map<std::string, Group> groups;
  for (Member& member : members) {
    trainings.push_back(std::make_unique<Training>(member.run, member.folder, progress, stop));
    Training& training = *trainings.back();
    begin(training);
    Group& group = groups[shape_of(member.run, training.step())];
    group.trainings.push_back(&training);
    group.runs.push_back(&member.run);
    group.folders.push_back(&member.folder);
  }
  return groups;
}

void train_group(const Group& group, Registry& registry, const std::atomic<bool>& stop) {
  if (group.runs.size() == 1) {
    RunGradients gradients(*group.runs.front(), *group.trainings.front());
    train_in_step(group.trainings, gradients, stop);
  } else {
    Ensemble gradients(group.runs, registry);
    train_in_step(group.trainings, gradients, stop);
  }
}

}  // namespace

void train_ensemble(std::vector<Member>& members, Registry& registry, ProgressSink& progress,
                    const std::atomic<bool>& stop) {
  const WorkingFolder home;
  Trainings trainings;
  const auto abandon = [&trainings](const std::string& reason) {
    for (const auto& training : trainings) {
      if (!training->ended()) training->abandon(reason);
    }
  };
  try {
    const std::map<std::string, Group> groups =
        groups_of(members, progress, stop, trainings, [](Training& training) { training.begin(); });
    for (const auto& [shape, group] : groups) mark_parted(group, members.size(), progress);
    for (const auto& [shape, group] : groups) train_group(group, registry, stop);
  } catch (const std::exception& error) {
    abandon(text_of(error));
    throw;
  } catch (...) {  // of a plugin
    abandon(kNoException);
    throw Error(kNoException);
  }
}

void rehearse_ensemble(std::vector<Member>& members, Registry& registry) {
  const WorkingFolder home;
  const auto silent = make_progress(ProgressMode::none);
  const std::atomic<bool> stop{false};
  Trainings trainings;
  const std::map<std::string, Group> groups =
      groups_of(members, *silent, stop, trainings, [](Training& training) { training.rehearse(); });
  for (const auto& [shape, group] : groups) {
    if (group.runs.size() > 1) Ensemble(group.runs, registry);
  }
}

}  // namespace attnlab
