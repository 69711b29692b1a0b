#include "framework/document/markup.h"

#include <fmt/format.h>

#include <cstdint>

#include "framework/base/foreign_text.h"
#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/base/unicode.h"

namespace attnlab {
namespace {

std::string_view latex_of(char c) {
  switch (c) {
    case '\\':
      return "\\textbackslash{}";
    case '{':
      return "\\{";
    case '}':
      return "\\}";
    case '$':
      return "\\$";
    case '&':
      return "\\&";
    case '#':
      return "\\#";
    case '_':
      return "\\_";
    case '%':
      return "\\%";
    case '~':
      return "\\textasciitilde{}";
    case '^':
      return "\\textasciicircum{}";
    case '<':
      return "\\textless{}";
    case '>':
      return "\\textgreater{}";
    case '|':
      return "\\textbar{}";
    case '"':
      return "{\\char34}";
    case '\n':
    case '\r':
    case '\t':
      return " ";
    default:
      return {};
  }
}

std::string_view html_of(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return {};
  }
}

/// Signs of our own tables and captions, which are math in LaTeX.
constexpr std::pair<std::string_view, std::string_view> kMathSigns[] = {
    {"±", "$\\pm$"},     {"↑", "$\\uparrow$"}, {"↓", "$\\downarrow$"},
    {"†", "$\\dagger$"}, {"‡", "$\\ddagger$"}, {"τ²", "$\\tau^2$"}};

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// The text with other characters in place of those that have no place in it.
/// @param markup_of  what stands for an ASCII character; empty: itself
std::string marked(std::string_view given, std::string_view (*markup_of)(char),
                   std::string_view for_control) {
  const std::string valid = valid_utf8(given);
  std::string out;
  for (std::string_view text = valid; !text.empty();) {
    const std::string_view character = text.substr(0, character_size(text));
    text.remove_prefix(character.size());
    const std::string_view markup = markup_of(character[0]);
    const bool control =
        is_control(code_point(character)) && character != "\n" && character != "\t";
    out += !markup.empty() ? markup : control ? for_control : character;
  }
  return out;
}

}  // namespace

std::string html_text(std::string_view text) { return marked(text, html_of, kReplacement); }

std::string latex_text(std::string_view text) {
  std::string out = marked(text, latex_of, "");
  for (const auto& [sign, math] : kMathSigns) {
    for (std::size_t at = 0; (at = out.find(sign, at)) != std::string::npos; at += math.size()) {
      out.replace(at, sign.size(), math);
    }
  }
  return out;
}

std::string csv_field(std::string_view text) {
  std::string shown = printable(text);
  if (shown.find_first_of(",\"\n") == std::string::npos) return shown;
  std::string out = "\"";
  for (const char c : shown) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string csv_record(const std::vector<std::string>& fields) {
  std::vector<std::string> quoted;
  quoted.reserve(fields.size());
  for (const std::string& field : fields) quoted.push_back(csv_field(field));
  return join(quoted, ",") + "\r\n";
}

std::string script_json(const nlohmann::json& value) {
  const std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {  // both stand only inside strings
    if (c == '<') {
      out += "\\u003c";
    } else if (c == '>') {
      out += "\\u003e";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace attnlab
