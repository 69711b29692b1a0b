// Reading a value that a shell delimited.
#include <fmt/format.h>

#include "framework/base/text.h"
#include "framework/config/compose.h"

namespace attnlab {
namespace {

constexpr int kMostNested = 100;  // lists and maps around a value, as in a file

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool is_nothing(std::string_view word) {
  return word.empty() || word == "null" || word == "Null" || word == "NULL" || word == "~";
}

/// Numbers and words such as true are read from the text later.
Node plain(std::string_view text, const Place& place) {
  Node node = is_nothing(text) ? Node() : Node::scalar(std::string(text));
  node.set_place(place);
  return node;
}

class ValueParser {
 public:
  ValueParser(std::string_view text, const Place& place) : rest_(text), place_(place) {}

  /// All of the text, which begins with a bracket or a quote.
  Node parse() {
    const char first = rest_.front();
    Node node = value("");
    skip_blanks();
    if (!rest_.empty()) {
      const std::string closing = first == '[' ? "']'" : first == '{' ? "'}'" : "quote";
      refuse(fmt::format("'{}' stands behind the closing {}", rest_, closing));
    }
    return node;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw ConfigError(place_, what + "; put a text that holds such signs in quotes");
  }

  void skip_blanks() {
    while (!rest_.empty() && is_blank(rest_.front())) rest_.remove_prefix(1);
  }

  bool take(char sign) {
    skip_blanks();
    if (rest_.empty() || rest_.front() != sign) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::string_view cut(std::size_t size) {
    const std::string_view front = rest_.substr(0, size);
    rest_.remove_prefix(front.size());
    return front;
  }

  bool at_quote() const { return !rest_.empty() && (rest_[0] == '\'' || rest_[0] == '"'); }

  /// @param ends  what a text without quotes ends before
  Node value(std::string_view ends) {
    skip_blanks();
    if (at_quote()) return quoted();
    if (depth_ == kMostNested) {
      refuse(fmt::format("nested deeper than {} maps and lists", kMostNested));
    }
    ++depth_;
    Node node = take('[') ? list() : take('{') ? map() : plain(word(ends), place_);
    --depth_;
    return node;
  }

  Node list() {
    Node list = Node::list(place_);
    while (!take(']')) {
      skip_blanks();
      if (rest_.empty()) refuse("']' is missing");
      if (rest_.front() == ',') refuse("a value is missing between commas");
      list.items().push_back(value(",]"));
      end_item(']');
    }
    return list;
  }

  Node map() {
    Node map = Node::map(place_);
    while (!take('}')) {
      skip_blanks();
      if (rest_.empty()) refuse("'}' is missing");
      const std::string key = this->key();
      if (map.find(key) != nullptr) refuse(fmt::format("the key '{}' stands here twice", key));
      map.set(key, take(':') ? value(",}") : plain("", place_));
      map.set_key_place(key, place_);
      end_item('}');
    }
    return map;
  }

  std::string key() {
    if (at_quote()) return quoted().text();
    std::string key(word(",}", /*of_key=*/true));
    if (key.empty()) refuse("a key is missing");
    if (key.find(':') != std::string::npos) {
      refuse(fmt::format("'{}': a blank belongs behind the colon of 'key: value'", key));
    }
    return key;
  }

  void end_item(char closing) {
    if (take(',')) return;
    skip_blanks();
    if (rest_.empty()) refuse(fmt::format("'{}' is missing", closing));
    if (rest_.front() != closing) {
      refuse(fmt::format("expected ',' or '{}' before '{}'", closing, rest_));
    }
  }

  /// A text without quotes, up to one of `ends`; references such as ${env:A,b} are passed over.
  std::string_view word(std::string_view ends, bool of_key = false) {
    std::size_t size = 0;
    int references = 0;
    for (; size < rest_.size(); ++size) {
      const char c = rest_[size];
      if (c == '$' && rest_.substr(size, 2) == "${") {
        ++references;
        ++size;
      } else if (references > 0) {
        references -= c == '}' ? 1 : 0;
      } else if (ends.find(c) != std::string_view::npos || (of_key && ends_key(size))) {
        break;
      } else if (c == '[' || c == ']' || c == '{' || c == '}') {
        refuse(fmt::format("'{}' stands in a text", c));
      }
    }
    return trimmed(cut(size));
  }

  bool ends_key(std::size_t at) const {
    if (rest_[at] != ':') return false;
    return at + 1 == rest_.size() || is_blank(rest_[at + 1]) ||
           std::string_view(",}[{'\"").find(rest_[at + 1]) != std::string_view::npos;
  }

  Node quoted() {
    const char quote = rest_.front();
    std::string text(cut(1));
    while (true) {
      const std::size_t size = rest_.find_first_of(quote == '"' ? "\"\\\n" : "'");
      if (size == std::string_view::npos) refuse(fmt::format("the quote {} is not closed", quote));
      text += cut(size);
      const char sign = cut(1).front();
      if (sign == '\n') {  // which YAML would take for a blank
        text += "\\n";
      } else if (sign == '\\' || (quote == '\'' && rest_.starts_with(quote))) {
        text += quote == '\'' ? "'" : "\\";
        const std::string_view escaped = cut(1);
        if (quote == '"') text += escaped;
      } else {
        break;
      }
    }
    if (quote == '\'') return Node::scalar(text.substr(1), place_, true);
    try {
      return Node::scalar(parse_yaml(text + '"', "").text(), place_, true);
    } catch (const ConfigError& error) {
      refuse(fmt::format("{}\" cannot be read: {}", text, error.what()));
    }
  }

  std::string_view rest_;
  const Place& place_;
  int depth_ = 0;
};

}  // namespace

Node parse_value(const std::string& text, const Place& place) {
  check_text(text, place);
  const std::string_view value = trimmed(text);
  if (!value.empty() && std::string_view("[{'\"").find(value.front()) != std::string_view::npos) {
    return ValueParser(value, place).parse();
  }
  // A number, or nothing, has no blanks; a text keeps its own.
  const Node bare = plain(value, place);
  return bare.is_null() || bare.as_bool() || bare.as_double() ? bare : plain(text, place);
}

}  // namespace attnlab
