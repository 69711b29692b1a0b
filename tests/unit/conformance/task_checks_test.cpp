// The kit passes a sound task, and each of its checks fails what is wrong.
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <cstdlib>
#include <memory>
#include <set>
#include <vector>

#include "tests/support/message_of.h"
#include "tests/unit/conformance/sound_outcome.h"
#include "tests/unit/conformance/wrong_task.h"

namespace attnlab::conformance::task_checks_test {
namespace {

using attnlab::testing::mentions;
using attnlab::testing::says;
using ::testing::AllOf;
using testing::failure;
using ::testing::HasSubstr;
using testing::Otherwise;
using testing::task_subject;
using testing::WrongTask;

void expect_sound(const TaskSubject& subject, const std::set<std::string>& not_applicable) {
  for (const CheckResult& result : run_checks(subject)) {
    const bool applies = not_applicable.count(result.check) == 0;
    const Outcome sound = testing::outcome_of_sound(result.check);
    EXPECT_EQ(result.outcome, applies ? sound : Outcome::not_applicable)
        << result.check << ": " << result.message;
  }
}

TEST(TaskChecks, PassASoundTask) { expect_sound(task_subject(), {"parameters", "save_and_load"}); }

/// Two numbers that scale and move the logits.
Otherwise with_a_head() {
  Otherwise otherwise;
  otherwise.prepare = [](WrongTask& task) { task.register_parameter("head", at::ones({2})); };
  otherwise.step = [](WrongTask& task, TrainingStep& step) {
    ForwardPass pass;
    const Tensor logits = step.model.forward(step.batch, pass).at("logits");
    const Tensor head = task.named_parameters()["head"];
    return classification_loss(logits * head[0] + head[1].tanh() * logits.pow(2),
                               step.batch.fields.at("class"), 0);
  };
  return otherwise;
}

TEST(TaskChecks, PassATaskWithParametersOfItsOwn) {
  TaskSubject subject = task_subject(with_a_head());
  subject.ensemble = false;
  expect_sound(subject, {"members"});
}

TEST(TaskChecks, MakeUpProblemsOfRowsAlongAnAxis) {
  // Node classification is the classification of all rows.
  class Nodes final : public ClassificationTask {
   public:
    using ClassificationTask::ClassificationTask;
    Tensor loss(const NamedTensors& outputs, const Batch& batch) const override {
      return classification_loss(outputs.at("logits@node"), batch.fields.at("class@node"), 0);
    }
    double weight(const Batch& batch) const override {
      return static_cast<double>(rows_of(batch, "node"));
    }
    std::unique_ptr<Meter> meter() const override { return std::make_unique<RowMeter>(); }

   private:
    struct RowMeter final : public Meter {
      void add(const NamedTensors& outputs, const Batch& batch) override {
        Batch rows;
        rows.fields.set("class", batch.fields.at("class@node"));
        rows.size = rows_of(batch, "node");
        single.add({{"logits", outputs.at("logits@node")}}, rows);
      }
      Metrics result() const override { return single.result(); }
      ClassificationMeter single;
    };
  };
  TaskSubject subject;
  subject.build = [](const TaskSetup& setup) {
    return std::make_shared<Nodes>(ClassificationOptions{}, setup);
  };
  subject.takes = {"logits@node", "class@node"};
  expect_sound(subject, {"members", "parameters", "save_and_load"});
}

TEST(TaskChecks, FindALossThatIsNotAScalar) {
  Otherwise many;
  many.loss = [](const NamedTensors& outputs, const Batch&) { return outputs.at("logits").sum(1); };
  EXPECT_THAT(failure("loss", many), mentions("1 examples", "[1] float64", "scalar"));
}

TEST(TaskChecks, FindALossWithoutGradients) {
  Otherwise detached;
  detached.loss = [](const NamedTensors& outputs, const Batch&) {
    return outputs.at("logits").detach().sum();
  };
  EXPECT_THAT(failure("loss", detached), HasSubstr("has no gradient"));
  Otherwise constant;
  constant.loss = [](const NamedTensors& outputs, const Batch&) {
    return outputs.at("logits").sum() * 0;
  };
  EXPECT_THAT(failure("loss", constant), HasSubstr("not depend on the model"));
}

TEST(TaskChecks, FindALossOfOtherRandomNumbers) {
  static double calls = 0;
  Otherwise unsteady;
  unsteady.step = [](WrongTask& task, TrainingStep& step) {
    return task.sound_step(step) * (1 + ++calls);
  };
  EXPECT_THAT(failure("loss", unsteady), HasSubstr("draw from TrainingStep::random"));
}

TEST(TaskChecks, FindMetricsThatAreNotStated) {
  Otherwise fewer;
  fewer.metrics = [](std::vector<MetricInfo> all) {
    all.pop_back();
    return all;
  };
  EXPECT_THAT(failure("metrics", fewer), mentions("'top5'", "metrics()", "accuracy, nll"));
}

TEST(TaskChecks, FindMetricsThatNobodyGives) {
  Otherwise more;
  more.metrics = [](std::vector<MetricInfo> all) {
    all.push_back({"f1", Better::higher, "share"});
    return all;
  };
  EXPECT_THAT(failure("metrics", more), mentions("'f1'", "neither", "conclude()"));
}

TEST(TaskChecks, FindAFirstMetricWithoutDirection) {
  Otherwise undecided;
  undecided.metrics = [](std::vector<MetricInfo> all) {
    all[0].better = Better::neither;
    return all;
  };
  EXPECT_THAT(failure("metrics", undecided), HasSubstr("has no direction"));
}

TEST(TaskChecks, FindAShareThatIsNone) {
  Otherwise percent;
  percent.evaluate = [](const WrongTask& task, Evaluation& evaluation) {
    Metrics metrics = task.sound_evaluate(evaluation);
    metrics["accuracy"] = 100 * (0.5 + metrics["accuracy"]);
    return metrics;
  };
  EXPECT_THAT(failure("metrics", percent), mentions("a share", "from 0 to 1"));
}

TEST(TaskChecks, FindMeansOfBatchesThatCountAlike) {
  Otherwise means;
  means.evaluate = [](const WrongTask& task, Evaluation& evaluation) {
    Metrics sums;
    double count = 0;
    evaluation.batches(evaluation.split, [&](const Batch& batch) {
      Evaluation one = evaluation;
      one.batches = [&](Split, const std::function<void(const Batch&)>& use) { use(batch); };
      for (const auto& [name, value] : task.sound_evaluate(one)) sums[name] += value;
      ++count;
    });
    for (auto& [name, value] : sums) value /= count;
    return sums;
  };
  EXPECT_THAT(failure("batches", means), HasSubstr("batches of 5"));
}

TEST(TaskChecks, FindALossThatDoesNotFall) {
  Otherwise rising;
  rising.step = [](WrongTask& task, TrainingStep& step) {
    return task.sound_step(step) + static_cast<double>(step.number);
  };
  EXPECT_THAT(failure("learning", rising), HasSubstr("it does not fall"));
}

TEST(TaskChecks, FindADirectionThatIsTurnedRound) {
  Otherwise turned;
  turned.metrics = [](std::vector<MetricInfo> all) {
    all[0].better = Better::lower;
    return all;
  };
  EXPECT_THAT(failure("learning", turned),
              AllOf(HasSubstr("the metric 'accuracy' went from "), HasSubstr("lower is better")));
}

TEST(TaskChecks, FindASumThatIsWeighedAsAMean) {
  Otherwise sum;
  sum.loss = [](const NamedTensors& outputs, const Batch& batch) {
    return classification_loss(outputs.at("logits"), batch.fields.at("class"), 0) *
           static_cast<double>(batch.size);
  };
  EXPECT_THAT(failure("weights", sum), mentions("weight()", "terms"));
  Otherwise nothing;
  nothing.weight = [](const Batch&) { return 0.0; };
  EXPECT_THAT(failure("weights", nothing), HasSubstr("expected a number above 0"));
}

TEST(TaskChecks, FindLossesThatAreNotTheStepsOnes) {
  Otherwise turned;
  turned.losses = [](const Tensor& losses) { return losses.flip(0); };
  EXPECT_THAT(failure("members", turned), HasSubstr("losses() of 2 members, against step()"));
}

TEST(TaskChecks, FindLabelsThatAreBentIntoRange) {
  Otherwise bent;
  bent.loss = [](const NamedTensors& outputs, const Batch& batch) {
    return classification_loss(outputs.at("logits"), batch.fields.at("class").clamp(0, 4), 0);
  };
  EXPECT_THAT(failure("labels", bent),
              mentions("'class'", "5 of 5 categories", "in training", "DataError"));
}

TEST(TaskChecks, FindLabelsThatEndInAnotherError) {
  Otherwise other;
  other.loss = [](const NamedTensors& outputs, const Batch& batch) {
    return -outputs.at("logits")
                .log_softmax(-1)
                .gather(1, batch.fields.at("class").unsqueeze(1))
                .mean();
  };
  EXPECT_THAT(failure("labels", other), HasSubstr("in training threw: "));
}

TEST(TaskChecks, NameAParameterThatTheLossDoesNotReach) {
  Otherwise idle;
  idle.prepare = [](WrongTask& task) { task.register_parameter("idle", at::ones({2})); };
  EXPECT_THAT(failure("parameters", idle), HasSubstr("not depend on idle"));
}

TEST(TaskChecks, FindWhatIsNotSaved) {
  Otherwise keeping = with_a_head();
  keeping.step = [inner = keeping.step](WrongTask& task, TrainingStep& step) {
    task.count += 1;
    return inner(task, step) * task.count;
  };
  EXPECT_THAT(failure("save_and_load", keeping), HasSubstr("a fresh one's loss is"));
}

TEST(TaskChecks, FindAnEvaluationThatChangesTheModel) {
  Otherwise tuning;
  tuning.evaluate = [](const WrongTask& task, Evaluation& evaluation) {
    const Metrics metrics = task.sound_evaluate(evaluation);
    for (Tensor& parameter : evaluation.model.parameters()) parameter.mul_(1.0001);
    return metrics;
  };
  EXPECT_THAT(failure("evaluation", tuning), HasSubstr("evaluated a second time: 'nll'"));
}

TEST(TaskChecks, FindAnEvaluationThatDrawsFromTheRunsRandomNumbers) {
  Otherwise drawing;
  drawing.evaluate = [](const WrongTask& task, Evaluation& evaluation) {
    at::rand({1});
    return task.sound_evaluate(evaluation);
  };
  EXPECT_THAT(failure("evaluation", drawing), HasSubstr("draw from Evaluation::streams"));
}

TEST(TaskChecks, FindABatchThatIsWrittenTo) {
  Otherwise writing;
  writing.step = [](WrongTask& task, TrainingStep& step) {
    Tensor(step.batch.fields.at("class")).fill_(0);
    return task.sound_step(step);
  };
  EXPECT_THAT(failure("inputs_unchanged", writing), HasSubstr("the batch's field 'class'"));
}

TEST(TaskChecks, FindAChangeOfTheProcess) {
  Otherwise meddling;
  meddling.step = [](WrongTask& task, TrainingStep& step) {
    at::set_num_threads(at::get_num_threads() + 1);
    return task.sound_step(step);
  };
  EXPECT_THAT(failure("process_state", meddling), HasSubstr("step and an evaluation"));
}

TEST(TaskChecks, FindAChangeOfTheProcessByAConstructor) {
  Otherwise meddling;
  meddling.prepare = [](WrongTask&) { ::setenv("ATTNLAB_TEST_MEDDLED", "1", 1); };
  EXPECT_THAT(failure("process_state", meddling), says({"building it", "ATTNLAB_TEST_MEDDLED"}));
  EXPECT_EQ(std::getenv("ATTNLAB_TEST_MEDDLED"), nullptr);
}

TEST(TaskChecks, FindMemoryThatIsNotGivenBack) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer's own allocations are not counted";
#endif
  static std::vector<std::unique_ptr<char[]>> kept;
  Otherwise keeping;
  keeping.step = [](WrongTask& task, TrainingStep& step) {
    kept.push_back(std::make_unique<char[]>(1000));
    return task.sound_step(step);
  };
  EXPECT_THAT(failure("memory", keeping), HasSubstr("a step keeps 1"));
  Otherwise remembering;
  remembering.evaluate = [](const WrongTask& task, Evaluation& evaluation) {
    kept.push_back(std::make_unique<char[]>(1000));
    return task.sound_evaluate(evaluation);
  };
  EXPECT_THAT(failure("memory", remembering), HasSubstr("an evaluation keeps 1"));
}

TEST(TaskChecks, FindAMetricThatIsNoWord) {
  Otherwise forging;
  forging.metrics = [](std::vector<MetricInfo> metrics) {
    metrics[0].unit = "share\nforged";
    return metrics;
  };
  EXPECT_THAT(failure("metrics", forging), mentions("metrics()", "'share\nforged'"));
}

TEST(TaskChecks, SayWhatCannotBeMadeUp) {
  TaskSubject subject = task_subject();
  subject.takes = {"boxes"};
  const CheckResult result = run_check("loss", subject);
  EXPECT_EQ(result.outcome, Outcome::failed);
  EXPECT_THAT(result.message, mentions("'boxes'", "name an experiment"));
}

}  // namespace
}  // namespace attnlab::conformance::task_checks_test
