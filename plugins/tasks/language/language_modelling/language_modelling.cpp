// Language modelling: the next token of a text.
//
//   nll                 mean over targets of -log p(target | what stands before it), in nats
//   perplexity          exp(nll)
//   bits_per_character  nll / log 2, where tokens are characters; bits_per_byte likewise
//   context/64/...      the same over targets with 33 to 64 tokens of context (with `context`)
//   accuracy            with `answers`: share of targets that are the model's most likely token
//   exact               with `answers`: share of lines with targets whose every target is that
//
// With `requests` examples are questions, and request_meter.h says what is measured.
//
// The model gives the numbers -log p itself, as `nll` [B, L]: an adaptive softmax is a part of the
// model, and probabilities of all words would not fit into memory. With `answers` it also gives its
// most likely tokens, `answers` [B, L], where there are targets. Negative targets do not count.
// The loss of training is nll; sums of evaluations are in double precision.
// Source: metrics as in kimiyoung/transformer-xl, 44781ed2.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "framework/plugin.h"
#include "plugins/tasks/language/language_modelling/request_meter.h"

namespace attnlab {
namespace {

struct LanguageModellingOptions {
  std::string unit = "word";
  bool context = false, answers = false, requests = false;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("unit", unit, one_of("word", "character", "byte", "byte_pair"),
      "what the dataset's tokens are: ${dataset.unit}; adds bits_per_character or bits_per_byte");
    v("context", context,
      "also report predictions by the number of tokens before the target in its window: 1, 2, 4, "
      "8, ...");
    v("answers", answers,
      "also report accuracy (then the first metric) and exact: whether the most likely tokens are "
      "the targets; needs model.answers");
    v("requests", requests,
      "the dataset's examples are questions (dataset.form): accuracy of choices; perplexity and, "
      "with `answers`, accuracy of continuations");
  }
};

/// Targets with more than half of `most` tokens of context, and at most `most`.
struct ContextRange {
  std::int64_t first, most;
};

/// 1, 2, 3 to 4, 5 to 8, ... up to the window's length.
std::vector<ContextRange> reaches_within(std::int64_t window) {
  std::vector<ContextRange> all;
  for (std::int64_t most = 1; all.empty() || all.back().most < window; most *= 2) {
    all.push_back({most / 2 + 1, std::min(most, window)});
  }
  return all;
}

struct Sum {
  double nll = 0;
  std::int64_t count = 0;

  void add(const Sum& other) {
    nll += other.nll;
    count += other.count;
  }
  double mean() const { return nll / static_cast<double>(count); }
};

/// The output `nll`, checked against the targets [B, L].
const Tensor& checked_nll(const NamedTensors& outputs, const Tensor& targets,
                          std::int64_t vocabulary) {
  const Tensor& nll = outputs.at("nll");
  if (nll.sizes() != targets.sizes() || !nll.is_floating_point()) {
    throw ShapeError(
        fmt::format("nll: expected a number of floating point for each of the targets {}, got {}",
                    describe(targets), describe(nll)));
  }
  // To read numbers of another device would wait for it; the meter reads them anyway.
  if (targets.device().is_cpu() && targets.ge(vocabulary).any().item<bool>()) {
    throw DataError(
        fmt::format("targets: a token is not below the vocabulary's size, {}", vocabulary));
  }
  return nll;
}

/// The output `answers`, checked against the targets [B, L].
const Tensor& checked_answers(const NamedTensors& outputs, const Tensor& targets) {
  const Tensor& answers = outputs.at("answers");
  if (answers.sizes() == targets.sizes() && answers.scalar_type() == at::kLong) return answers;
  throw ShapeError(fmt::format("answers: expected a token for each of the targets {}, got {}",
                               describe(targets), describe(answers)));
}

/// Counts targets, and lines of them, that are answered rightly.
class AnswerCount {
 public:
  /// @param answers, targets  [B, L] on the CPU
  void add(const Tensor& answers, const Tensor& targets) {
    const Tensor asked = targets.ge(0), right = answers.eq(targets).logical_and(asked);
    const Tensor lines = asked.any(1);
    const Tensor exact = right.eq(asked).all(1).logical_and(lines);
    asked_ += asked.sum().item<std::int64_t>();
    right_ += right.sum().item<std::int64_t>();
    lines_ += lines.sum().item<std::int64_t>();
    exact_ += exact.sum().item<std::int64_t>();
  }
  double accuracy() const { return static_cast<double>(right_) / static_cast<double>(asked_); }
  double exact() const { return static_cast<double>(exact_) / static_cast<double>(lines_); }

 private:
  std::int64_t asked_ = 0, right_ = 0, lines_ = 0, exact_ = 0;
};

/// A meter of requests that checks what it is given.
class CheckedRequestMeter final : public Meter {
 public:
  CheckedRequestMeter(std::int64_t vocabulary, bool choices, bool answers)
      : vocabulary_(vocabulary), answers_(answers), meter_(choices, answers) {}

  void add(const NamedTensors& outputs, const Batch& batch) override {
    const Tensor targets = batch.fields.at("targets").to(at::kCPU);
    checked_nll(outputs, targets, vocabulary_);
    if (answers_) checked_answers(outputs, targets);
    meter_.add(outputs, batch);
  }
  Metrics result() const override { return meter_.result(); }

 private:
  std::int64_t vocabulary_;
  bool answers_;
  RequestMeter meter_;
};

class LanguageMeter final : public Meter {
 public:
  LanguageMeter(std::int64_t vocabulary, std::string bits, std::vector<ContextRange> reaches,
                bool answers)
      : vocabulary_(vocabulary), bits_(std::move(bits)), reaches_(std::move(reaches)) {
    if (answers) answers_.emplace();
  }

  void add(const NamedTensors& outputs, const Batch& batch) override {
    const Tensor targets = batch.fields.at("targets").to(at::kCPU).contiguous();
    const Tensor nll =
        checked_nll(outputs, targets, vocabulary_).detach().to(at::kCPU, at::kDouble).contiguous();
    const std::int64_t rows = targets.size(0), length = targets.size(1);
    if (std::ssize(sums_) < length) sums_.resize(static_cast<std::size_t>(length));
    const auto* target = targets.data_ptr<std::int64_t>();
    const auto* value = nll.data_ptr<double>();
    for (std::int64_t i = 0; i < rows * length; ++i) {
      if (target[i] >= 0) sums_[static_cast<std::size_t>(i % length)].add({value[i], 1});
    }
    if (answers_) answers_->add(checked_answers(outputs, targets).to(at::kCPU), targets);
  }

  Metrics result() const override {
    const Sum all = sum_of({1, std::ssize(sums_)});
    if (all.count == 0) throw Error("evaluation: there were no targets; is the split empty?");
    Metrics metrics = {{"nll", all.mean()}, {"perplexity", std::exp(all.mean())}};
    if (!bits_.empty()) metrics[bits_] = all.mean() / std::log(2.0);
    if (answers_) {
      metrics["accuracy"] = answers_->accuracy();
      metrics["exact"] = answers_->exact();
    }
    for (const ContextRange& reach : reaches_) {
      const Sum some = sum_of(reach);
      if (some.count == 0) continue;  // windows that overlap have no targets of little context
      const std::string name = fmt::format("context/{}/", reach.most);
      metrics[name + "nll"] = some.mean();
      metrics[name + "perplexity"] = std::exp(some.mean());
    }
    return metrics;
  }

 private:
  /// Over targets with so many tokens of context.
  Sum sum_of(const ContextRange& reach) const {
    Sum sum;
    for (std::int64_t i = reach.first; i <= std::min(reach.most, std::ssize(sums_)); ++i) {
      sum.add(sums_[static_cast<std::size_t>(i - 1)]);
    }
    return sum;
  }

  std::int64_t vocabulary_;
  std::string bits_;
  std::vector<ContextRange> reaches_;
  std::vector<Sum> sums_;               ///< by place in the window
  std::optional<AnswerCount> answers_;  ///< where they are asked for
};

class LanguageModelling final : public Task {
 public:
  LanguageModelling(const LanguageModellingOptions& options, const TaskSetup& setup)
      : unit_(options.unit),
        vocabulary_(setup.data.vocabulary),
        answers_(options.answers),
        requests_(options.requests),
        choices_(has_field(setup.data, "choice")) {
    if (vocabulary_ < 1) {
      throw DataError(fmt::format("dataset '{}' has no vocabulary; a language model needs tokens",
                                  setup.data.name));
    }
    if (answers_) check_given(setup.outputs);
    if (requests_ && !has_field(setup.data, "cut")) {
      throw OptionError("requests",
                        fmt::format("dataset '{}' has no questions; set dataset.form and "
                                    "dataset.requests, or requests: false",
                                    setup.data.name));
    }
    const std::int64_t window = setup.data.field("targets").shape.at(0);
    if (!options.context || requests_) return;
    if (window < 0) {
      throw OptionError(
          "context", fmt::format("needs windows of one length; the examples of dataset '{}' differ",
                                 setup.data.name));
    }
    reaches_ = reaches_within(window);
  }

  Tensor loss(const NamedTensors& outputs, const Batch& batch) const override {
    const Tensor& targets = batch.fields.at("targets");
    const Tensor& nll = checked_nll(outputs, targets, vocabulary_);
    const Tensor counts = targets.ge(0);
    return nll.masked_fill(counts.logical_not(), 0).sum() / counts.sum().clamp_min(1);
  }

  double weight(const Batch& batch) const override {
    return batch.fields.at("targets").ge(0).sum().item<double>();
  }

  std::vector<MetricInfo> metrics() const override {
    if (requests_) return RequestMeter::infos(choices_, answers_);
    const std::string per = bits().empty() ? "token" : unit_;
    const MetricInfo nll = {"nll", Better::lower, "nats/" + per};
    const MetricInfo perplexity = {"perplexity", Better::lower, ""};
    std::vector<MetricInfo> all = {perplexity, nll};
    if (!bits().empty()) all = {nll, {bits(), Better::lower, "bits/" + per}, perplexity};
    if (answers_) {
      const MetricInfo accuracy = {"accuracy", Better::higher, "share"};
      const MetricInfo exact = {"exact", Better::higher, "share"};
      all.insert(all.begin(), {accuracy, exact});
    }
    for (const ContextRange& reach : reaches_) {
      const std::string name = fmt::format("context/{}/", reach.most);
      all.push_back({name + nll.name, nll.better, nll.unit});
      all.push_back({name + perplexity.name, perplexity.better, perplexity.unit});
    }
    return all;
  }

  std::unique_ptr<Meter> meter() const override {
    if (requests_) return std::make_unique<CheckedRequestMeter>(vocabulary_, choices_, answers_);
    return std::make_unique<LanguageMeter>(vocabulary_, bits(), reaches_, answers_);
  }

 private:
  /// That the model gives answers. @param outputs  the model's, where it says; or none
  static void check_given(const std::vector<FieldInfo>& outputs) {
    const bool given =
        outputs.empty() || std::any_of(outputs.begin(), outputs.end(), [](const FieldInfo& output) {
          return output.name == "answers";
        });
    if (given) return;
    throw OptionError("answers",
                      "the model gives no answers; set model.answers: true (transformer_lm has "
                      "it), or task.answers: false");
  }

  static bool has_field(const DatasetInfo& data, std::string_view name) {
    return std::any_of(data.fields.begin(), data.fields.end(),
                       [&](const FieldInfo& field) { return field.name == name; });
  }

  /// The metric of bits; empty where a token is not part of a text of its own.
  std::string bits() const {
    return unit_ == "character" || unit_ == "byte" ? "bits_per_" + unit_ : "";
  }

  std::string unit_;
  std::int64_t vocabulary_;
  bool answers_, requests_, choices_;
  std::vector<ContextRange> reaches_;
};

}  // namespace

ATTNLAB_PLUGIN(
    task, LanguageModelling, LanguageModellingOptions,
    {.id = "attnlab/language_modelling",
     .version = "1.0.0",
     .summary = "the next token of a text: perplexity, NLL, bits per character, accuracy",
     .citation = "Dai et al., Transformer-XL, ACL 2019, arXiv:1901.02860",
     .licence = "Apache-2.0",
     .takes = {"nll", "targets", "answers?", "cut?", "choice?"},
     .ensemble = true})

}  // namespace attnlab
