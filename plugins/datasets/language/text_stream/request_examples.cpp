#include "plugins/datasets/language/text_stream/request_examples.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "framework/base/files.h"
#include "plugins/datasets/language/text_stream/corpus.h"

namespace attnlab {

RequestExamples::RequestExamples(const QuestionOptions& options, std::int64_t window,
                                 Vocabulary vocabulary, std::uint64_t key)
    : vocabulary_(std::move(vocabulary)), choices_(options.form != "lambada") {
  const TextPiece file = open_text(found_data(options.requests, "requests"));
  std::optional<TextPiece> labels;
  if (!options.labels.empty()) labels = open_text(found_data(options.labels, "labels"));
  const std::vector<Question> questions =
      read_questions(file, options.form, labels ? &*labels : nullptr);
  for (std::size_t i = 0; i < questions.size(); ++i) {
    add(questions[i], static_cast<std::int64_t>(i), window);
  }
  if (requests_.empty()) {
    throw DataError(file.path + ": holds no question; fetch the file again");
  }
  key = text_fingerprint({file}, fingerprint(options.form, key + std::uint64_t(window)));
  if (labels) key = text_fingerprint({*labels}, key);
  const auto cut = std::count_if(requests_.begin(), requests_.end(),
                                 [](const Request& request) { return request.cut > 0; });
  info_.name = std::filesystem::path(file.path).filename().string();
  info_.source = file.path;
  if (cut > 0) {
    info_.source += fmt::format(" ({} of {} requests are cut at their beginning, to {} tokens)",
                                cut, requests_.size(), window);
  }
  info_.fingerprint = hex(key);
  info_.vocabulary = vocabulary_.size();
  info_.fields = {
      {.name = "tokens", .shape = {-1}, .dtype = at::kLong, .categories = info_.vocabulary},
      {.name = "targets", .shape = {-1}, .dtype = at::kLong, .categories = info_.vocabulary},
      {.name = "tokens_valid", .shape = {-1}, .dtype = at::kBool},
      {.name = "cut", .shape = {}, .dtype = at::kLong}};
  if (choices_) info_.fields.push_back({.name = "choice", .shape = {5}, .dtype = at::kLong});
  info_.unit = info_.unit_field = "tokens";
}

std::int64_t RequestExamples::beginning(const std::string& place) const {
  if (vocabulary_.line_end() >= 0) return vocabulary_.line_end();
  const std::string end = "<|endoftext|>";
  const std::vector<std::int64_t> tokens = vocabulary_.encode(end);
  if (tokens.size() == 1 && vocabulary_.decode(tokens[0], -1) == end) return tokens[0];
  throw DataError(
      fmt::format("{}: the context is empty, and no token of the vocabulary ends a line "
                  "or a text; give a context",
                  place));
}

std::vector<std::int64_t> RequestExamples::tokens_of(const Question& question,
                                                     const std::string& text) const {
  try {
    return vocabulary_.encode(text);
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}: {}", question.place, error.what()));
  }
}

void RequestExamples::add(const Question& question, std::int64_t number, std::int64_t window) {
  const std::vector<std::int64_t> context = tokens_of(question, question.context);
  for (std::size_t k = 0; k < question.choices.size(); ++k) {
    Request request;
    request.tokens = tokens_of(question, question.context + question.choices[k]);
    request.targets = std::ssize(request.tokens) - std::ssize(context);
    if (request.targets < 1) {
      throw DataError(
          fmt::format("{}: choice {} has no tokens of its own after the context; give a longer "
                      "one, or choose another unit",
                      question.place, k));
    }
    if (request.targets > window) {
      throw DataError(fmt::format("{}: choice {} has {} tokens, and dataset.window is {}; raise it",
                                  question.place, k, request.targets, window));
    }
    if (context.empty()) {
      request.tokens.insert(request.tokens.begin(), beginning(question.place));
    }
    request.cut = std::max<std::int64_t>(0, std::ssize(request.tokens) - window - 1);
    request.tokens.erase(request.tokens.begin(), request.tokens.begin() + request.cut);
    request.choice = {number, std::int64_t(k), std::ssize(question.choices), question.label,
                      question.characters[k]};
    requests_.push_back(std::move(request));
  }
}

NamedTensors RequestExamples::make_example(Split, std::int64_t index, Random*) const {
  const Request& request = requests_[static_cast<std::size_t>(index)];
  const Tensor all = at::tensor(request.tokens, at::kLong);
  const std::int64_t length = all.size(0) - 1;
  const Tensor targets = all.narrow(0, 1, length).clone();
  targets.narrow(0, 0, length - request.targets).fill_(-1);
  NamedTensors example = {{"tokens", all.narrow(0, 0, length).clone()},
                          {"targets", targets},
                          {"cut", at::full({}, request.cut, at::kLong)}};
  if (choices_) example.set("choice", at::tensor(request.choice, at::kLong));
  return example;
}

Batch RequestExamples::collate(const std::vector<NamedTensors>& examples) const {
  Batch batch = Dataset::collate(examples);
  batch.fields.at("targets").masked_fill_(batch.fields.at("tokens_valid").logical_not(), -1);
  return batch;
}

}  // namespace attnlab
