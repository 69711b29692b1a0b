// Checks of what a task measures: metrics and their names, batches, labels, what it leaves alone.
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/conformance/memory.h"
#include "framework/conformance/task_checks.h"
#include "framework/host/process_state.h"

namespace attnlab::conformance {
namespace {

constexpr std::int64_t kMetricExamples = 12;

/// Batches of one size, of the first examples.
std::vector<Batch> batches_of(const TaskFixture& fixture, std::int64_t size) {
  std::vector<Batch> batches;
  for (std::int64_t first = 0; first < kMetricExamples; first += size) {
    batches.push_back(fixture.batch(first, std::min(size, kMetricExamples - first)));
  }
  return batches;
}

void expect_same(const std::string& what, const Metrics& found, const Metrics& expected) {
  for (const auto& [name, value] : expected) {
    const auto other = found.find(name);
    expect(other != found.end(), fmt::format("{}: the metric '{}' is not there", what, name));
    const bool same = (std::isnan(value) && std::isnan(other->second)) ||
                      std::abs(other->second - value) <= 1e-7 * std::max(1.0, std::abs(value));
    expect(same, fmt::format("{}: '{}' is {}, expected {}", what, name, shortest(other->second),
                             shortest(value)));
  }
  expect(found.size() == expected.size(), what + ": there are other metrics");
}

/// "training/accuracy" is stated where "accuracy" is.
bool is_stated(const std::string& name, const std::set<std::string>& stated) {
  const std::string prefix = "training/";
  return stated.count(name) > 0 ||
         (name.rfind(prefix, 0) == 0 && stated.count(name.substr(prefix.size())) > 0);
}

void expect_value(const MetricInfo& metric, double value) {
  const std::string what = fmt::format("metric '{}' is {}", metric.name, shortest(value));
  expect(std::isfinite(value), what);
  expect(metric.unit.rfind("share", 0) != 0 || (value >= 0 && value <= 1),
         what + ", and its unit is a share: from 0 to 1");
}

/// Every label of a batch changed to a value.
Batch labelled(const Batch& batch, const std::string& field, std::int64_t value) {
  Batch changed = batch;
  Tensor labels = batch.fields.at(field).clone();
  labels.view({-1})[0] = value;
  changed.fields.set(field, labels);
  return changed;
}

/// What is thrown by the loss, or by an evaluation, of a batch; "" for nothing.
enum class Answer { nothing, data_error, other };

Answer answer_to(const std::function<void()>& ask, std::string& message) {
  try {
    ask();
    return Answer::nothing;
  } catch (const DataError& error) {
    message = error.what();
    return Answer::data_error;
  } catch (const std::exception& error) {
    message = error.what();
    message = message.substr(0, message.find('\n'));
    return Answer::other;
  }
}

void expect_refused(const std::string& what, bool may_accept, const std::function<void()>& ask) {
  std::string message;
  const Answer answer = answer_to(ask, message);
  if (answer == Answer::data_error || (answer == Answer::nothing && may_accept)) return;
  throw Failure(fmt::format("{}{}; expected a DataError that names the field", what,
                            answer == Answer::nothing ? " was accepted" : " threw: " + message));
}

}  // namespace

std::string check_metrics(const TaskFixture& fixture) {
  const Pair pair = fixture.pair(false);
  const std::vector<MetricInfo> infos = pair.task->metrics();
  expect(!infos.empty(), "metrics() states nothing");
  expect(infos[0].better != Better::neither,
         fmt::format("the first metric, '{}', is what runs are judged by, and has no direction "
                     "(Better::neither)",
                     infos[0].name));
  std::set<std::string> stated;
  for (const MetricInfo& info : infos) {
    expect(!info.name.empty() && stated.insert(info.name).second,
           fmt::format("metrics() states '{}' twice, or without a name", info.name));
    for (const std::string& word : {info.name, info.unit}) {
      expect(one_line(word) == word,
             fmt::format("metrics() states '{}' as a name or a unit, which is shown as '{}'; use "
                         "few characters, and none for control",
                         word, one_line(word)));
    }
  }
  const Metrics test = fixture.evaluate(pair, batches_of(fixture, 4));
  Metrics all = test;
  const auto training = [&] { return fixture.evaluate(pair, batches_of(fixture, 4)); };
  all.merge(pair.task->conclude(training, test));
  expect(test.count(infos[0].name) > 0,
         fmt::format("evaluate() does not give '{}', which metrics() states first", infos[0].name));
  for (const auto& [name, value] : all) {
    expect(is_stated(name, stated),
           fmt::format(
               "evaluate() or conclude() gives '{}', which metrics() does not state; there is {}",
               name, join({stated.begin(), stated.end()}, ", ")));
  }
  for (const MetricInfo& info : infos) {
    const auto found = all.find(info.name);
    expect(found != all.end(),
           fmt::format("metrics() states '{}', which neither evaluate() nor conclude() gives",
                       info.name));
    expect_value(info, found->second);
  }
  std::vector<std::string> names;
  for (const MetricInfo& info : infos) names.push_back(info.name);
  return join(names, ", ");
}

std::string check_batches(const TaskFixture& fixture) {
  const Pair pair = fixture.pair(false);
  const Metrics expected = fixture.evaluate(pair, batches_of(fixture, kMetricExamples));
  for (const std::int64_t size : {1, 5}) {
    std::vector<Batch> batches = batches_of(fixture, size);
    const std::string what = fmt::format("in batches of {}", size);
    expect_same(what + ", against all in one", fixture.evaluate(pair, batches), expected);
    std::reverse(batches.begin(), batches.end());
    expect_same(what + " from the last to the first", fixture.evaluate(pair, batches), expected);
  }
  return "";
}

std::string check_evaluation(const TaskFixture& fixture) {
  const Pair pair = fixture.pair(false);
  const std::vector<Batch> batches = batches_of(fixture, 4);
  std::vector<Tensor> before;
  for (const auto& [name, tensor] : kept_tensors(*pair.model)) before.push_back(tensor.clone());
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const Tensor random = generator.get_state();
  const Metrics first = fixture.evaluate(pair, batches);
  expect(generator.get_state().equal(random),
         "an evaluation draws from LibTorch's random numbers, which moves those of training; draw "
         "from Evaluation::streams");
  expect_same("evaluated a second time", fixture.evaluate(pair, batches), first);
  std::size_t i = 0;
  for (const auto& [name, tensor] : kept_tensors(*pair.model)) {
    expect_identical(fmt::format("after an evaluation, the model's '{}'", name), tensor,
                     before[i++]);
    expect(!tensor.grad().defined(),
           fmt::format("an evaluation leaves a gradient at the model's '{}'", name));
  }
  expect(!pair.model->is_training() && !pair.task->is_training(),
         "an evaluation leaves model or task in training mode");
  return "";
}

std::string check_labels(const TaskFixture& fixture) {
  const std::vector<std::string> labels = fixture.labels();
  if (labels.empty()) throw NotApplicable("it takes no field with categories");
  for (const std::string& field : labels) {
    const std::int64_t above = fixture.data().info().field(field).categories;
    for (const std::int64_t value : {above, above + 1000, std::int64_t{-1}}) {
      const Batch wrong = labelled(fixture.batch(0, 3), field, value);
      const bool may_accept = value < 0;  // "no label"
      const std::string what = fmt::format("'{}' {} of {} categories, in ", field, value, above);
      expect_refused(what + "training", may_accept,
                     [&] { TaskFixture::step(fixture.pair(true), wrong); });
      expect_refused(what + "an evaluation", may_accept,
                     [&] { fixture.evaluate(fixture.pair(false), {wrong}); });
    }
  }
  return join(labels, ", ");
}

std::string check_inputs_unchanged(const TaskFixture& fixture) {
  const Batch batch = fixture.batch(0, 4);
  Batch copy = batch;
  for (const auto& [name, tensor] : batch.fields) copy.fields.set(name, tensor.clone());
  const Pair trained = fixture.pair(true), evaluated = fixture.pair(false);
  TaskFixture::step(trained, batch).backward();
  fixture.evaluate(evaluated, {batch});
  expect(batch.fields.size() == copy.fields.size(), "fields of the batch came or went");
  for (const auto& [name, tensor] : copy.fields) {
    expect_identical(fmt::format("after a step and an evaluation, the batch's field '{}'", name),
                     batch.fields.at(name), tensor);
  }
  return "";
}

std::string check_process_state(const TaskFixture& fixture) {
  const Pair trained = fixture.pair(true), evaluated = fixture.pair(false);
  const Batch batch = fixture.batch(0, 4);
  const ProcessState before;
  const bool gradients = at::GradMode::is_enabled();
  TaskFixture::step(trained, batch).backward();
  fixture.evaluate(evaluated, {batch});
  std::vector<std::string> changes = before.changes();
  if (at::GradMode::is_enabled() != gradients) changes.emplace_back("autograd's mode");
  expect(changes.empty(), "a step and an evaluation change " + join(changes, " and "));
  return "";
}

std::string check_memory(const TaskFixture& fixture) {
  const Pair trained = fixture.pair(true), evaluated = fixture.pair(false);
  const Batch batch = fixture.batch(0, 4);
  expect_no_leak("a step", [&] { TaskFixture::step(trained, batch).backward(); });
  expect_no_leak("an evaluation", [&] { fixture.evaluate(evaluated, {batch}); });
  return "";
}

}  // namespace attnlab::conformance
