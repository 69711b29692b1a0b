#include "framework/suites/sweep_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/experiment/identity.h"

namespace attnlab {
namespace {

constexpr std::size_t kMostValues = 10000;

[[noreturn]] void refuse(const std::string& source, const std::string& what) {
  throw ConfigError(fmt::format("argument '{}': {}", source, what));
}

constexpr const char* kQuoteIt = "; put a text that holds such signs in quotes";

/// Whether a quote at the end of a part opens a text: elsewhere it is an apostrophe.
bool opens_text(std::string_view part, bool in_brackets) {
  const std::string_view before = trimmed(part.substr(0, part.size() - 1));
  if (before.empty()) return true;
  return in_brackets && std::string_view("[{(,:").find(before.back()) != std::string_view::npos;
}

/// Parts at commas that stand in no bracket and no quotes.
std::vector<std::string> split(const std::string& text, const std::string& source) {
  std::vector<std::string> parts(1);
  std::string open;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ',' && open.empty() && quote == 0) {
      parts.emplace_back();
      continue;
    }
    parts.back() += c;
    if (quote == '"' && c == '\\' && i + 1 < text.size()) {
      parts.back() += text[++i];
    } else if (quote != 0) {
      if (c == quote) quote = 0;
    } else if ((c == '"' || c == '\'') && opens_text(parts.back(), !open.empty())) {
      quote = c;
    } else if (c == '(' || c == '[' || c == '{') {
      open += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) {
        refuse(source, fmt::format("'{}' closes nothing{}", c, kQuoteIt));
      }
      open.pop_back();
    }
  }
  if (!open.empty()) refuse(source, fmt::format("'{}' is missing{}", open.back(), kQuoteIt));
  if (quote != 0) refuse(source, fmt::format("the quote {} is not closed{}", quote, kQuoteIt));
  for (std::string& part : parts) part = std::string(trimmed(part));
  return parts;
}

/// The text between the parentheses of `name(...)`; false for any other text.
bool is_call(const std::string& text, const std::string& name, std::string& inside) {
  if (text.rfind(name + "(", 0) != 0 || text.back() != ')') return false;
  inside = text.substr(name.size() + 1, text.size() - name.size() - 2);
  return true;
}

/// `linspace(0, 1, 5)` would pass for a text.
void refuse_other_calls(const std::string& text, const std::string& source) {
  const std::size_t open = text.find('(');
  if (open == std::string::npos || open == 0 || text.back() != ')') return;
  const std::string near = nearest(text.substr(0, open), {"range", "logspace", "zip"});
  if (near.empty()) return;
  refuse(source,
         fmt::format(
             "there is no '{}(...)' here; did you mean '{}'? There are range(start, stop, step) "
             "and logspace(low, high, count), and zip(key=[...], ...) around whole arguments",
             text.substr(0, open), near));
}

double number_of(const std::string& text, const std::string& source) {
  const auto number = Node::scalar(text).as_double();
  if (!number || !std::isfinite(*number)) refuse(source, fmt::format("'{}' is not a number", text));
  return *number;
}

/// How many decimals a number is written with: 2 for 0.25, 4 for 1e-4.
int decimals_of(const std::string& text) {
  const std::size_t exponent_at = text.find_first_of("eE");
  const std::string digits = text.substr(0, exponent_at);
  const std::size_t point = digits.find('.');
  const int written = point == std::string::npos ? 0 : static_cast<int>(digits.size() - point - 1);
  constexpr long kMost = 1000;  // no double has a larger one; of 0 any may be written
  const long exponent = exponent_at == std::string::npos
                            ? 0
                            : std::strtol(text.c_str() + exponent_at + 1, nullptr, 10);
  return std::clamp(written - static_cast<int>(std::clamp(exponent, -kMost, kMost)), 0, 300);
}

/// A number as YAML reads it: 1000000 and not 1e+06, which would not be an integer.
std::string number_text(double value) {
  if (value == 0) return "0";
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (value != std::floor(value) || std::abs(value) > kExact) return shortest(value);
  char text[32];
  std::snprintf(text, sizeof text, "%.0f", value);
  return text;
}

/// Sums like 0.1 + 0.2 as the text means them.
double rounded(double value, int decimals) {
  char text[700];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return std::strtod(text, nullptr);
}

std::vector<std::string> range_values(const std::string& inside, const std::string& source) {
  const std::vector<std::string> parts = split(inside, source);
  if (parts.size() != 3) refuse(source, "expected range(start, stop, step)");
  const double start = number_of(parts[0], source), stop = number_of(parts[1], source);
  const double step = number_of(parts[2], source);
  if (step == 0) refuse(source, "the step of range(start, stop, step) is 0");
  const double steps = (stop - start) / step;
  if (steps < 0) {
    refuse(source, fmt::format("range(start, stop, step) never comes to {} from {} in steps of {}; "
                               "turn the step's sign",
                               parts[1], parts[0], parts[2]));
  }
  if (!(steps < static_cast<double>(kMostValues))) {
    refuse(source, fmt::format("more than {} values", kMostValues));
  }
  const int decimals = std::max(decimals_of(parts[0]), decimals_of(parts[2]));
  // The last one may miss the end by rounding: (0.3 - 0) / 0.1 is below 3.
  const auto count = static_cast<std::size_t>(std::floor(steps * (1 + 1e-12) + 1e-9)) + 1;
  std::vector<std::string> values;
  values.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    values.push_back(number_text(rounded(start + static_cast<double>(i) * step, decimals)));
  }
  return values;
}

std::vector<std::string> logspace_values(const std::string& inside, const std::string& source) {
  const std::vector<std::string> parts = split(inside, source);
  if (parts.size() != 3) refuse(source, "expected logspace(low, high, count)");
  const double low = number_of(parts[0], source), high = number_of(parts[1], source);
  const auto count = Node::scalar(parts[2]).as_int();
  if (low <= 0 || high <= 0) refuse(source, "logspace(low, high, count) needs numbers above 0");
  if (!count || *count < 2 || *count > static_cast<std::int64_t>(kMostValues)) {
    refuse(source, fmt::format("logspace(low, high, count) needs a count from 2 to {}, found '{}'",
                               kMostValues, parts[2]));
  }
  std::vector<std::string> values;
  values.reserve(static_cast<std::size_t>(*count));
  for (std::int64_t i = 0; i < *count; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(*count - 1);
    char text[32];  // twelve digits: 0.001 and not 0.0010000000000000002
    std::snprintf(text, sizeof text, "%.12g", low * std::pow(high / low, share));
    values.push_back(number_text(std::strtod(text, nullptr)));
  }
  return values;
}

/// Values however they are written: 1e-3 and 0.001 are one.
std::vector<std::string> canonical(const std::vector<std::string>& values,
                                   const std::string& source) {
  std::vector<std::string> all;
  all.reserve(values.size());
  for (const std::string& value : values) {
    all.push_back(canonical_text(parse_value(value, {fmt::format("argument '{}'", source), 0, 0})));
  }
  return all;
}

void refuse_doubles(const SweepAxis& axis) {
  std::set<std::vector<std::string>> seen;
  for (const auto& point : axis.points) {
    if (!seen.insert(canonical(point, axis.source)).second) {
      refuse(axis.source, fmt::format("'{}' stands twice", join(point, ", ")));
    }
  }
}

/// "a=[1,2]" inside of zip(): the key and its values.
void read_zipped(const std::string& part, SweepAxis& axis) {
  const std::size_t equals = part.find('=');
  if (equals == std::string::npos || equals == 0) {
    refuse(axis.source, fmt::format("expected zip(key=[...], key=[...]), found '{}'", part));
  }
  const std::string key(trimmed(part.substr(0, equals)));
  std::string value(trimmed(part.substr(equals + 1)));
  if (value.size() > 1 && value.front() == '[' && value.back() == ']') {
    value = value.substr(1, value.size() - 2);
  }
  const std::vector<std::string> values = sweep_values(value, axis.source);
  if (axis.keys.empty()) axis.points.resize(values.size());
  if (axis.points.size() != values.size()) {
    refuse(axis.source,
           fmt::format("'{}' has {} values and '{}' has {}; what is zipped has equally many",
                       axis.keys.front(), axis.points.size(), key, values.size()));
  }
  axis.keys.push_back(key);
  for (std::size_t i = 0; i < values.size(); ++i) axis.points[i].push_back(values[i]);
}

SweepAxis parse_zip(const std::string& inside, const std::string& source) {
  SweepAxis axis;
  axis.source = source;
  for (const std::string& part : split(inside, source)) read_zipped(part, axis);
  return axis;
}

void parse_word(const std::string& word, SweepWords& sweep) {
  std::string inside;
  if (is_call(std::string(trimmed(word)), "zip", inside)) {
    sweep.axes.push_back(parse_zip(inside, word));
    refuse_doubles(sweep.axes.back());
    return;
  }
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0) {
    refuse(word, "expected key=value, key=a,b, key=range(start,stop,step) or zip(key=[...],...)");
  }
  const char sign = word[equals - 1];
  const std::string value(trimmed(word.substr(equals + 1)));
  if (sign == '+' || sign == '-' || value.empty()) {  // the grammar of overrides
    sweep.fixed.push_back(word);
    return;
  }
  SweepAxis axis = sweep_axis(word.substr(0, equals), value, word);
  if (axis.points.size() > 1) {
    sweep.axes.push_back(std::move(axis));
  } else {
    const std::string& only = axis.points[0][0];
    const bool as_given = only == value;  // a text keeps its blanks
    sweep.fixed.push_back(as_given ? word : word.substr(0, equals + 1) + only);
  }
}

/// "3" or "0-4". @throws ConfigError.
/// @param seen  all that are in `seeds`
void add_seeds(const std::string& part, const std::string& text, std::vector<std::int64_t>& seeds,
               std::set<std::int64_t>& seen) {
  const std::size_t dash = part.find('-');
  const auto first = Node::scalar(part.substr(0, dash)).as_int();
  const auto last =
      dash == std::string::npos ? first : Node::scalar(part.substr(dash + 1)).as_int();
  if (!first || !last || *first < 0) {
    throw ConfigError(
        fmt::format("--seeds {}: '{}' is neither a seed nor a range like 0-4", text, part));
  }
  if (*last < *first || *last - *first >= static_cast<std::int64_t>(kMostValues)) {
    throw ConfigError(
        fmt::format("--seeds {}: '{}' is not a range of 1 to {} seeds", text, part, kMostValues));
  }
  for (std::int64_t i = 0; i <= *last - *first; ++i) {  // a seed may be the largest number
    const std::int64_t seed = *first + i;
    if (!seen.insert(seed).second) {
      throw ConfigError(fmt::format("--seeds {}: {} stands twice", text, seed));
    }
    seeds.push_back(seed);
  }
}

/// "3" may be a seed or a number of seeds. @throws ConfigError that says how each is written.
void refuse_one_number(std::string_view text) {
  const auto number = Node::scalar(std::string(text)).as_int();
  if (!number || *number < 0) return;
  const std::string several =
      *number > 1 ? fmt::format("; for {} seeds write --seeds 0-{}", *number, *number - 1) : "";
  throw ConfigError(
      fmt::format("--seeds {0}: one number may be a seed or a number of seeds; for seed {0} alone "
                  "write --seeds '[{0}]'{1}",
                  *number, several));
}

}  // namespace

std::vector<std::string> sweep_values(const std::string& text, const std::string& source) {
  std::vector<std::string> values;
  for (const std::string& part : split(text, source)) {
    std::string inside;
    std::vector<std::string> more = {part};
    if (part.empty()) refuse(source, "a value is missing between commas");
    if (is_call(part, "range", inside)) {
      more = range_values(inside, source);
    } else if (is_call(part, "logspace", inside)) {
      more = logspace_values(inside, source);
    } else {
      refuse_other_calls(part, source);
    }
    values.insert(values.end(), more.begin(), more.end());
  }
  return values;
}

SweepAxis sweep_axis(const std::string& key, const std::string& values, const std::string& source) {
  SweepAxis axis{{key}, {}, source};
  for (const std::string& value : sweep_values(values, source)) axis.points.push_back({value});
  refuse_doubles(axis);
  return axis;
}

SweepWords parse_sweep(const std::vector<std::string>& arguments) {
  SweepWords sweep;
  std::vector<std::string> problems;
  for (const std::string& argument : arguments) {
    try {
      parse_word(argument.substr(std::min(argument.find_first_not_of(' '), argument.size())),
                 sweep);
    } catch (const ConfigError& error) {
      problems.emplace_back(error.what());
    }
  }
  if (!problems.empty()) throw ConfigError(problems);
  return sweep;
}

std::vector<std::int64_t> parse_seeds(const std::string& text) {
  const std::string_view given = trimmed(text);
  const bool list = given.size() > 1 && given.front() == '[' && given.back() == ']';
  refuse_one_number(given);
  const std::string inside(list ? given.substr(1, given.size() - 2) : given);
  std::vector<std::int64_t> seeds;
  std::set<std::int64_t> seen;
  for (const std::string& part : split(inside, "--seeds " + text)) {
    add_seeds(part, text, seeds, seen);
  }
  return seeds;
}

}  // namespace attnlab
