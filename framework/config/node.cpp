#include "framework/config/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/config/options.h"

namespace attnlab {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// [-+]?(0|[1-9][0-9]*): no leading zeros, so that `010` is neither ten nor eight.
bool is_decimal_integer(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  if (text.empty() || (text.size() > 1 && text[0] == '0')) return false;
  return std::all_of(text.begin(), text.end(), is_digit);
}

/// from_chars knows no plus sign; one before a minus stays, so that "+-5" is not a number.
std::string_view without_plus(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  return text;
}

bool looks_special(const std::string& text) {
  if (text.empty()) return true;
  const Node plain = Node::scalar(text);
  if (plain.as_bool() || plain.as_double()) return true;
  if (text == "~" || text == "null" || text == "Null" || text == "NULL") return true;
  if (is_digit(text[0]) || text[0] == '-' || text[0] == '+' || text[0] == '.') return true;
  if (text.front() == ' ' || text.back() == ' ') return true;
  if (text.rfind("\xEF\xBB\xBF", 0) == 0) return true;  // would be the file's byte-order mark
  static constexpr std::string_view kIndicators = "{}[],&*#?|<>=!%@`\"'\\";
  if (text.find_first_of(kIndicators) != std::string::npos) return true;
  // What a terminal must not see is quoted: there its escapes mean the same.
  if (text.find('\n') != std::string::npos || printable(text) != text) return true;
  return text.find(':') != std::string::npos;
}

bool must_be_given(const Node& node) { return !node.quoted() && node.text() == "???"; }

std::string scalar_text(const Node& node) {
  if (node.is_null()) return "null";
  if (must_be_given(node)) return node.text();  // quoted it would be a text
  if (!node.quoted() && !node.text().empty()) {
    const bool typed = node.as_bool() || node.as_double();
    if (typed || !looks_special(node.text())) return node.text();
  } else if (!looks_special(node.text())) {
    return node.text();
  }
  return json_quote(node.text());
}

void write_block(const Node& node, int indent, std::string& out);

std::string key_text(const std::string& key) { return looks_special(key) ? json_quote(key) : key; }

bool is_flow(const Node& node) {
  if (node.is_map()) return node.entries().empty();
  if (!node.is_list()) return true;
  return std::all_of(node.items().begin(), node.items().end(),
                     [](const Node& item) { return !item.is_map() && !item.is_list(); });
}

void write_block(const Node& node, int indent, std::string& out) {
  const std::string pad(static_cast<std::size_t>(indent), ' ');
  if (node.is_map()) {
    for (const auto& [key, value] : node.entries()) {
      out += fmt::format("{}{}:", pad, key_text(key));
      if (is_flow(value)) {
        out += fmt::format(" {}\n", to_flow(value));
      } else {
        out += "\n";
        write_block(value, indent + 2, out);
      }
    }
  } else {
    for (const Node& item : node.items()) out += fmt::format("{}- {}\n", pad, to_flow(item));
  }
}

}  // namespace

const Node::Body& Node::none() {
  static const Body none;
  return none;
}

Node Node::of_kind(Kind kind, Place place) {
  Node node;
  node.body_ = std::make_shared<Body>();
  node.body_->kind = kind;
  node.body_->place = std::move(place);
  return node;
}

Node Node::scalar(std::string text, Place place, bool quoted) {
  Node node = of_kind(Kind::scalar, std::move(place));
  node.body_->text = std::move(text);
  node.body_->quoted = quoted;
  return node;
}

Node Node::list(Place place) { return of_kind(Kind::list, std::move(place)); }

Node Node::map(Place place) { return of_kind(Kind::map, std::move(place)); }

Node::Body& Node::own() {
  if (body_ == nullptr) {
    body_ = std::make_shared<Body>();
  } else if (body_.use_count() > 1) {
    body_ = std::make_shared<Body>(*body_);
  }
  return *body_;
}

const Node* Node::find(std::string_view key) const {
  for (const auto& [name, value] : entries()) {
    if (name == key) return &value;
  }
  return nullptr;
}

Node* Node::find(std::string_view key) {
  if (std::as_const(*this).find(key) == nullptr) return nullptr;
  own();
  return const_cast<Node*>(std::as_const(*this).find(key));
}

const Node& Node::at(std::string_view key) const {
  const Node* value = find(key);
  if (value == nullptr) throw ConfigError(place(), fmt::format("'{}' is missing", key));
  return *value;
}

Node& Node::set(std::string_view key, Node value) {
  if (Node* present = find(key)) {
    *present = std::move(value);
    return *present;
  }
  Body& body = own();
  body.kind = Kind::map;
  return body.entries.emplace_back(std::string(key), std::move(value)).second;
}

bool Node::erase(std::string_view key) {
  const auto matches = [&](const auto& entry) { return entry.first == key; };
  if (std::none_of(body().key_places.begin(), body().key_places.end(), matches) &&
      std::as_const(*this).find(key) == nullptr) {
    return false;
  }
  std::erase_if(own().key_places, matches);
  return std::erase_if(own().entries, matches) > 0;
}

Place Node::key_place(std::string_view key) const {
  for (const auto& [name, place] : body().key_places) {
    if (name == key) return place;
  }
  const Node* value = find(key);
  return value == nullptr ? place() : value->place();
}

void Node::set_key_place(std::string_view key, Place place) {
  Body& body = own();
  for (auto& [name, present] : body.key_places) {
    if (name == key) {
      present = std::move(place);
      return;
    }
  }
  body.key_places.emplace_back(std::string(key), std::move(place));
}

std::optional<bool> Node::as_bool() const {
  if (!is_scalar() || quoted()) return std::nullopt;
  if (text() == "true" || text() == "True" || text() == "TRUE") return true;
  if (text() == "false" || text() == "False" || text() == "FALSE") return false;
  return std::nullopt;
}

std::optional<std::int64_t> Node::as_int() const {
  if (!is_scalar() || quoted() || !is_decimal_integer(text())) return std::nullopt;
  return parsed_number<std::int64_t>(without_plus(text()));
}

std::optional<double> Node::as_double() const {
  if (!is_scalar() || quoted()) return std::nullopt;
  if (text() == ".inf" || text() == "+.inf") return std::numeric_limits<double>::infinity();
  if (text() == "-.inf") return -std::numeric_limits<double>::infinity();
  if (text() == ".nan") return std::numeric_limits<double>::quiet_NaN();
  const std::string_view digits = without_plus(text());
  const std::string_view bare = !digits.empty() && digits[0] == '-' ? digits.substr(1) : digits;
  if (bare.empty() || !(is_digit(bare[0]) || (bare[0] == '.' && bare.size() > 1))) {
    return std::nullopt;  // keeps out "inf", "nan" and words
  }
  const std::string_view whole = bare.substr(0, bare.find_first_of(".eE"));
  if (whole.size() > 1 && whole[0] == '0') return std::nullopt;
  return parsed_number<double>(digits);
}

std::optional<std::string> Node::as_string() const {
  if (!is_scalar()) return std::nullopt;
  return text();
}

std::string to_flow(const Node& node) {
  if (node.is_list()) {
    std::vector<std::string> parts;
    for (const Node& item : node.items()) parts.push_back(to_flow(item));
    return fmt::format("[{}]", join(parts, ", "));
  }
  if (node.is_map()) {
    std::vector<std::string> parts;
    for (const auto& [key, value] : node.entries()) {
      parts.push_back(fmt::format("{}: {}", key_text(key), to_flow(value)));
    }
    return fmt::format("{{{}}}", join(parts, ", "));
  }
  return scalar_text(node);
}

std::string to_yaml(const Node& node) {
  Node escaped = node;
  escape_references(escaped);
  if (is_flow(escaped)) return to_flow(escaped) + "\n";
  std::string out;
  write_block(escaped, 0, out);
  return out;
}

void escape_references(Node& node) {
  if (!holds_text(node, "${")) return;
  std::string text = node.text();
  for (std::size_t at = text.find("${"); at != std::string::npos; at = text.find("${", at + 3)) {
    text.insert(at, 1, '$');
  }
  node.set_text(std::move(text));
  for (Node& item : node.items()) escape_references(item);
  for (auto& [key, value] : node.entries()) escape_references(value);
}

bool holds_text(const Node& node, std::string_view part) {
  const auto holds = [&](const Node& inner) { return holds_text(inner, part); };
  const auto& entries = node.entries();
  return node.text().find(part) != std::string::npos ||
         std::any_of(node.items().begin(), node.items().end(), holds) ||
         std::any_of(entries.begin(), entries.end(),
                     [&](const auto& entry) { return holds(entry.second); });
}

namespace {

[[noreturn]] void wrong_type(const Node& value, const char* expected) {
  throw ConfigError(value.place(), fmt::format("expected {}, found {}", expected, to_flow(value)));
}

}  // namespace

void OptionReader::read(const Node& value, bool& out) {
  const auto read = value.as_bool();
  if (!read) wrong_type(value, "true or false");
  out = *read;
}

void OptionReader::read(const Node& value, std::int64_t& out) {
  const auto read = value.as_int();
  if (!read) wrong_type(value, "an integer");
  out = *read;
}

void OptionReader::read(const Node& value, double& out) {
  const auto read = value.as_double();
  if (!read) wrong_type(value, "a number");
  out = *read;
}

void OptionReader::read(const Node& value, std::string& out) {
  const auto read = value.as_string();
  if (!read) wrong_type(value, "a string");
  out = *read;
}

std::size_t bytes_in(const Node& node) {
  std::size_t bytes = sizeof(Node) + sizeof(Node::Body) + node.text().size();
  for (const Origin& origin : node.history()) bytes += sizeof(Origin) + origin.value.size();
  for (const Node& item : node.items()) bytes += bytes_in(item);
  for (const auto& [key, value] : node.entries()) bytes += key.size() + bytes_in(value);
  return bytes;
}

}  // namespace attnlab
