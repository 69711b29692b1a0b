#include "plugins/datasets/language/text_stream/questions.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/base/foreign_text.h"
#include "framework/base/parsed_json.h"
#include "framework/base/text.h"
#include "framework/base/unicode.h"

namespace attnlab {
namespace {

using Json = nlohmann::json;

/// A line's map, and where it stands.
class Line {
 public:
  Line(std::string place, std::string_view text, std::string form)
      : place_(std::move(place)), form_(std::move(form)) {
    try {
      map_ = parsed_json(text);
    } catch (const Json::exception& error) {
      throw problem("is not sound JSON: " + one_line(error.what()));
    }
    if (!map_.is_object()) throw problem("expected a map {...}, found " + excerpt(text));
  }

  const std::string& place() const { return place_; }
  bool has(const char* key) const { return map_.contains(key); }
  DataError problem(const std::string& what) const {
    return DataError(
        fmt::format("{}: {}; docs/language.md has the layout of {}", place_, what, form_));
  }

  const Json& at(const Json& map, const char* key) const {
    const auto found = map.find(key);
    if (found == map.end()) throw problem(fmt::format("lacks '{}'", key));
    return *found;
  }
  const Json& at(const char* key) const { return at(map_, key); }

  std::string text(const Json& map, const char* key) const {
    const Json& value = at(map, key);
    if (value.is_string()) return value.get<std::string>();
    throw problem(fmt::format("'{}' is not a text", key));
  }
  std::string text(const char* key) const { return text(map_, key); }

  std::vector<std::string> texts(const Json& map, const char* key) const {
    const Json& list = at(map, key);
    if (!list.is_array() ||
        !std::all_of(list.begin(), list.end(), [](const Json& item) { return item.is_string(); })) {
      throw problem(fmt::format("'{}' is not a list of texts", key));
    }
    return list.get<std::vector<std::string>>();
  }
  std::vector<std::string> texts(const char* key) const { return texts(map_, key); }

  /// What the file says of the right choice: 2, or "2".
  std::string label() const { return plain_text(at("label")); }

 private:
  std::string place_, form_;
  Json map_;
};

/// A question as a form has it.
struct Drawn {
  std::string context;
  std::vector<std::string> choices;
  std::string label;
};

std::string replaced(std::string_view text, std::string_view what, std::string_view by) {
  std::string out;
  for (std::size_t at = 0;;) {
    const std::size_t found = text.find(what, at);
    out += text.substr(at, found - at);
    if (found == std::string_view::npos) return out;
    out += by;
    at = found + what.size();
  }
}

/// Without WikiHow's marks: " [title]" becomes a full stop, other brackets on one line go.
std::string without_marks(std::string_view text) {
  const std::string stopped = replaced(trimmed(text), " [title]", ". ");
  std::string out;
  for (std::size_t at = 0; at < stopped.size();) {
    const std::size_t close = stopped[at] == '[' ? stopped.find_first_of("]\n", at) : stopped.npos;
    if (close != stopped.npos && stopped[close] == ']') {
      at = close + 1;
    } else {
      out += stopped[at++];
    }
  }
  return replaced(out, "  ", " ");
}

/// As Python's str.capitalize, of ASCII.
std::string capitalised(std::string text) {
  for (char& c : text) {
    const bool first = &c == &text.front();
    if (first && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    if (!first && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

std::string asked(const std::string& question) { return "Question: " + question + "\nAnswer:"; }

Drawn lambada(const Line& line) {
  const std::string text = line.text("text");
  const std::size_t blank = text.rfind(' ');
  if (blank == text.npos) return {"", {text}, "0"};
  return {text.substr(0, blank), {text.substr(blank + 1)}, "0"};
}

Drawn hellaswag(const Line& line) {
  Drawn drawn;
  drawn.context =
      without_marks(line.has("ctx_b") ? line.text("activity_label") + ": " + line.text("ctx_a") +
                                            " " + capitalised(line.text("ctx_b"))
                                      : line.text("ctx"));
  for (const std::string& ending : line.texts("endings")) {
    drawn.choices.push_back(without_marks(ending));
  }
  drawn.label = line.label();
  return drawn;
}

Drawn piqa(const Line& line) {
  return {asked(line.text("goal")),
          {line.text("sol1"), line.text("sol2")},
          line.has("label") ? line.label() : ""};
}

Drawn arc(const Line& line) {
  const Json& question = line.at("question");
  Drawn drawn;
  std::vector<std::string> labels;
  if (question.is_object()) {
    drawn.context = asked(line.text(question, "stem"));
    const Json& choices = line.at(question, "choices");
    if (!choices.is_array()) throw line.problem("'choices' is not a list");
    for (const Json& choice : choices) {
      if (!choice.is_object()) throw line.problem("one of 'choices' is not a map");
      drawn.choices.push_back(line.text(choice, "text"));
      labels.push_back(line.text(choice, "label"));
    }
  } else {
    drawn.context = asked(line.text("question"));
    const Json& choices = line.at("choices");
    if (!choices.is_object()) throw line.problem("'choices' is not a map of 'text' and 'label'");
    drawn.choices = line.texts(choices, "text");
    labels = line.texts(choices, "label");
  }
  const std::string key = line.text("answerKey");
  const auto right = std::find(labels.begin(), labels.end(), key);
  if (right == labels.end()) {
    throw line.problem(
        fmt::format("answerKey is {}, and the choices are {}", excerpt(key), join(labels, ", ")));
  }
  drawn.label = std::to_string(right - labels.begin());
  return drawn;
}

Drawn choices(const Line& line) {
  return {line.text("context"), line.texts("choices"), line.label()};
}

Drawn drawn_of(const Line& line, const std::string& form) {
  if (form == "lambada") return lambada(line);
  if (form == "hellaswag") return hellaswag(line);
  if (form == "piqa") return piqa(line);
  return form == "arc" ? arc(line) : choices(line);
}

Question question_of(const Line& line, const Drawn& drawn) {
  Question question;
  question.place = line.place();
  const std::size_t kept = drawn.context.find_last_not_of(" \t\n\v\f\r") + 1;
  question.context = drawn.context.substr(0, kept);
  for (const std::string& choice : drawn.choices) {
    if (trimmed(choice).empty()) {
      throw line.problem(fmt::format("choice {} is empty", question.choices.size()));
    }
    question.choices.push_back(drawn.context.substr(kept) + " " + choice);
    question.characters.push_back(std::count_if(choice.begin(), choice.end(), begins_character));
  }
  const std::string& label = drawn.label;
  const bool digits =
      !label.empty() && label.size() < 10 && label.find_first_not_of("0123456789") == label.npos;
  question.label = digits ? std::stoll(label) : -1;
  if (question.label < 0 || question.label >= std::ssize(question.choices)) {
    throw line.problem(fmt::format("the label is {}, and there are {} choices, numbered from 0",
                                   label.empty() ? "missing" : excerpt(label),
                                   question.choices.size()));
  }
  return question;
}

/// Calls use(its number from 1 on, the line) for lines that are not empty.
template <class Use>
void each_line(const TextPiece& file, const Use& use) {
  std::size_t number = 1;
  for (std::size_t begin = 0; begin < file.text.size(); ++number) {
    const std::size_t end = std::min(file.text.find('\n', begin), file.text.size());
    const std::string_view line = trimmed(file.text.substr(begin, end - begin));
    if (!line.empty()) use(number, line);
    begin = end + 1;
  }
}

}  // namespace

std::vector<Question> read_questions(const TextPiece& file, const std::string& form,
                                     const TextPiece* labels) {
  std::vector<std::string> right;
  if (labels != nullptr) {
    each_line(*labels, [&](std::size_t, std::string_view line) { right.emplace_back(line); });
  }
  std::vector<Question> questions;
  each_line(file, [&](std::size_t number, std::string_view text) {
    const Line line(fmt::format("{}:{}", file.path, number), text, form);
    Drawn drawn = drawn_of(line, form);
    const std::size_t index = questions.size();
    // That there are too few is said below.
    if (labels != nullptr) drawn.label = index < right.size() ? right[index] : "0";
    questions.push_back(question_of(line, drawn));
  });
  if (labels != nullptr && right.size() != questions.size()) {
    throw DataError(
        fmt::format("{} has {} labels, and {} has {} questions; take both files from one "
                    "split",
                    labels->path, right.size(), file.path, questions.size()));
  }
  return questions;
}

}  // namespace attnlab
