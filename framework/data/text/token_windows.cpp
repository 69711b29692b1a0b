#include "framework/data/text/token_windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace attnlab {
namespace {

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0); }

/// Where the parts of a text's lines begin, each of at most `longest` tokens, and where the last
/// one ends.
std::vector<std::int64_t> parts_of_lines(const TokenSpan& tokens, std::int64_t line_end,
                                         std::int64_t longest) {
  if (tokens.size() == 0) return {};
  std::vector<std::int64_t> begins = {0};
  for (std::int64_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] == line_end || i + 1 - begins.back() == longest) begins.push_back(i + 1);
  }
  if (begins.back() < tokens.size()) begins.push_back(tokens.size());
  return begins;
}

}  // namespace

TokenWindows::TokenWindows(const WindowOptions& options, Vocabulary vocabulary,
                           const std::array<TokenSpan, 3>& splits)
    : options_(options), vocabulary_(std::move(vocabulary)), splits_(splits) {
  if (options.stride > options.window) {
    throw OptionError(
        "stride", fmt::format("{} is above window, {}: tokens in between would not be predicted",
                              options.stride, options.window));
  }
  if (options.lines && options.stride > 0) {
    throw OptionError("stride", "lines have none; set lines: false, or stride: 0");
  }
  if (options.lines && vocabulary_.line_end() < 0) {
    throw OptionError("lines", "the training text has no line ends");
  }
  for (const Split split : {Split::train, Split::validation, Split::test}) {
    const std::int64_t count = tokens(split).size();
    if (options.lines) {
      parts_[static_cast<std::size_t>(split)] =
          parts_of_lines(tokens(split), vocabulary_.line_end(), options.window);
    } else if (count == 1) {
      throw DataError("the " + std::string(name_of(split)) +
                      " split has one token: there is nothing to predict; give it more text");
    }
  }
  info_.vocabulary = vocabulary_.size();
  const std::int64_t length = options.lines ? -1 : options.window;
  info_.fields = {
      {.name = "tokens", .shape = {length}, .dtype = at::kLong, .categories = info_.vocabulary},
      {.name = "targets", .shape = {length}, .dtype = at::kLong, .categories = info_.vocabulary}};
  if (options.lines) {
    info_.fields.push_back({.name = "tokens_valid", .shape = {-1}, .dtype = at::kBool});
  }
  info_.unit = info_.unit_field = "tokens";
}

std::int64_t TokenWindows::size(Split split) const {
  if (!options_.lines) return tokens(split).size();
  const auto& parts = parts_[static_cast<std::size_t>(split)];
  return parts.empty() ? 0 : static_cast<std::int64_t>(parts.size()) - 1;
}

std::pair<std::int64_t, std::int64_t> TokenWindows::part_of_line(Split split,
                                                                 std::int64_t index) const {
  const auto& parts = parts_[static_cast<std::size_t>(split)];
  const auto i = static_cast<std::size_t>(index);
  return {parts[i], parts[i + 1] - parts[i]};
}

NamedTensors TokenWindows::make_example(Split split, std::int64_t index, Random*) const {
  const TokenSpan& all = tokens(split);
  std::int64_t first = index + 1, length = options_.window;  // of the targets
  if (options_.lines) std::tie(first, length) = part_of_line(split, index);
  const std::int64_t there = std::min(length, all.size() - first);
  Tensor inputs = at::zeros({length}, at::kLong), targets = at::full({length}, -1, at::kLong);
  auto* input = inputs.data_ptr<std::int64_t>();
  auto* target = targets.data_ptr<std::int64_t>();
  // A text's first line follows a line's end like any other.
  input[0] = first == 0 ? vocabulary_.line_end() : all[first - 1];
  for (std::int64_t i = 0; i < there; ++i) {
    target[i] = all[first + i];
    if (i + 1 < length) input[i + 1] = target[i];
  }
  if (options_.stride > 0 && split != Split::train && index > 0) {
    const std::int64_t rest = index % options_.stride;  // the last window may lie nearer
    const std::int64_t counted = rest == 0 ? options_.stride : rest;
    std::fill_n(target, length - counted, -1);
  }
  return {{"tokens", inputs}, {"targets", targets}};
}

Batch TokenWindows::collate(const std::vector<NamedTensors>& examples) const {
  Batch batch = Dataset::collate(examples);
  if (options_.lines) {
    batch.fields.at("targets").masked_fill_(batch.fields.at("tokens_valid").logical_not(), -1);
  }
  return batch;
}

std::int64_t TokenWindows::cost(Split split, std::int64_t index) const {
  return options_.lines ? part_of_line(split, index).second : options_.window;
}

std::int64_t TokenWindows::rows_within(const PlanRequest& request) const {
  if (request.budget == 0) return request.batch_size;
  if (request.budget >= options_.window) return request.budget / options_.window;
  throw DataError(fmt::format(
      "a window of {} tokens is more than train.batching.budget ({}) holds; raise the budget",
      options_.window, request.budget));
}

EpochPlan TokenWindows::plan(const PlanRequest& request) const {
  if (options_.lines || size(request.split) == 0) return default_plan(*this, request);
  if (request.training) {
    return options_.order == "random" ? random(request)
                                      : stream(request.split, rows_within(request), request.repeat);
  }
  if (options_.stride > 0 && request.split != Split::train) return sliding(request);
  const std::int64_t rows = options_.eval_rows > 0 ? options_.eval_rows : rows_within(request);
  return stream(request.split, rows, 1);
}

/// Rows of equally many windows; only the last row may lack some, and gets windows without targets
/// in their place. With `repeat` the text stands there as often, each row behind itself.
EpochPlan TokenWindows::stream(Split split, std::int64_t rows, std::int64_t repeat) const {
  const std::int64_t targets = tokens(split).size() - 1;
  const std::int64_t windows = divided_up(targets, options_.window);
  const std::int64_t length = divided_up(windows, rows);
  rows = divided_up(windows, length);
  EpochPlan plan;
  plan.continues = true;
  plan.order.reserve(static_cast<std::size_t>(repeat * length * rows));
  for (std::int64_t k = 0; k < repeat * length; ++k) {
    for (std::int64_t row = 0; row < rows; ++row) {
      // The last position has no target.
      plan.order.push_back(std::min((row * length + k % length) * options_.window, targets));
    }
    plan.ends.push_back(static_cast<std::int64_t>(plan.order.size()));
  }
  return plan;
}

EpochPlan TokenWindows::random(const PlanRequest& request) const {
  const std::int64_t targets = tokens(request.split).size() - 1, rows = rows_within(request);
  const std::int64_t places = std::max<std::int64_t>(1, targets - options_.window + 1);
  const std::int64_t batches = std::max<std::int64_t>(1, targets / (options_.window * rows));
  Random draw = request.streams.stream("order", request.epoch);
  EpochPlan plan;
  for (std::int64_t batch = 0; batch < batches * request.repeat; ++batch) {
    for (std::int64_t row = 0; row < rows; ++row) plan.order.push_back(draw.below(places));
    plan.ends.push_back(static_cast<std::int64_t>(plan.order.size()));
  }
  return plan;
}

/// Every window has all of its tokens: the last one begins as near to the one before as it must.
EpochPlan TokenWindows::sliding(const PlanRequest& request) const {
  const std::int64_t targets = tokens(request.split).size() - 1, rows = rows_within(request);
  const std::int64_t last = std::max<std::int64_t>(0, targets - options_.window);
  EpochPlan plan;
  for (std::int64_t begin = 0; begin < last; begin += options_.stride) plan.order.push_back(begin);
  plan.order.push_back(last);
  const auto count = static_cast<std::int64_t>(plan.order.size());
  for (std::int64_t end = rows; end < count; end += rows) plan.ends.push_back(end);
  plan.ends.push_back(count);
  return plan;
}

}  // namespace attnlab
